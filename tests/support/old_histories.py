"""Histories as earlier versions have made them."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import sqlalchemy as sa

from forebay.history.store import open_store
from forebay.history.store.runs import add_runs
from support.made_up_runs import a_run

BEFORE = Path(__file__).with_name("history_2.sql")
_BACK = (
    "DROP INDEX run_osts_by_ost",
    "DROP INDEX totals_by_nprocs",
    "ALTER TABLE run_osts DROP CONSTRAINT run_osts_pkey, DROP COLUMN filesystem_id, ADD PRIMARY KEY (run_id, ost)",
    "ALTER TABLE totals DROP CONSTRAINT totals_pkey, DROP COLUMN filesystem, ADD PRIMARY KEY "
    "(app_id, nprocs, stripe_count, file_stripe_count, stripe_size, shared_file, partial_flag)",
    "CREATE INDEX run_osts_by_ost ON run_osts (ost, files, total_bytes, io_time)",
    "CREATE INDEX totals_by_nprocs ON totals (nprocs, partial_flag, file_stripe_count)",
    "ALTER TABLE runs DROP COLUMN filesystem",
    "ALTER TABLE decisions DROP COLUMN filesystem",
    "DROP TABLE filesystems",
    "UPDATE forebay_meta SET value = '2' WHERE key = 'schema'",
)
"""What makes version 2 of a PostgreSQL history of today."""


def make_version_2(database: str, more: Sequence[str] = ()) -> None:
    """A history of schema version 2 with some runs, and `more` done to it. On SQLite it is the work of that version."""
    if database.startswith("postgresql"):
        with open_store(database) as store, store.open_writer() as connection:
            add_runs(connection, [a_run(0, count=3), a_run(1, count=None), a_run(2, "other", count=2)])
            for statement in (*_BACK, *more):
                connection.execute(sa.text(statement))
        return
    file = sqlite3.connect(database.removeprefix("sqlite:///"))
    file.executescript(BEFORE.read_text() + ";\n".join(more))
    file.close()
