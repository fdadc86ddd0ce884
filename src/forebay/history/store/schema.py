"""The tables of the history, one schema for SQLite and PostgreSQL.

Names are those of `darshan job_stats` where it has them. Sizes are bytes, times seconds, points in
time seconds since 1970, performance bytes per second.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

VERSION = 4
"""What `meta` says of a database made by this code; see migrations.py."""

metadata = MetaData()
_Id = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER counts up by itself in SQLite

meta = Table("forebay_meta", metadata, Column("key", String(40), primary_key=True), Column("value", Text))

apps = Table(
    "apps", metadata, Column("app_id", _Id, primary_key=True), Column("app", Text, nullable=False, unique=True)
)

filesystems = Table(
    "filesystems",
    metadata,
    Column("filesystem_id", _Id, primary_key=True),
    Column("filesystem", Text, nullable=False, unique=True),  # where it is mounted; "" where nothing tells
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", _Id, primary_key=True),
    Column("run_key", String(80), nullable=False, unique=True),  # the digest of its one log, or job:uid:program
    Column("app_id", _Id, ForeignKey("apps.app_id"), nullable=False),
    Column("exe", Text, nullable=False),
    Column("user", Text),
    Column("uid", BigInteger, nullable=False),
    Column("job_id", BigInteger, nullable=False),
    Column("logs", Integer, nullable=False),  # how many logs it was put together from
    Column("nprocs", BigInteger, nullable=False),
    Column("io_procs", BigInteger, nullable=False),
    Column("start_time", Float(53), nullable=False),
    Column("end_time", Float(53), nullable=False),
    Column("run_time", Float(53), nullable=False),
    Column("modules", Text, nullable=False),  # comma-separated
    Column("log_ver", String(20), nullable=False),
    Column("partial_flag", Boolean, nullable=False),
    Column("total_bytes", BigInteger, nullable=False),
    Column("bytes_read", BigInteger, nullable=False),
    Column("bytes_written", BigInteger, nullable=False),
    Column("time_by_slowest", Float(53), nullable=False),
    Column("perf_by_slowest", Float(53), nullable=False),
    Column("read_time", Float(53), nullable=False),  # summed over processes, as the next two
    Column("write_time", Float(53), nullable=False),
    Column("meta_time", Float(53), nullable=False),
    Column("total_files", BigInteger, nullable=False),
    Column("shared_files", BigInteger, nullable=False),  # files that more than one process used
    Column("shared_bytes", BigInteger, nullable=False),  # bytes moved to and from those
    Column("read_requests", BigInteger, nullable=False),
    Column("write_requests", BigInteger, nullable=False),
    Column("seq_requests", BigInteger, nullable=False),  # at a higher offset than the one before
    Column("consec_requests", BigInteger, nullable=False),  # right behind the one before
    Column("strided_requests", BigInteger, nullable=False),  # at one of the four commonest strides
    Column("unaligned_requests", BigInteger, nullable=False),  # not aligned in the file
    Column("pattern_requests", BigInteger, nullable=False),  # requests of which the four above are known (not STDIO's)
    Column("seq_pct", Float(53)),  # null where nothing tells
    Column("io_less_1k", BigInteger, nullable=False),
    Column("io_1k_to_100k", BigInteger, nullable=False),
    Column("read_sizes", Text, nullable=False),  # ten counts, see names.SIZE_BINS
    Column("write_sizes", Text, nullable=False),
    Column("common_size", BigInteger, nullable=False),  # the commonest request size; 0 where nothing tells
    Column("stripe_count", BigInteger),  # distinct OSTs used; null without LUSTRE records
    Column("stripe_size", BigInteger),  # of the layout that holds most bytes, as the next two
    Column("file_stripe_count", BigInteger),  # stripes of one file
    Column("stripe_offset", BigInteger),  # first OST of the file with most bytes
    Column("pfl_components", Integer, nullable=False),  # most components of one file
    Column("components", Text),  # those of the file with most bytes, if it has several, as JSON
    Column("pool", Text),
    Column("filesystem", Text),  # of the layout that holds most bytes: where it is mounted, "" where nothing tells
    Index("runs_by_app", "app_id", "start_time"),
    Index("runs_by_job", "job_id"),
    Index("runs_by_start", "start_time"),
    Index("runs_by_perf", "app_id", "partial_flag", "perf_by_slowest"),
)

modules = Table(
    "run_modules",
    metadata,
    Column("run_id", _Id, ForeignKey("runs.run_id", ondelete="CASCADE"), nullable=False),
    Column("module", String(20), nullable=False),
    Column("total_bytes", BigInteger, nullable=False),
    Column("bytes_read", BigInteger, nullable=False),
    Column("bytes_written", BigInteger, nullable=False),
    Column("time_by_slowest", Float(53), nullable=False),
    Column("perf_by_slowest", Float(53), nullable=False),
    Column("total_files", BigInteger, nullable=False),
    Column("partial_flag", Boolean, nullable=False),
    PrimaryKeyConstraint("run_id", "module"),
)

requests = Table(
    "run_requests",
    metadata,
    Column("run_id", _Id, ForeignKey("runs.run_id", ondelete="CASCADE"), nullable=False),
    Column("operation", String(5), nullable=False),  # read or write
    Column("total_bytes", BigInteger, nullable=False),  # from or to files, without standard output and the like
    Column("shared_bytes", BigInteger, nullable=False),  # of these, in files that several processes used
    Column("file_size", BigInteger),  # half of the bytes lie in files used up to here or further; null if not known
    Column("requests", BigInteger, nullable=False),  # of the interface that moved most, usually POSIX
    Column("request_bytes", BigInteger, nullable=False),  # what those moved
    Column("common_size", BigInteger, nullable=False),  # their commonest size; 0 where nothing tells
    # Where those that could follow another one began: right behind it, ahead by a stride that recurs, ahead by
    # another, or not ahead. Null where nothing tells.
    Column("contiguous", BigInteger),
    Column("strided", BigInteger),
    Column("with_gaps", BigInteger),
    Column("backward", BigInteger),
    Column("collective_calls", BigInteger, nullable=False),  # of MPI-IO
    Column("independent_calls", BigInteger, nullable=False),
    Column("call_bytes", BigInteger, nullable=False),
    Column("common_call_size", BigInteger, nullable=False),
    PrimaryKeyConstraint("run_id", "operation"),
    sqlite_with_rowid=False,
)
"""Reads and writes of a run apart; runs that an older version read have none."""

osts = Table(
    "run_osts",
    metadata,
    Column("run_id", _Id, ForeignKey("runs.run_id", ondelete="CASCADE"), nullable=False),
    Column("filesystem_id", _Id, ForeignKey("filesystems.filesystem_id"), nullable=False),
    Column("ost", BigInteger, nullable=False),
    Column("files", BigInteger, nullable=False),
    Column("total_bytes", BigInteger, nullable=False),
    Column("io_time", Float(53), nullable=False),  # seconds that processes spent on those bytes
    # The same of files that lie on this OST only and moved a MiB or more: only these tell how it does.
    Column("alone_files", BigInteger, nullable=False, server_default="0"),
    Column("alone_bytes", BigInteger, nullable=False, server_default="0"),
    Column("alone_time", Float(53), nullable=False, server_default="0"),
    Column("slowness", Float(53)),  # their seconds per byte over the median of the run's OSTs there; or null
    PrimaryKeyConstraint("run_id", "filesystem_id", "ost"),
    Index("run_osts_by_ost", "filesystem_id", "ost", "files", "total_bytes", "io_time"),
    sqlite_with_rowid=False,  # one tree instead of two
)

logs = Table(
    "logs",
    metadata,
    Column("log_id", _Id, primary_key=True),
    Column("path", Text, nullable=False, unique=True),
    Column("size", BigInteger, nullable=False),
    Column("mtime_ns", BigInteger, nullable=False),
    Column("digest", String(32), nullable=False),
    Column("status", String(10), nullable=False),  # read, or copy: the same bytes were read elsewhere
    Column("reason", Text),  # what is wrong with it nevertheless
    Column("run_key", String(80)),
    Column("summary", Text),  # what a process of a job of many logs did; null for the others
    Index("logs_by_digest", "digest"),
    Index("logs_by_run", "run_key"),
)

stale = Table("stale_runs", metadata, Column("run_key", String(80), primary_key=True))
"""Runs of many logs that have to be put together again."""

totals = Table(
    "totals",
    metadata,
    Column("app_id", _Id, ForeignKey("apps.app_id"), nullable=False),
    Column("nprocs", BigInteger, nullable=False),
    Column("stripe_count", BigInteger, nullable=False),  # 0 where nothing tells, as the next two
    Column("file_stripe_count", BigInteger, nullable=False),
    Column("stripe_size", BigInteger, nullable=False),
    Column("filesystem", Text, nullable=False),  # "" where nothing tells
    Column("shared_file", Boolean, nullable=False),  # most bytes went to shared files
    Column("partial_flag", Boolean, nullable=False),
    Column("runs", BigInteger, nullable=False),
    Column("timed_runs", BigInteger, nullable=False),  # runs with a performance, over which the next one is summed
    Column("perf_by_slowest", BigInteger, nullable=False),
    Column("total_bytes", BigInteger, nullable=False),
    Column("bytes_read", BigInteger, nullable=False),
    Column("bytes_written", BigInteger, nullable=False),
    Column("requests", BigInteger, nullable=False),
    Column("pattern_requests", BigInteger, nullable=False),
    Column("seq_requests", BigInteger, nullable=False),
    Column("io_less_1k", BigInteger, nullable=False),
    Column("io_1k_to_100k", BigInteger, nullable=False),
    PrimaryKeyConstraint(
        *("app_id", "nprocs", "stripe_count", "file_stripe_count", "stripe_size", "filesystem"),
        *("shared_file", "partial_flag"),
    ),
    Index(  # all that is asked of other applications' runs
        "totals_by_nprocs",
        *("nprocs", "partial_flag", "file_stripe_count", "stripe_size", "shared_file"),
        *("filesystem", "app_id", "timed_runs", "perf_by_slowest"),
    ),
)
"""Sums over runs that are alike, kept up to date in the same transaction as the runs: whole
numbers, so that adding and taking away is exact. What is asked of millions of runs is answered
from a few thousand of these rows."""

jobs = Table(
    "jobs",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("job_name", Text),
    Column("user", Text),
    Column("nodes", BigInteger),
    Column("submit_time", Float(53)),
    Column("job_start_time", Float(53)),
    Column("job_end_time", Float(53)),
    Column("state", Text),
)
"""What Slurm's accounting says (`sacct -P`)."""

