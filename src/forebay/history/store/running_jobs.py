"""Jobs that run now, what they are, and what the last jobs of their names turned out to be.

A job that runs has a lease that belongs to no file system, so that whatever frees its targets also ends it,
and one that nobody ended is over when its time is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.store.leases import jobs_by_target, take_targets
from forebay.history.store.schema import apps, decisions, jobs, leases, runs

_RUNNING = "running jobs"  # with a space: no file system has that name
_BEGUN, _DECIDED = 0, 1
LOOKED_AT = 200_000
"""Jobs among which one of the same name is looked for: the newest, so that it takes no time that jobs wait for."""
TARGETS = "targets"
"""The phase of a decision that is about a number of targets, and no layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job that has targets: which application it is, and how many targets those are."""

    job: str
    app: str
    nprocs: int
    targets: tuple[int, ...]


def begin_job(connection: Connection, job: str, *, until: float, now: float) -> bool:
    """Note that a job runs, at the latest until then; False if somebody has noted that already."""
    if any(job in some for some in jobs_by_target(connection, _RUNNING, now).values()):
        return False
    take_targets(connection, _RUNNING, job, (_BEGUN,), until=until, now=now)
    return True


def mark_decided(connection: Connection, job: str, *, until: float, now: float) -> None:
    """All that is to be decided for the job is decided."""
    take_targets(connection, _RUNNING, job, (_DECIDED,), until=until, now=now)


def is_decided(connection: Connection, job: str, now: float) -> bool:
    return job in jobs_by_target(connection, _RUNNING, now).get(_DECIDED, ())


def list_running_jobs(connection: Connection, system: str, now: float) -> list[RunningJob]:
    """The jobs that have targets of a system, in the order of their names; those of which nothing was decided are
    left out."""
    own: dict[str, list[int]] = {}
    for target, some in sorted(jobs_by_target(connection, system, now).items()):
        for job in some:
            own.setdefault(job, []).append(target)
    found = []
    for job in sorted(own):
        row = connection.execute(_latest(job)).mappings().first()
        if row is not None:
            found.append(RunningJob(job=job, app=row["app"], nprocs=row["nprocs"], targets=tuple(own[job])))
    return found


def list_targets(connection: Connection, system: str, job: str, now: float) -> tuple[int, ...]:
    """The targets of a system that a job has."""
    return tuple(target for target, some in sorted(jobs_by_target(connection, system, now).items()) if job in some)


def last_app(connection: Connection, job: str) -> str:
    """The application for which something was last decided for a job; nothing if there is none."""
    row = connection.execute(_latest(job)).mappings().first()
    return "" if row is None else str(row["app"])


def applied_layout(connection: Connection, job: str) -> dict[str, Any] | None:
    """The layout that was last decided for a job, as its row says, if it was put on."""
    row = connection.execute(_latest(job).where(decisions.c.phase != TARGETS)).mappings().first()
    return dict(row) if row is not None and row["outcome"] == "applied" else None


def last_decision_time(connection: Connection, job: str, now: float) -> float | None:
    """When something was last decided for a job that runs, in seconds since 1970."""
    if not any(job in some for some in jobs_by_target(connection, _RUNNING, now).values()):
        return None  # looked up only where there is something: all decisions would have to be read in vain
    row = connection.execute(_latest(job)).mappings().first()
    return None if row is None else float(row["time"])


def is_known_app(connection: Connection, app: str) -> bool:
    """Whether the history has an application of that name."""
    return connection.execute(sa.select(apps.c.app_id).where(apps.c.app == app)).scalar() is not None


def find_app_of_job_name(connection: Connection, name: str, user: str) -> str | None:
    """The application that the last job of that name and user ran; of several, the one that moved most bytes."""
    newest = sa.select(sa.func.max(jobs.c.job_id)).scalar_subquery()
    query = (
        sa.select(apps.c.app)
        .select_from(runs.join(apps).join(jobs, jobs.c.job_id == runs.c.job_id))
        .where(jobs.c.job_id > newest - LOOKED_AT, jobs.c.job_name == name, jobs.c.user == user)
        .order_by(runs.c.job_id.desc(), runs.c.total_bytes.desc(), apps.c.app)
        .limit(1)
    )
    return connection.execute(query).scalar()


def forget_job(connection: Connection, job: str) -> int:
    """Free all that a job has; how many targets that were."""
    where = leases.c.job == job
    freed = connection.execute(sa.select(sa.func.count()).where(where, leases.c.system != _RUNNING)).scalar_one()
    connection.execute(leases.delete().where(where))
    return int(freed)


def _latest(job: str) -> sa.Select[Any]:
    return sa.select(decisions).where(decisions.c.job == job).order_by(decisions.c.decision_id.desc()).limit(1)
