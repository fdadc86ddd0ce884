"""The tables of the history, one schema for SQLite and PostgreSQL.

Names are those of `darshan job_stats` if it has them. Sizes are bytes, durations seconds, times seconds since 1970,
and performance is bytes per second.
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
"""The version that `meta` has in a database of this code; see migrations.py."""

metadata = MetaData()
_Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up only INTEGER


def _whole(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _real(name: str) -> Column[float]:
    return Column(name, Float(53), nullable=False)


meta = Table("forebay_meta", metadata, Column("key", String(40), primary_key=True), Column("value", Text))

apps = Table(
    "apps", metadata, Column("app_id", _Id, primary_key=True), Column("app", Text, nullable=False, unique=True)
)

filesystems = Table(
    "filesystems",
    metadata,
    Column("filesystem_id", _Id, primary_key=True),
    Column("filesystem", Text, nullable=False, unique=True),  # its mount point; "" if unknown
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", _Id, primary_key=True),
    Column("run_key", String(80), nullable=False, unique=True),  # the digest of its one log, or job:uid:program
    Column("app_id", _Id, ForeignKey("apps.app_id"), nullable=False),
    Column("exe", Text, nullable=False),
    Column("user", Text),
    *map(_whole, ("uid", "job_id")),
    Column("logs", Integer, nullable=False),  # how many logs it is combined from
    *map(_whole, ("nprocs", "io_procs")),
    *map(_real, ("start_time", "end_time", "run_time")),
    Column("modules", Text, nullable=False),  # comma-separated
    Column("log_ver", String(20), nullable=False),
    Column("partial_flag", Boolean, nullable=False),
    *map(_whole, ("total_bytes", "bytes_read", "bytes_written")),
    *map(_real, ("time_by_slowest", "perf_by_slowest")),
    _real("read_time"),  # summed over processes, like the next two
    *map(_real, ("write_time", "meta_time")),
    _whole("total_files"),
    _whole("shared_files"),  # files that more than one process used
    _whole("shared_bytes"),  # bytes moved to and from them
    *map(_whole, ("read_requests", "write_requests")),
    _whole("seq_requests"),  # at a higher offset than the previous one
    _whole("consec_requests"),  # right behind the previous one
    _whole("strided_requests"),  # at one of the four commonest strides
    _whole("unaligned_requests"),  # not aligned in the file
    _whole("pattern_requests"),  # requests for which the four above are known (not STDIO's)
    Column("seq_pct", Float(53)),  # null if unknown
    *map(_whole, ("io_less_1k", "io_1k_to_100k")),
    Column("read_sizes", Text, nullable=False),  # ten counts, see run_fields.SIZE_BINS
    Column("write_sizes", Text, nullable=False),
    _whole("common_size"),  # the commonest request size; 0 if unknown
    Column("stripe_count", BigInteger),  # distinct OSTs used; null without LUSTRE records
    Column("stripe_size", BigInteger),  # of the layout that holds most bytes, like the next two
    Column("file_stripe_count", BigInteger),  # stripes of one file
    Column("stripe_offset", BigInteger),  # first OST of the file with most bytes
    Column("pfl_components", Integer, nullable=False),  # most components of one file
    Column("components", Text),  # those of the file with most bytes, if it has several, as JSON
    Column("pool", Text),
    Column("filesystem", Text),  # mount point of the layout that holds most bytes; "" if unknown
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
    *map(_whole, ("total_bytes", "bytes_read", "bytes_written")),
    *map(_real, ("time_by_slowest", "perf_by_slowest")),
    _whole("total_files"),
    Column("partial_flag", Boolean, nullable=False),
    PrimaryKeyConstraint("run_id", "module"),
)

requests = Table(
    "run_requests",
    metadata,
    Column("run_id", _Id, ForeignKey("runs.run_id", ondelete="CASCADE"), nullable=False),
    Column("operation", String(5), nullable=False),  # read or write
    _whole("total_bytes"),  # from or to files, without standard output and the like
    _whole("shared_bytes"),  # of these, in files that several processes used
    Column("file_size", BigInteger),  # half of the bytes are in files used up to here or further; null if unknown
    _whole("requests"),  # of the interface that moved most bytes, usually POSIX
    _whole("request_bytes"),  # bytes of those requests
    _whole("common_size"),  # their commonest size; 0 if unknown
    # Where a request begins that follows another: right behind it, ahead by a stride that recurs, ahead by another,
    # or not ahead. Null if unknown.
    Column("contiguous", BigInteger),
    Column("strided", BigInteger),
    Column("with_gaps", BigInteger),
    Column("backward", BigInteger),
    _whole("collective_calls"),  # of MPI-IO
    *map(_whole, ("independent_calls", "call_bytes", "common_call_size")),
    PrimaryKeyConstraint("run_id", "operation"),
    sqlite_with_rowid=False,
)
"""Reads and writes of a run apart; runs read by older versions have none."""

osts = Table(
    "run_osts",
    metadata,
    Column("run_id", _Id, ForeignKey("runs.run_id", ondelete="CASCADE"), nullable=False),
    Column("filesystem_id", _Id, ForeignKey("filesystems.filesystem_id"), nullable=False),
    *map(_whole, ("ost", "files", "total_bytes")),
    _real("io_time"),  # seconds that processes spent on these bytes
    # The same for files on this OST alone that moved at least 1 MiB: only these show how fast it is.
    Column("alone_files", BigInteger, nullable=False, server_default="0"),
    Column("alone_bytes", BigInteger, nullable=False, server_default="0"),
    Column("alone_time", Float(53), nullable=False, server_default="0"),
    Column("slowness", Float(53)),  # their seconds per byte over the median of the run's OSTs there; null if unknown
    PrimaryKeyConstraint("run_id", "filesystem_id", "ost"),
    Index("run_osts_by_ost", "filesystem_id", "ost", "files", "total_bytes", "io_time"),
    sqlite_with_rowid=False,  # one tree instead of two
)

logs = Table(
    "logs",
    metadata,
    Column("log_id", _Id, primary_key=True),
    Column("path", Text, nullable=False, unique=True),
    *map(_whole, ("size", "mtime_ns")),
    Column("digest", String(32), nullable=False),
    Column("status", String(10), nullable=False),  # read, or copy (the same bytes under another path)
    Column("reason", Text),  # what is wrong with it although it was read
    Column("run_key", String(80)),
    Column("summary", Text),  # of one process of a job with many logs; null for others
    Index("logs_by_digest", "digest"),
    Index("logs_by_run", "run_key"),
)

stale = Table("stale_runs", metadata, Column("run_key", String(80), primary_key=True))
"""Runs of many logs that must be combined again."""

totals = Table(
    "totals",
    metadata,
    Column("app_id", _Id, ForeignKey("apps.app_id"), nullable=False),
    _whole("nprocs"),
    _whole("stripe_count"),  # 0 if unknown, like the next two
    *map(_whole, ("file_stripe_count", "stripe_size")),
    Column("filesystem", Text, nullable=False),  # "" if unknown
    Column("shared_file", Boolean, nullable=False),  # most bytes went to shared files
    Column("partial_flag", Boolean, nullable=False),
    _whole("runs"),
    _whole("timed_runs"),  # runs with a performance, which the next column sums up
    *map(
        _whole,
        (
            "perf_by_slowest",
            "total_bytes",
            "bytes_read",
            "bytes_written",
            "requests",
            "pattern_requests",
            "seq_requests",
            "io_less_1k",
            "io_1k_to_100k",
        ),
    ),
    PrimaryKeyConstraint(
        *("app_id", "nprocs", "stripe_count", "file_stripe_count", "stripe_size", "filesystem"),
        *("shared_file", "partial_flag"),
    ),
    Index(  # everything that queries for other applications' runs need
        "totals_by_nprocs",
        *("nprocs", "partial_flag", "file_stripe_count", "stripe_size", "shared_file"),
        *("filesystem", "app_id", "timed_runs", "perf_by_slowest"),
    ),
)
"""Sums over similar runs, updated in the same transaction as the runs. They are whole numbers, so that adding and
subtracting is exact. A few thousand of these rows answer questions about millions of runs."""

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
"""From Slurm's accounting (`sacct -P`)."""

