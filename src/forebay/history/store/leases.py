"""Which targets of a file system running jobs hold, and until when."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.store.schema import leases


def jobs_by_target(connection: Connection, system: str, now: float) -> dict[int, set[str]]:
    """The jobs on each target of a file system, by leases that have not expired `now`."""
    query = sa.select(leases.c.target, leases.c.job).where(leases.c.system == system, leases.c.until > now)
    jobs: dict[int, set[str]] = {}
    for target, job in connection.execute(query):
        jobs.setdefault(target, set()).add(job)
    return jobs


def take_targets(
    connection: Connection, system: str, job: str, targets: Iterable[int], *, until: float, now: float
) -> None:
    """Give targets to a job instead of those it holds, and delete expired leases."""
    of_job = sa.and_(leases.c.system == system, leases.c.job == job)
    connection.execute(leases.delete().where(sa.or_(of_job, leases.c.until <= now)))
    rows = [{"system": system, "job": job, "target": target, "until": until} for target in targets]
    if rows:
        connection.execute(leases.insert(), rows)


def release_targets(connection: Connection, job: str, system: str | None = None) -> int:
    """Release a job's targets, of one file system or of all; returns how many."""
    on_system = sa.true() if system is None else leases.c.system == system
    return connection.execute(leases.delete().where(leases.c.job == job, on_system)).rowcount