leases = Table(
    "leases",
    metadata,
    Column("lease_id", _Id, primary_key=True),
    Column("job", String(200), nullable=False),
    Column("system", String(200), nullable=False),  # targets of which file system
    Column("target", BigInteger, nullable=False),
    Column("until", Float(53), nullable=False),
    UniqueConstraint("system", "job", "target"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("decision_id", _Id, primary_key=True),
    Column("time", Float(53), nullable=False),
    Column("job", String(200)),
    Column("app", Text, nullable=False),
    Column("nprocs", BigInteger, nullable=False),
    Column("policy", Text, nullable=False),
    Column("phase", String(20), nullable=False),
    Column("stripe_count", BigInteger, nullable=False),
    Column("stripe_size", BigInteger, nullable=False),
    Column("stripe_offset", BigInteger, nullable=False),
    Column("because", Text, nullable=False),
    Column("outcome", String(20), nullable=False),  # advised, shadow, applied or refused
    Column("applied_to", Text),
    Column("filesystem", Text),  # that it is about; null where nothing tells
)

journal = Table(
    "journal",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # without gaps, from 1
    Column("at", Float(53), nullable=False),
    Column("grant_id", String(32)),  # whom it is about, if anybody
    Column("line", Text, nullable=False),  # the event as JSON
    Index("journal_by_grant", "grant_id", "number"),
)
"""What happened to the control service, in its order: all that it knows follows from this."""

checkpoints = Table(
    "journal_checkpoints",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("state", LargeBinary, nullable=False),  # JSON, compressed
)
"""The state after the event of that number, so that a start need not read the whole journal."""

grant_logs = Table(
    "grant_logs",
    metadata,
    Column("log_id", _Id, primary_key=True),
    Column("grant_id", String(32), nullable=False),
    Column("at", Float(53), nullable=False),
    Column("node", String(100), nullable=False),
    Column("level", String(10), nullable=False),
    Column("text", Text, nullable=False),
    Index("grant_logs_by_grant", "grant_id", "log_id"),
)
"""What agents have to say of grants."""

heard = Table(
    "nodes_heard",
    metadata,
    Column("node", String(100), primary_key=True),
    Column("at", Float(53), nullable=False),
)
"""When an agent was last heard of, for instances of the service that it does not talk to."""

tokens = Table(
    "tokens",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),  # of the token, which is kept nowhere
    Column("role", String(20), nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("gid", BigInteger, nullable=False),
    Column("node", String(100), nullable=False),
    Column("made", Float(53), nullable=False),
)
"""Who may call the control service over a network."""