leases = Table(
    "leases",
    metadata,
    Column("lease_id", _Id, primary_key=True),
    Column("job", String(200), nullable=False),
    Column("system", String(200), nullable=False),  # the file system of the targets
    _whole("target"),
    _real("until"),
    UniqueConstraint("system", "job", "target"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("decision_id", _Id, primary_key=True),
    _real("time"),
    Column("job", String(200)),
    Column("app", Text, nullable=False),
    _whole("nprocs"),
    Column("policy", Text, nullable=False),
    Column("phase", String(20), nullable=False),
    *map(_whole, ("stripe_count", "stripe_size", "stripe_offset")),
    Column("because", Text, nullable=False),
    Column("outcome", String(20), nullable=False),  # advised, shadow, applied or refused
    Column("applied_to", Text),
    Column("filesystem", Text),  # null if unknown
)

journal = Table(
    "journal",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # without gaps, from 1
    _real("at"),
    Column("grant_id", String(32)),  # null if it is about no grant
    Column("line", Text, nullable=False),  # the event as JSON
    Index("journal_by_grant", "grant_id", "number"),
)
"""The events of the control service in their order; its whole state follows from them."""

checkpoints = Table(
    "journal_checkpoints",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("state", LargeBinary, nullable=False),  # JSON, compressed
)
"""The state after the event of that number, so that a start reads only the rest of the journal."""

grant_logs = Table(
    "grant_logs",
    metadata,
    Column("log_id", _Id, primary_key=True),
    Column("grant_id", String(32), nullable=False),
    _real("at"),
    Column("node", String(100), nullable=False),
    Column("level", String(10), nullable=False),
    Column("text", Text, nullable=False),
    Index("grant_logs_by_grant", "grant_id", "log_id"),
)
"""Messages of agents about grants."""

heard = Table(
    "nodes_heard",
    metadata,
    Column("node", String(100), primary_key=True),
    _real("at"),
)
"""When an agent was last heard of, for other instances of the service."""

tokens = Table(
    "tokens",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),  # of the token, which is stored nowhere
    Column("role", String(20), nullable=False),
    *map(_whole, ("uid", "gid")),
    Column("node", String(100), nullable=False),
    _real("made"),
)
"""Tokens for callers of the control service over a network."""
