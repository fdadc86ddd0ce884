"""What Slurm knows and what the service holds, made to agree.

A job's space is given back by its teardown. Where that did not happen (the service was away for long, slurmctld lost
its state), the grant would live to the end of its time: here it is given back as soon as Slurm has no such job. And a
job that waits longer than was thought keeps the space that was made ready for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from forebay.act.slurm.queue import QueuedJob

_WAITS = frozenset({"PENDING", "CONFIGURING"})


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
) -> list[Mend]:
    """What to do, given what the service holds, Slurm's jobs, and those with a burst buffer of Slurm's own."""
    found = []
    for grant in grants:
        number = job_of(grant, cluster)
        if not number or grant["state"] == "releasing":
            continue
        job = jobs.get(number)
        needless = job is None or job.is_over
        if (needless and number not in buffers) or (job is not None and job.is_torn_down):
            if now - grant["created"] >= terms.grace:
                because = f"job {number} is {'gone' if job is None else job.state.lower()}"
                found.append(Mend(grant=grant["id"], job=number, what="release", because=because))
        elif job is not None and job.state in _WAITS and grant["state"] in ("ready", "in-use"):
            needs = now + (job.limit if job.limit is not None else terms.time) + terms.margin
            if grant["until"] < needs:
                because = f"job {number} still waits"
                until = needs + terms.queue
                found.append(Mend(grant=grant["id"], job=number, what="extend", because=because, until=until))
    return found
