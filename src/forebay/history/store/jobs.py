"""Jobs: Slurm's accounting, and the bytes that they moved."""

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.run_fields import Row
from forebay.history.store.bulk import upsert, whole_sum
from forebay.history.store.schema import apps, jobs, runs

MOST_SEARCHED = 200_000
"""The number of newest jobs to search for one of the same name, so that a starting job does not wait long."""


def add_jobs(connection: Connection, rows: Iterable[Row]) -> int:
    """Add or update jobs from Slurm's accounting; the last row of a job counts. Returns the number of jobs."""
    last = {row["job_id"]: row for row in rows}
    upsert(connection, jobs, list(last.values()))
    return len(last)


def job_volumes(connection: Connection) -> Sequence[Any]:
    """Every job with a run: its `job_id`, the times `submitted`, `start` and `end`, the bytes `read` and `written`.

    Runs with the same job number but another user are another job.
    """
    start, submitted = sa.func.min(runs.c.start_time), sa.func.min(jobs.c.submit_time)
    query = (
        sa.select(
            runs.c.job_id,
            sa.case((submitted < start, submitted), else_=start).label("submitted"),
            start.label("start"),
            sa.func.max(runs.c.end_time).label("end"),
            whole_sum(runs.c.bytes_read).label("read"),
            whole_sum(runs.c.bytes_written).label("written"),
        )
        .join_from(runs, jobs, runs.c.job_id == jobs.c.job_id, isouter=True)
        .group_by(runs.c.job_id, runs.c.uid)
        .order_by(runs.c.job_id, runs.c.uid)
    )
    return connection.execute(query).all()


def accounted_jobs(connection: Connection) -> Sequence[Any]:
    """Every job of Slurm's accounting, with the bytes `read` and `written` by its runs."""
    moved = (
        sa.select(runs.c.job_id, *(whole_sum(runs.c[f"bytes_{name}"]).label(name) for name in ("read", "written")))
        .group_by(runs.c.job_id)
        .subquery()
    )
    sums = (sa.func.coalesce(moved.c[name], 0).label(name) for name in ("read", "written"))
    query = sa.select(jobs, *sums).join_from(jobs, moved, jobs.c.job_id == moved.c.job_id, isouter=True)
    return connection.execute(query.order_by(jobs.c.job_id)).all()


def is_known_app(connection: Connection, app: str) -> bool:
    return connection.execute(sa.select(apps.c.app_id).where(apps.c.app == app)).scalar() is not None


def find_app_of_job_name(connection: Connection, name: str, user: str) -> str | None:
    """The application of the user's last job with that name; if it ran several, the one that moved most bytes."""
    newest = sa.select(sa.func.max(jobs.c.job_id)).scalar_subquery()
    query = (
        sa.select(apps.c.app)
        .select_from(runs.join(apps).join(jobs, jobs.c.job_id == runs.c.job_id))
        .where(jobs.c.job_id > newest - MOST_SEARCHED, jobs.c.job_name == name, jobs.c.user == user)
        .order_by(runs.c.job_id.desc(), runs.c.total_bytes.desc(), apps.c.app)
        .limit(1)
    )
    return connection.execute(query).scalar()
