"""Running jobs, and the targets that they hold.

A running job has an extra lease without a file system. So the call that frees its targets also ends the job, and a job
without such a call ends when its lease expires.
"""

from collections.abc import Iterable
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.run_fields import Row
from forebay.history.store.decisions import last_decision
from forebay.history.store.schema import decisions, leases

_RUNNING = "running jobs"  # no file system has a name with a space
_BEGUN, _DECIDED = 0, 1
TARGETS = "targets"
"""The phase of a decision about a number of targets instead of a layout."""


def jobs_by_target(connection: Connection, system: str, now: float) -> dict[int, set[str]]:
    """The jobs on each target of a file system, by leases that have not expired `now`."""
    query = sa.select(leases.c.target, leases.c.job).where(leases.c.system == system, leases.c.until > now)
    by_target: dict[int, set[str]] = {}
    for target, job in connection.execute(query):
        by_target.setdefault(target, set()).add(job)
    return by_target


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


class RunningJob(NamedTuple):
    """A job that holds targets, and its application."""

    job: str
    app: str
    nprocs: int
    targets: tuple[int, ...]


def begin_job(connection: Connection, job: str, *, until: float, now: float) -> bool:
    """Record that a job runs, until `until` at the latest; False if that is already recorded."""
    if _is_running(connection, job, now):
        return False
    take_targets(connection, _RUNNING, job, (_BEGUN,), until=until, now=now)
    return True


def mark_decided(connection: Connection, job: str, *, until: float, now: float) -> None:
    take_targets(connection, _RUNNING, job, (_DECIDED,), until=until, now=now)


def is_decided(connection: Connection, job: str, now: float) -> bool:
    return job in jobs_by_target(connection, _RUNNING, now).get(_DECIDED, ())


def forget_job(connection: Connection, job: str) -> int:
    """Release everything that a job holds; returns the number of targets."""
    of_job = leases.c.job == job
    freed = connection.execute(sa.select(sa.func.count()).where(of_job, leases.c.system != _RUNNING)).scalar_one()
    connection.execute(leases.delete().where(of_job))
    return int(freed)


def list_running_jobs(connection: Connection, system: str, now: float) -> list[RunningJob]:
    """The jobs that hold targets of a system, by name, without jobs that have no decision."""
    targets: dict[str, list[int]] = {}
    for target, names in sorted(jobs_by_target(connection, system, now).items()):
        for job in names:
            targets.setdefault(job, []).append(target)
    rows = ((job, last_decision(connection, decisions.c.job == job)) for job in sorted(targets))
    return [RunningJob(job, row["app"], row["nprocs"], tuple(targets[job])) for job, row in rows if row]


def list_targets(connection: Connection, system: str, job: str, now: float) -> tuple[int, ...]:
    return tuple(target for target, names in sorted(jobs_by_target(connection, system, now).items()) if job in names)


def last_app(connection: Connection, job: str) -> str:
    """The application of the last decision for a job; "" without one."""
    row = last_decision(connection, decisions.c.job == job)
    return str(row["app"]) if row else ""


def applied_layout(connection: Connection, job: str) -> Row | None:
    """The last decision about a layout for a job, if the layout was applied."""
    row = last_decision(connection, decisions.c.job == job, decisions.c.phase != TARGETS)
    return row if row and row["outcome"] == "applied" else None


def last_decision_time(connection: Connection, job: str, now: float) -> float | None:
    """The time of the last decision for a running job, in seconds since 1970; None if it does not run."""
    if not _is_running(connection, job, now):
        return None  # without searching all decisions
    row = last_decision(connection, decisions.c.job == job)
    return float(row["time"]) if row else None


def _is_running(connection: Connection, job: str, now: float) -> bool:
    return any(job in names for names in jobs_by_target(connection, _RUNNING, now).values())
