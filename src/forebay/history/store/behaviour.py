"""What one application did in each of its runs, for its profile."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.store.listing import app_id_of
from forebay.history.store.schema import runs

MOST_RUNS = 10_000
"""Of an application that ran more often, the newest so many tell what it is like now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One run, in the columns of the history (see schema.py)."""

    run_id: int
    start_time: float
    run_time: float
    nprocs: int
    io_procs: int
    partial_flag: bool
    total_bytes: int
    bytes_read: int
    bytes_written: int
    time_by_slowest: float
    perf_by_slowest: float
    total_files: int
    shared_files: int
    shared_bytes: int
    read_requests: int
    write_requests: int
    pattern_requests: int
    seq_requests: int
    consec_requests: int
    strided_requests: int
    common_size: int
    stripe_count: int | None
    file_stripe_count: int | None
    stripe_size: int | None


_COLUMNS = [runs.c[name] for name in Behaviour.__slots__]


def behaviours(connection: Connection, app: str, limit: int = MOST_RUNS) -> list[Behaviour]:
    """The newest `limit` runs of an application, oldest first."""
    query = (
        sa.select(*_COLUMNS)
        .where(runs.c.app_id == app_id_of(connection, app))
        .order_by(runs.c.start_time.desc(), runs.c.run_id.desc())
        .limit(limit)
    )
    return [Behaviour(**row) for row in reversed(connection.execute(query).mappings().all())]
