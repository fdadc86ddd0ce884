"""Jobs that run now: their applications and targets, and what was decided for them.

A running job has a lease that belongs to no file system. So whatever frees its targets also ends the job, and a job
that nobody ended is over when its lease expires.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.run_fields import Row
from forebay.history.store.leases import jobs_by_target, take_targets
from forebay.history.store.schema import apps, decisions, jobs, leases, runs

_RUNNING = "running jobs"  # no file system has a name with a space
_BEGUN, _DECIDED = 0, 1
MOST_SEARCHED = 200_000
"""The newest jobs among which one of the same name is searched, so that a starting job does not wait long."""
TARGETS = "targets"
"""The phase of a decision about a number of targets instead of a layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job that holds targets, and its application."""

    job: str
    app: str
    nprocs: int
    targets: tuple[int, ...]


def begin_job(connection: Connection, job: str, *, until: float, now: float) -> bool:
    """Record that a job runs, at the latest until then; False if that is recorded already."""
    if _is_running(connection, job, now):
        return False
    take_targets(connection, _RUNNING, job, (_BEGUN,), until=until, now=now)
    return True


def mark_decided(connection: Connection, job: str, *, until: float, now: float) -> None:
    """Record that everything is decided for the job."""
    take_targets(connection, _RUNNING, job, (_DECIDED,), until=until, now=now)


def is_decided(connection: Connection, job: str, now: float) -> bool:
    return job in jobs_by_target(connection, _RUNNING, now).get(_DECIDED, ())


def list_running_jobs(connection: Connection, system: str, now: float) -> list[RunningJob]:
    """The jobs that hold targets of a system, by name, without those for which nothing was decided."""
    targets: dict[str, list[int]] = {}
    for target, names in sorted(jobs_by_target(connection, system, now).items()):
        for job in names:
            targets.setdefault(job, []).append(target)
    rows = ((job, _last_decision(connection, job)) for job in sorted(targets))
    return [
        RunningJob(job=job, app=row["app"], nprocs=row["nprocs"], targets=tuple(targets[job]))
        for job, row in rows
        if row is not None
    ]


def list_targets(connection: Connection, system: str, job: str, now: float) -> tuple[int, ...]:
    """The targets of a system that a job holds."""
    return tuple(target for target, names in sorted(jobs_by_target(connection, system, now).items()) if job in names)


def last_app(connection: Connection, job: str) -> str:
    """The application of the last decision for a job; empty if there is none."""
    row = _last_decision(connection, job)
    return "" if row is None else str(row["app"])


def applied_layout(connection: Connection, job: str) -> Row | None:
    """The last decision about a layout for a job, if the layout was applied."""
    row = _last_decision(connection, job, decisions.c.phase != TARGETS)
    return row if row is not None and row["outcome"] == "applied" else None


def last_decision_time(connection: Connection, job: str, now: float) -> float | None:
    """The time of the last decision for a job that runs, in seconds since 1970."""
    if not _is_running(connection, job, now):
        return None  # without a search through all decisions
    row = _last_decision(connection, job)
    return None if row is None else float(row["time"])


def is_known_app(connection: Connection, app: str) -> bool:
    """Whether the history has an application of that name."""
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


def forget_job(connection: Connection, job: str) -> int:
    """Release everything that a job holds; returns the number of targets."""
    of_job = leases.c.job == job
    freed = connection.execute(sa.select(sa.func.count()).where(of_job, leases.c.system != _RUNNING)).scalar_one()
    connection.execute(leases.delete().where(of_job))
    return int(freed)


def _is_running(connection: Connection, job: str, now: float) -> bool:
    return any(job in names for names in jobs_by_target(connection, _RUNNING, now).values())


def _last_decision(connection: Connection, job: str, *conditions: sa.ColumnElement[bool]) -> Row | None:
    query = sa.select(decisions).where(decisions.c.job == job, *conditions)
    row = connection.execute(query.order_by(decisions.c.decision_id.desc()).limit(1)).mappings().first()
    return None if row is None else dict(row)
