"""The tables of the history, one schema for SQLite and PostgreSQL.

Names are those of `darshan job_stats` if it has them. Sizes are bytes, durations seconds, times seconds since 1970,
and performance is bytes per second.
"""

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, String, Table, Text

VERSION = 4
"""The version that `meta` has in a database of this code; see database.py."""

metadata = sa.MetaData()
_Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up only INTEGER


def _whole(*names: str, nullable: bool = False) -> list[Column[int]]:
    return [Column(name, BigInteger, nullable=nullable) for name in names]


def _real(*names: str, nullable: bool = False) -> list[Column[float]]:
    return [Column(name, Float(53), nullable=nullable) for name in names]


def _text(*names: str, nullable: bool = False) -> list[Column[str]]:
    return [Column(name, Text, nullable=nullable) for name in names]


def _table(name: str, *columns: sa.schema.SchemaItem, rowid: bool = True) -> Table:
    """Without a row id, SQLite has one tree instead of two."""
    return Table(name, metadata, *columns, sqlite_with_rowid=rowid)


meta = _table("forebay_meta", Column("key", String(40), primary_key=True), Column("value", Text))

apps = _table("apps", Column("app_id", _Id, primary_key=True), Column("app", Text, nullable=False, unique=True))

filesystems = _table(
    "filesystems",
    Column("filesystem_id", _Id, primary_key=True),
    Column("filesystem", Text, nullable=False, unique=True),  # its mount point; "" if unknown
)

runs = _table(
    "runs",
    Column("run_id", _Id, primary_key=True),
    Column("run_key", String(80), nullable=False, unique=True),  # the digest of its one log, or job:uid:program
    Column("app_id", _Id, sa.ForeignKey("apps.app_id"), nullable=False),
    *_text("exe"),
    *_text("user", nullable=True),
    *_whole("uid", "job_id"),
    Column("logs", Integer, nullable=False),  # how many logs it is combined from
    *_whole("nprocs", "io_procs"),
    *_real("start_time", "end_time", "run_time"),
    *_text("modules"),  # comma-separated
    Column("log_ver", String(20), nullable=False),
    Column("partial_flag", Boolean, nullable=False),
    *_whole("total_bytes", "bytes_read", "bytes_written"),
    *_real("time_by_slowest", "perf_by_slowest"),
    *_real("read_time"),  # summed over processes, like the next two
    *_real("write_time", "meta_time"),
    *_whole("total_files"),
    *_whole("shared_files"),  # files that more than one process used
    *_whole("shared_bytes"),  # bytes moved to and from them
    *_whole("read_requests", "write_requests"),
    *_whole("seq_requests"),  # at a higher offset than the previous one
    *_whole("consec_requests"),  # right behind the previous one
    *_whole("strided_requests"),  # at one of the four commonest strides
    *_whole("unaligned_requests"),  # not aligned in the file
    *_whole("pattern_requests"),  # requests for which the four above are known (not STDIO's)
    *_real("seq_pct", nullable=True),  # null if unknown
    *_whole("io_less_1k", "io_1k_to_100k"),
    *_text("read_sizes"),  # ten counts, see run_fields.SIZE_BINS
    *_text("write_sizes"),
    *_whole("common_size"),  # the commonest request size; 0 if unknown
    *_whole("stripe_count", nullable=True),  # distinct OSTs used; null without LUSTRE records
    *_whole("stripe_size", nullable=True),  # of the layout that holds most bytes, like the next two
    *_whole("file_stripe_count", nullable=True),  # stripes of one file
    *_whole("stripe_offset", nullable=True),  # first OST of the file with most bytes
    Column("pfl_components", Integer, nullable=False),  # most components of one file
    *_text("components", nullable=True),  # those of the file with most bytes, if it has several, as JSON
    *_text("pool", nullable=True),
    *_text("filesystem", nullable=True),  # mount point of the layout that holds most bytes; "" if unknown
    sa.Index("runs_by_app", "app_id", "start_time"),
    sa.Index("runs_by_job", "job_id"),
    sa.Index("runs_by_start", "start_time"),
    sa.Index("runs_by_perf", "app_id", "partial_flag", "perf_by_slowest"),
)

modules = _table(
    "run_modules",
    Column("run_id", _Id, sa.ForeignKey("runs.run_id", ondelete="CASCADE"), nullable=False),
    Column("module", String(20), nullable=False),
    *_whole("total_bytes", "bytes_read", "bytes_written"),
    *_real("time_by_slowest", "perf_by_slowest"),
    *_whole("total_files"),
    Column("partial_flag", Boolean, nullable=False),
    sa.PrimaryKeyConstraint("run_id", "module"),
)

requests = _table(
    "run_requests",
    Column("run_id", _Id, sa.ForeignKey("runs.run_id", ondelete="CASCADE"), nullable=False),
    Column("operation", String(5), nullable=False),  # read or write
    *_whole("total_bytes"),  # from or to files, without standard output and the like
    *_whole("shared_bytes"),  # of these, in files that several processes used
    *_whole("file_size", nullable=True),  # half of the bytes are in files used up to here or further; null if unknown
    *_whole("requests"),  # of the interface that moved most bytes, usually POSIX
    *_whole("request_bytes"),  # bytes of those requests
    *_whole("common_size"),  # their commonest size; 0 if unknown
    # Where a request begins that follows another: right behind it, ahead by a stride that recurs, ahead by another,
    # or not ahead. Null if unknown.
    *_whole("contiguous", "strided", "with_gaps", "backward", nullable=True),
    *_whole("collective_calls"),  # of MPI-IO
    *_whole("independent_calls", "call_bytes", "common_call_size"),
    sa.PrimaryKeyConstraint("run_id", "operation"),
    rowid=False,
)
"""Reads and writes of a run apart; runs read by older versions have none."""

