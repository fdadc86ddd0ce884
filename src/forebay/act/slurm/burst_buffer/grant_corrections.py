"""What Slurm knows and what the service holds, made to agree.

A job's space is given back by its teardown. Where that did not happen (the service was away for long, slurmctld lost
its state), the grant would live to the end of its time: here it is given back as soon as Slurm has no such job. And a
job that waits or runs longer than was thought keeps its space.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from forebay.act.slurm.burst_buffer.queue import QueuedJob

_WAITS = frozenset({"PENDING", "CONFIGURING"})
_RUNS = frozenset({"RUNNING", "SUSPENDED"})
_NO_BUFFER = frozenset({"pending", "complete"})
_SLACK = 60.0
"""Seconds by which a running job's space may end earlier than it should: Slurm tells what is left in whole seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mend:
    """What is to be done with a grant; `until` is seconds since 1970, for those that are to last longer."""

    grant: str
    job: str
    what: Literal["release", "extend"]
    because: str
    until: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Seconds: of a job without a limit, of what comes after a job, and of what a job may wait longer than thought.

    A new grant is left alone for `grace`: Slurm may have asked for it while we looked at its jobs.
    """

    time: float
    margin: float
    queue: float
    grace: float


def job_of(grant: Mapping[str, Any], cluster: str) -> str:
    """The number of the job that a grant is for; nothing if it is not one of this cluster's.

    >>> job_of({"key": "slurm-hpc-4711.2"}, "hpc"), job_of({"key": "slurm-hpc2-7"}, "hpc"), job_of({"key": "x"}, "hpc")
    ('4711', '', '')
    """
    found = re.fullmatch(rf"slurm-{re.escape(cluster)}-(\d+)(?:\.\d+)?", str(grant["key"]))
    return found[1] if found else ""


def mends(
    grants: Iterable[Mapping[str, Any]],
    jobs: Mapping[str, QueuedJob],
    buffers: frozenset[str],
    *,
    cluster: str,
    terms: Terms,
    now: float,
    longest: float = math.inf,
    times: Mapping[str, float] | None = None,
) -> list[Mend]:
    """What to do, given what the service holds, Slurm's jobs, and those with a burst buffer of Slurm's own.

    `longest` is the seconds that a grant may last, `times` the seconds that jobs asked for themselves.
    """
    found = []
    for grant in grants:
        number = job_of(grant, cluster)
        if not number or grant["state"] == "releasing":
            continue
        job = jobs.get(number)
        if job is None or _is_needless(job, buffers):
            if (job is not None or number not in buffers) and now - grant["created"] >= terms.grace:
                because = f"job {number} {_state_of(job)}"
                found.append(Mend(grant=grant["id"], job=number, what="release", because=because))
        elif grant["state"] in ("ready", "in-use"):
            until = min(_needed_until(job, (times or {}).get(number), grant, terms, now), grant["start"] + longest)
            if grant["until"] < until:
                because = f"job {number} still {'waits' if job.state in _WAITS else 'runs'}"
                found.append(Mend(grant=grant["id"], job=number, what="extend", because=because, until=until))
    return found


def _is_needless(job: QueuedJob, buffers: frozenset[str]) -> bool:
    """Whether it has no use for its space: it is over, or Slurm has not begun to set up its burst buffer.

    What is left of an earlier set-up could keep Slurm from ever beginning again: it takes the room that the job needs.
    """
    if job.is_torn_down:
        return True
    over = job.is_over or (job.state == "PENDING" and job.buffer in _NO_BUFFER)
    return over and job.number not in buffers


def _state_of(job: QueuedJob | None) -> str:
    if job is None:
        return "is gone"
    return f"is {job.state.lower()}" if job.is_over else "waits without a burst buffer"


def _needed_until(job: QueuedJob, time: float | None, grant: Mapping[str, Any], terms: Terms, now: float) -> float:
    """Until when its grant is to last at least; 0 if that is not for us to say."""
    if job.state in _WAITS:
        needs = now + (time or job.limit or terms.time) + terms.margin
        return needs + terms.queue if grant["until"] < needs else 0.0
    if job.state not in _RUNS or time is not None:
        return 0.0
    if job.left is not None:
        needs = now + job.left + terms.margin
        return needs if grant["until"] < needs - _SLACK else 0.0
    if job.limit is None and grant["until"] < now + terms.margin:
        return now + terms.time + terms.margin
    return 0.0
