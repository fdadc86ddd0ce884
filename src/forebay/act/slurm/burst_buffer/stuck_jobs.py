"""Jobs that Slurm will never start by itself because of their burst buffer, and what to do about each.

A job whose burst buffer is in a state that Slurm does not leave is cancelled and requeued, and keeps its number:
nothing else makes Slurm begin again. A job that was held because the service did not answer is released. All others
that are held because of their burst buffer are reported, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from forebay.act.slurm.queue import QueuedJob

AWAY = "[service-away]"
"""The end of a reason from our hooks if the service did not answer; the same as in lua/forebay.lua."""
_PLUGIN = "burst_buffer/lua: "
_PRE_RUN = "Burst buffer pre_run error"
_WITH_DATA = frozenset({"running", "suspended", "post-run", "staging-out", "staged-out"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What to do about a job: begin again, release it, or report it with `advice`."""

    job: QueuedJob
    what: Literal["requeue", "unhold", "report"]
    because: str
    advice: str = ""


def find_stuck(
    jobs: Iterable[QueuedJob],
    buffers: Collection[str],
    torn_down: Collection[str],
    dependents: Mapping[str, Collection[str]],
) -> list[Repair]:
    """The repairs of the jobs that need one.

    `buffers` are the jobs with a burst buffer of Slurm's own, `torn_down` those with nothing left to tear down.
    """
    repairs = (_repair(job, buffers, torn_down, dependents) for job in jobs if job.state == "PENDING" and job.buffer)
    return [repair for repair in repairs if repair is not None]


def _repair(
    job: QueuedJob, buffers: Collection[str], torn_down: Collection[str], dependents: Mapping[str, Collection[str]]
) -> Repair | None:
    because = _stuck_reason(job, buffers, torn_down)
    if because:
        waiting = {name for number in (job.number, job.name.partition("_")[0]) for name in dependents.get(number, ())}
        return _requeue(job, because, sorted(waiting))
    if job.buffer in _WITH_DATA and job.number not in buffers:
        advice = f"copy what you need from its space (forebay storage list), then run scancel {job.name}"
        return Repair(job=job, what="report", because="Slurm lost its burst buffer before the stage-out", advice=advice)
    # A requeued job whose teardown failed once: Slurm keeps the reason after the next try, and never starts the job.
    left_behind = not job.is_held and job.buffer == "complete" and job.reason.startswith(_PLUGIN)
    if not left_behind and not _is_held_by_us(job):
        return None
    if left_behind or job.reason == _PRE_RUN or job.reason.endswith(AWAY):
        return Repair(job=job, what="unhold", because=job.reason.removeprefix(_PLUGIN).removesuffix(AWAY).rstrip())
    advice = f"correct this, then run scontrol release {job.name} (or scancel {job.name})"
    return Repair(job=job, what="report", because=job.reason.removeprefix(_PLUGIN), advice=advice)


def _stuck_reason(job: QueuedJob, buffers: Collection[str], torn_down: Collection[str]) -> str:
    """Why Slurm will never start it; "" if it may."""
    if job.buffer == "pre-run":
        return "its start failed, and Slurm does not try again"
    if job.buffer in ("staging-in", "alloc-revoke") and job.number not in buffers:
        return "Slurm lost its burst buffer during set-up"
    if job.buffer == "teardown" and job.number in torn_down and not _is_held_by_us(job):
        return "Slurm waits for a teardown that it killed"
    return ""


def _is_held_by_us(job: QueuedJob) -> bool:
    """Whether one of our hooks failed; Slurm may still be tearing down what it began."""
    return job.is_held and (job.reason == _PRE_RUN or job.reason.startswith(_PLUGIN))


def _requeue(job: QueuedJob, because: str, dependents: list[str]) -> Repair:
    if dependents:
        others = ", ".join(dependents)
        advice = (
            f"jobs that depend on it would see this as its end: {others}; run scancel {job.name} and submit it again"
        )
    elif not job.may_requeue:
        advice = f"only batch jobs can begin again; run scancel {job.name} and submit it again"
    else:
        return Repair(job=job, what="requeue", because=because)
    return Repair(job=job, what="report", because=because, advice=advice)
