"""What an application did in each of its runs, for its profile."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.store.listing import find_app_id
from forebay.history.store.schema import requests, runs

MOST_RUNS = 10_000
"""Of an application with more runs, only the newest describe it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTotals:
    """The reads or the writes of one run, by the columns of `run_requests` (see schema.py)."""

    total_bytes: int
    shared_bytes: int
    requests: int
    request_bytes: int
    common_size: int
    contiguous: int | None
    strided: int | None
    with_gaps: int | None
    backward: int | None
    collective_calls: int
    independent_calls: int
    call_bytes: int
    common_call_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One run, by the columns of `runs` (see schema.py); `reads` and `writes` are None if an older version read its
    log."""

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
    read_sizes: str
    write_sizes: str
    filesystem: str | None = None
    reads: RequestTotals | None = None
    writes: RequestTotals | None = None


_COLUMNS = [runs.c[name] for name in Behaviour.__slots__ if name not in ("reads", "writes")]
_REQUEST_COLUMNS = [requests.c[name] for name in RequestTotals.__slots__]


def list_behaviours(connection: Connection, app: str, limit: int = MOST_RUNS) -> list[Behaviour]:
    """The newest `limit` runs of an application, oldest first."""
    newest = (
        sa.select(*_COLUMNS)
        .where(runs.c.app_id == find_app_id(connection, app))
        .order_by(runs.c.start_time.desc(), runs.c.run_id.desc())
        .limit(limit)
    )
    operations: dict[int, dict[str, RequestTotals]] = {}
    chosen = newest.subquery()
    query = sa.select(requests.c.run_id, requests.c.operation, *_REQUEST_COLUMNS)
    for row in connection.execute(query.join(chosen, chosen.c.run_id == requests.c.run_id)).mappings():
        values = {name: row[name] for name in RequestTotals.__slots__}
        operations.setdefault(row["run_id"], {})[f"{row['operation']}s"] = RequestTotals(**values)
    rows = reversed(connection.execute(newest).mappings().all())
    return [Behaviour(**{**row, **operations.get(row["run_id"], {})}) for row in rows]
