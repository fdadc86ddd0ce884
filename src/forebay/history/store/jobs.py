"""Jobs: what Slurm's accounting says of them, and what each moved over all its runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.run_fields import Row
from forebay.history.store.bulk import upsert
from forebay.history.store.schema import jobs, runs


def add_jobs(connection: Connection, rows: Iterable[Row]) -> int:
    """Add or update jobs; the last row of a job counts. Returns the number of jobs."""
    last = {row["job_id"]: row for row in rows}
    upsert(connection, jobs, list(last.values()))
    return len(last)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVolume:
    """What a job moved, in bytes; times in seconds since 1970."""

    job_id: int
    submitted: float
    start: float
    end: float
    read: int
    written: int


def job_volumes(connection: Connection) -> Iterator[JobVolume]:
    """Every job with a run; runs with the same job number but another user are another job."""
    start = sa.func.min(runs.c.start_time)
    query = (
        sa.select(
            runs.c.job_id,
            sa.func.coalesce(sa.func.min(jobs.c.submit_time), start).label("submitted"),
            start.label("start"),
            sa.func.max(runs.c.end_time).label("end"),
            sa.func.sum(runs.c.bytes_read).label("read"),
            sa.func.sum(runs.c.bytes_written).label("written"),
        )
        .join_from(runs, jobs, runs.c.job_id == jobs.c.job_id, isouter=True)
        .group_by(runs.c.job_id, runs.c.uid)
        .order_by(runs.c.job_id, runs.c.uid)
    )
    for row in connection.execute(query, execution_options={"yield_per": 20_000}):
        yield JobVolume(
            job_id=row.job_id,
            submitted=min(row.submitted, row.start),
            start=row.start,
            end=row.end,
            read=int(row.read),
            written=int(row.written),
        )
