"""Jobs: Slurm's accounting, the bytes that they moved, and the targets that running jobs hold.

A running job has an extra lease without a file system. So the call that frees its targets also ends the job, and a job
without such a call ends when its lease expires.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.run_fields import Row
from forebay.history.store.bulk import upsert, whole_sum
from forebay.history.store.decisions import last_decision
from forebay.history.store.schema import apps, decisions, jobs, leases, runs

_RUNNING = "running jobs"  # no file system has a name with a space
_BEGUN, _DECIDED = 0, 1
MOST_SEARCHED = 200_000
"""The number of newest jobs to search for one of the same name, so that a starting job does not wait long."""
TARGETS = "targets"
"""The phase of a decision about a number of targets instead of a layout."""


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
