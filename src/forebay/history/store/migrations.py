"""How a database of an older schema becomes one of the next.

The SQL of changed tables is written out, because `schema` has only their current form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import Connection

from forebay.history.store.schema import (
    checkpoints,
    filesystems,
    grant_logs,
    heard,
    journal,
    logs,
    metadata,
    requests,
    runs,
    tokens,
)


def _add_journal(connection: Connection) -> None:
    """Version 2: the control service keeps its journal here."""
    metadata.create_all(connection, tables=[journal, checkpoints, grant_logs, heard, tokens])


def _add_filesystems(connection: Connection) -> None:
    """Version 3: OSTs, layouts and decisions belong to a file system. Existing rows get an unknown one, and the next
    ingest reads their logs again if these still exist."""
    metadata.create_all(connection, tables=[filesystems])
    connection.exec_driver_sql("INSERT INTO filesystems (filesystem_id, filesystem) VALUES (1, '')")
    connection.exec_driver_sql("ALTER TABLE runs ADD COLUMN filesystem TEXT")
    connection.exec_driver_sql("ALTER TABLE decisions ADD COLUMN filesystem TEXT")
    connection.exec_driver_sql("UPDATE runs SET filesystem = '' WHERE stripe_count IS NOT NULL")
    connection.exec_driver_sql(
        "UPDATE logs SET mtime_ns = -1 WHERE run_key IN (SELECT run_key FROM runs WHERE stripe_count IS NOT NULL)"
    )
    for statement in _ON_SQLITE if connection.dialect.name == "sqlite" else _ON_POSTGRESQL:
        connection.exec_driver_sql(statement)


_OST_COLUMNS = "files, total_bytes, io_time, alone_files, alone_bytes, alone_time, slowness"
_TOTALS_COLUMNS = (
    "shared_file, partial_flag, runs, timed_runs, perf_by_slowest, total_bytes, bytes_read, bytes_written, requests, "
    "pattern_requests, seq_requests, io_less_1k, io_1k_to_100k"
)
_KEY_COLUMNS = "app_id, nprocs, stripe_count, file_stripe_count, stripe_size"
_INDEXES = (
    "CREATE INDEX run_osts_by_ost ON run_osts (filesystem_id, ost, files, total_bytes, io_time)",
    "CREATE INDEX totals_by_nprocs ON totals (nprocs, partial_flag, file_stripe_count, stripe_size, shared_file, "
    "filesystem, app_id, timed_runs, perf_by_slowest)",
)
_ON_SQLITE = (  # SQLite can't change a primary key
    "DROP INDEX run_osts_by_ost",
    "DROP INDEX totals_by_nprocs",
    "ALTER TABLE run_osts RENAME TO run_osts_2",
    "ALTER TABLE totals RENAME TO totals_2",
    "CREATE TABLE run_osts (run_id INTEGER NOT NULL, filesystem_id INTEGER NOT NULL, ost BIGINT NOT NULL, "
    "files BIGINT NOT NULL, total_bytes BIGINT NOT NULL, io_time FLOAT NOT NULL, "
    "alone_files BIGINT DEFAULT '0' NOT NULL, alone_bytes BIGINT DEFAULT '0' NOT NULL, "
    "alone_time FLOAT DEFAULT '0' NOT NULL, slowness FLOAT, PRIMARY KEY (run_id, filesystem_id, ost), "
    "FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE, "
    "FOREIGN KEY(filesystem_id) REFERENCES filesystems (filesystem_id)) WITHOUT ROWID",
    "CREATE TABLE totals (app_id INTEGER NOT NULL, nprocs BIGINT NOT NULL, stripe_count BIGINT NOT NULL, "
    "file_stripe_count BIGINT NOT NULL, stripe_size BIGINT NOT NULL, filesystem TEXT NOT NULL, "
    "shared_file BOOLEAN NOT NULL, partial_flag BOOLEAN NOT NULL, runs BIGINT NOT NULL, timed_runs BIGINT NOT NULL, "
    "perf_by_slowest BIGINT NOT NULL, total_bytes BIGINT NOT NULL, bytes_read BIGINT NOT NULL, "
    "bytes_written BIGINT NOT NULL, requests BIGINT NOT NULL, pattern_requests BIGINT NOT NULL, "
    "seq_requests BIGINT NOT NULL, io_less_1k BIGINT NOT NULL, io_1k_to_100k BIGINT NOT NULL, "
    "PRIMARY KEY (app_id, nprocs, stripe_count, file_stripe_count, stripe_size, filesystem, shared_file, "
    "partial_flag), FOREIGN KEY(app_id) REFERENCES apps (app_id))",
    f"INSERT INTO run_osts (run_id, filesystem_id, ost, {_OST_COLUMNS}) "
    f"SELECT run_id, 1, ost, {_OST_COLUMNS} FROM run_osts_2",
    f"INSERT INTO totals ({_KEY_COLUMNS}, filesystem, {_TOTALS_COLUMNS}) "
    f"SELECT {_KEY_COLUMNS}, '', {_TOTALS_COLUMNS} FROM totals_2",
    "DROP TABLE run_osts_2",
    "DROP TABLE totals_2",
    *_INDEXES,
)
_ON_POSTGRESQL = (
    "DROP INDEX run_osts_by_ost",
    "DROP INDEX totals_by_nprocs",
    "ALTER TABLE run_osts ADD COLUMN filesystem_id BIGINT NOT NULL DEFAULT 1 REFERENCES filesystems (filesystem_id)",
    "ALTER TABLE run_osts ALTER COLUMN filesystem_id DROP DEFAULT",
    "ALTER TABLE run_osts DROP CONSTRAINT run_osts_pkey, ADD PRIMARY KEY (run_id, filesystem_id, ost)",
    "ALTER TABLE totals ADD COLUMN filesystem TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE totals ALTER COLUMN filesystem DROP DEFAULT",
    "ALTER TABLE totals DROP CONSTRAINT totals_pkey, ADD PRIMARY KEY "
    "(app_id, nprocs, stripe_count, file_stripe_count, stripe_size, filesystem, shared_file, partial_flag)",
    *_INDEXES,
)


def _add_requests(connection: Connection) -> None:
    """Version 4: a run's reads and writes apart, and an index for each application's fastest run.

    Only the logs have the reads and writes, so the next ingest reads them again if they still exist.
    """
    metadata.create_all(connection, tables=[requests])
    next(index for index in runs.indexes if index.name == "runs_by_perf").create(connection, checkfirst=True)
    connection.execute(logs.update().values(mtime_ns=-1))


MIGRATIONS: Mapping[int, Callable[[Connection], None]] = {
    1: _add_journal,
    2: _add_filesystems,
    3: _add_requests,
}
"""From version v to v + 1, in the transaction that opens the database."""