osts = _table(
    "run_osts",
    Column("run_id", _Id, sa.ForeignKey("runs.run_id", ondelete="CASCADE"), nullable=False),
    Column("filesystem_id", _Id, sa.ForeignKey("filesystems.filesystem_id"), nullable=False),
    *_whole("ost", "files", "total_bytes"),
    *_real("io_time"),  # seconds that processes spent on these bytes
    # The same for files on this OST alone that moved at least 1 MiB: only these show how fast it is.
    Column("alone_files", BigInteger, nullable=False, server_default="0"),
    Column("alone_bytes", BigInteger, nullable=False, server_default="0"),
    Column("alone_time", Float(53), nullable=False, server_default="0"),
    *_real("slowness", nullable=True),  # seconds per byte over the median of the run's OSTs there; null if unknown
    sa.PrimaryKeyConstraint("run_id", "filesystem_id", "ost"),
    sa.Index("run_osts_by_ost", "filesystem_id", "ost", "files", "total_bytes", "io_time"),
    rowid=False,
)

logs = _table(
    "logs",
    Column("log_id", _Id, primary_key=True),
    Column("path", Text, nullable=False, unique=True),
    *_whole("size", "mtime_ns"),
    Column("digest", String(32), nullable=False),
    Column("status", String(10), nullable=False),  # read, or copy (the same bytes under another path)
    *_text("reason", nullable=True),  # what is wrong with it although it was read
    Column("run_key", String(80)),
    *_text("summary", nullable=True),  # of one process of a job with many logs; null for others
    sa.Index("logs_by_digest", "digest"),
    sa.Index("logs_by_run", "run_key"),
)

stale = _table("stale_runs", Column("run_key", String(80), primary_key=True))
"""Runs of many logs that must be combined again."""

totals = _table(
    "totals",
    Column("app_id", _Id, sa.ForeignKey("apps.app_id"), nullable=False),
    *_whole("nprocs"),
    *_whole("stripe_count"),  # 0 if unknown, like the next two
    *_whole("file_stripe_count", "stripe_size"),
    *_text("filesystem"),  # "" if unknown
    Column("shared_file", Boolean, nullable=False),  # most bytes went to shared files
    Column("partial_flag", Boolean, nullable=False),
    *_whole("runs"),
    *_whole("timed_runs"),  # runs with a performance, which the next column sums up
    *_whole("perf_by_slowest", "total_bytes", "bytes_read", "bytes_written", "requests"),
    *_whole("pattern_requests", "seq_requests", "io_less_1k", "io_1k_to_100k"),
    sa.PrimaryKeyConstraint(
        *("app_id", "nprocs", "stripe_count", "file_stripe_count", "stripe_size", "filesystem", "shared_file"),
        "partial_flag",
    ),
    sa.Index(  # everything that queries for other applications' runs need
        "totals_by_nprocs",
        *("nprocs", "partial_flag", "file_stripe_count", "stripe_size", "shared_file"),
        *("filesystem", "app_id", "timed_runs", "perf_by_slowest"),
    ),
)
"""Sums over similar runs, updated in the same transaction as the runs. They are whole numbers, so that adding and
subtracting is exact. A few thousand of these rows answer questions about millions of runs."""

jobs = _table(
    "jobs",
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    *_text("job_name", "user", nullable=True),
    *_whole("nodes", nullable=True),
    *_real("submit_time", "job_start_time", "job_end_time", nullable=True),
    *_text("state", nullable=True),
)
"""From Slurm's accounting (`sacct -P`)."""

leases = _table(
    "leases",
    Column("lease_id", _Id, primary_key=True),
    Column("job", String(200), nullable=False),
    Column("system", String(200), nullable=False),  # the file system of the targets
    *_whole("target"),
    *_real("until"),
    sa.UniqueConstraint("system", "job", "target"),
)

decisions = _table(
    "decisions",
    Column("decision_id", _Id, primary_key=True),
    *_real("time"),
    Column("job", String(200)),
    *_text("app"),
    *_whole("nprocs"),
    *_text("policy"),
    Column("phase", String(20), nullable=False),
    *_whole("stripe_count", "stripe_size", "stripe_offset"),
    *_text("because"),
    Column("outcome", String(20), nullable=False),  # advised, shadow, applied or refused
    *_text("applied_to", nullable=True),
    *_text("filesystem", nullable=True),  # null if unknown
)

journal = _table(
    "journal",
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # without gaps, from 1
    *_real("at"),
    Column("grant_id", String(32)),  # null if it is about no grant
    *_text("line"),  # the event as JSON
    sa.Index("journal_by_grant", "grant_id", "number"),
)
"""The events of the control service in their order; its whole state follows from them."""

checkpoints = _table(
    "journal_checkpoints",
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("state", sa.LargeBinary, nullable=False),  # JSON, compressed
)
"""The state after the event of that number, so that a start reads only the rest of the journal."""

grant_logs = _table(
    "grant_logs",
    Column("log_id", _Id, primary_key=True),
    Column("grant_id", String(32), nullable=False),
    *_real("at"),
    Column("node", String(100), nullable=False),
    Column("level", String(10), nullable=False),
    *_text("text"),
    sa.Index("grant_logs_by_grant", "grant_id", "log_id"),
)
"""Messages of agents about grants."""

heard = _table(
    "nodes_heard",
    Column("node", String(100), primary_key=True),
    *_real("at"),
)
"""When an agent was last heard of, for other instances of the service."""

tokens = _table(
    "tokens",
    Column("name", String(100), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),  # of the token, which is stored nowhere
    Column("role", String(20), nullable=False),
    *_whole("uid", "gid"),
    Column("node", String(100), nullable=False),
    *_real("made"),
)
"""Tokens for callers of the control service over a network."""
