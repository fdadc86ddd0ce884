"""Compares what Slurm did with what a scheduling policy would have done with the same jobs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forebay.decide.policy import Policy
from forebay.history.jobs.planner_record import PlannerRecord
from forebay.model.errors import BadInput
from forebay.model.jobs import reject_oversized
from forebay.simulate.jobs.run import JobMachine, simulate_jobs

_SHORT = 600.0  # seconds; shorter run times count as this many in the slowdown


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Waiting times of the same jobs under one scheduler, in seconds."""

    scheduler: str
    mean: float
    median: float
    p95: float
    longest: float
    mean_bounded_slowdown: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`then` is what happened, `now` what the policy would have done, for `jobs` jobs."""

    jobs: int
    left_out: int
    then: Waits
    now: Waits


def replay_record(
    record: PlannerRecord, policy: Policy, *, progress: Callable[[float], None] | None = None
) -> Comparison:
    """Simulate the jobs of the record. Jobs that ran when it began take their place, but do not count."""
    if not len(record.jobs):
        raise BadInput(record.jobs.file, "has no job that has ended yet; let the planner run for longer")
    jobs = reject_oversized(record.jobs, record.nodes, record.space)
    names = set(jobs.ids)
    fits = np.array([name in names for name in record.jobs.ids])
    counts, starts = ~record.was_running[fits], record.starts[fits]
    if not counts.any():
        raise BadInput(record.jobs.file, "has no job that waited; let the planner run for longer")
    run = simulate_jobs(jobs, JobMachine(nodes=record.nodes, space=record.space), policy, progress=progress)
    submit, runtime = jobs.rows["submit"], jobs.rows["runtime"]
    return Comparison(
        jobs=int(counts.sum()),
        left_out=len(jobs.rejected),
        then=_measure("Slurm", submit[counts], starts[counts], runtime[counts]),
        now=_measure(policy.name, submit[counts], run.starts[counts], runtime[counts]),
    )


def _measure(
    name: str, submit: NDArray[np.float64], starts: NDArray[np.float64], runtime: NDArray[np.float64]
) -> Waits:
    waits = np.maximum(starts - submit, 0.0)
    slowdowns = np.maximum((waits + runtime) / np.maximum(runtime, _SHORT), 1.0)
    return Waits(
        scheduler=name,
        mean=float(waits.mean()),
        median=float(np.median(waits)),
        p95=float(np.percentile(waits, 95)),
        longest=float(waits.max()),
        mean_bounded_slowdown=float(slowdowns.mean()),
    )
