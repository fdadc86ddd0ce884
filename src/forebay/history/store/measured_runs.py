"""Runs of the history as rows of `MEASURED`, to fit a model of the file system to them."""

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.run_fields import MEASURED, Measured
from forebay.history.store.bulk import within_period
from forebay.history.store.schema import requests, runs

MOST_RUNS = 20_000
"""The most runs that a fit uses, the newest: more make it slower, not better."""


def list_measured(
    connection: Connection, *, filesystem: str | None = None, since: float | None = None, until: float | None = None
) -> Measured:
    """The newest complete runs with known requests, oldest first; `filesystem` is a mount point."""
    tables = [requests.alias(operation) for operation in ("read", "write")]
    columns = [c for table in tables for c in (table.c.requests, table.c.request_bytes, table.c.contiguous,
                                             table.c.shared_bytes, table.c.total_bytes)]  # fmt: skip
    source: sa.FromClause = runs
    for table in tables:
        source = source.outerjoin(table, sa.and_(table.c.run_id == runs.c.run_id, table.c.operation == table.name))
    query = (
        sa.select(
            *(runs.c[name] for name in ("start_time", "io_procs", "total_files", "shared_files", "meta_time")),
            *(runs.c[name] for name in ("read_time", "write_time")),
            *columns,
        )
        .select_from(source)
        .where(runs.c.partial_flag.is_(False), runs.c.io_procs > 0)
        .where(sa.or_(*(table.c.total_bytes > 0 for table in tables)))
        .where(*within_period(runs.c.start_time, since, until))
        .order_by(runs.c.start_time.desc(), runs.c.run_id.desc())
        .limit(MOST_RUNS)
    )
    if filesystem is not None:
        query = query.where(runs.c.filesystem == filesystem)
    rows = connection.execute(query).all()
    measured = np.zeros(len(rows), dtype=MEASURED)
    if not rows:
        return measured
    start, processes, files, shared, meta, *rest = zip(*rows, strict=True)
    measured["start"], measured["processes"], measured["meta_seconds"] = start, processes, meta
    measured["opens"] = np.array(files) + (np.array(processes) - 1) * np.array(shared)
    for side, seconds in enumerate(rest[:2]):
        asked, asked_bytes, contiguous, in_shared, moved = (
            np.array([value or 0 for value in column], dtype=np.int64) for column in rest[2 + 5 * side : 7 + 5 * side]
        )
        measured["seconds"][:, side] = seconds
        measured["bytes"][:, side] = moved
        # The order of requests is that of one interface; where another moved more, it says little.
        known = (asked_bytes >= 0.5 * moved) & np.array([value is not None for value in rest[4 + 5 * side]])
        scale = np.where(known, moved / np.maximum(asked_bytes, 1), 0.0)
        measured["requests"][:, side] = np.round(asked * scale)
        measured["contiguous"][:, side] = np.round(contiguous * scale)
        measured["shared"][:, side] = 2 * in_shared > moved
    return measured[::-1].copy()
