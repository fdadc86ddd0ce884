"""Predicts run times from the jobs that ended last: what share of their wall times similar jobs used.

Similar are jobs of the same user and application, with as many nodes and about the same wall time. Jobs of others count
little, and so does the wall time itself, which is the prediction if nothing has ended yet. The simulator and the live
planner use the same functions.
"""

from typing import NamedTuple

import numpy as np

from forebay.model.kernels import Array, hot_kernel

LAST = 512
"""The number of jobs that are remembered."""
ENDED = np.dtype(
    [
        ("user", np.int32),  # -1 if unknown
        ("application", np.int32),
        ("nodes", np.int64),
        ("logarithm", np.float64),  # of the wall time
        ("share", np.float64),  # of the wall time that the job ran
    ]
)
_FADING = 0.995  # the weight of a job, over that of the next one that ended
_OTHER_USER, _OTHER_APPLICATION, _OTHER_NODES = 0.01, 0.25, 0.5
_SPREAD = 2.0  # how fast weights fall with the logarithm of the ratio of wall times
_DOUBT = 0.02  # the weight of the wall time itself
_CAUTION = 0.5  # standard deviations that are added to the mean
_SHORT = 600.0  # s: the bounded slowdown counts shorter run times as this many


class Past(NamedTuple):
    """The last jobs that ended, in a ring."""

    jobs: Array  # ENDED records
    count: Array  # [number of jobs that have ended so far]


def new_past() -> Past:
    return Past(np.zeros(LAST, ENDED), np.zeros(1, np.int64))


@hot_kernel
def learn_runtime(past: Past, jobs: Array, row: int, runtime: float) -> None:
    """Remember that the job of this row has ended after `runtime` seconds."""
    job = jobs[np.uint64(row)]
    entry = past.jobs[np.uint64(past.count[0] % LAST)]
    entry.user, entry.application, entry.nodes = job.user, job.application, job.nodes
    entry.logarithm, entry.share = np.log(job.walltime), min(runtime / job.walltime, 1.0)
    past.count[0] += 1


@hot_kernel
def predict_runtimes(past: Past, jobs: Array, waiting: Array, running: Array, now: float) -> None:
    """Set `predicted` and `urgency` of waiting jobs, and `expected_end` of those that hold nodes."""
    for row in waiting:
        job = jobs[np.uint64(row)]
        job.predicted, job.urgency = _predict(past, job, 0.0)
    for row in running:
        job = jobs[np.uint64(row)]
        if job.end_by > now:
            runtime, _ = _predict(past, job, now - job.start)
            job.expected_end = min(job.start + runtime, job.end_by)


@hot_kernel
def _predict(past: Past, job: Array, elapsed: float) -> tuple[float, float]:
    """Return a run time, and a mean urgency, from similar jobs that ran for longer than `elapsed`."""
    logarithm, least, count = np.log(job.walltime), elapsed / job.walltime, past.count[0]
    weights, shares, squares, urgencies = _DOUBT, _DOUBT, _DOUBT, _DOUBT * _SHORT / max(job.walltime, _SHORT)
    fading = 1.0
    for number in range(count - 1, max(count - LAST, 0) - 1, -1):
        other = past.jobs[np.uint64(number % LAST)]
        if other.share > least:
            distance = 1.0 + _SPREAD * abs(other.logarithm - logarithm)
            weight = fading / (distance * distance)
            if job.user < 0 or other.user != job.user:
                weight *= _OTHER_USER
            if other.application != job.application:
                weight *= _OTHER_APPLICATION
            if other.nodes != job.nodes:
                weight *= _OTHER_NODES
            weights += weight
            shares += weight * other.share
            squares += weight * other.share * other.share
            urgencies += weight * _SHORT / max(other.share * job.walltime, _SHORT)
        fading *= _FADING
    mean = shares / weights
    deviation = np.sqrt(max(squares / weights - mean * mean, 0.0))
    return min(mean + _CAUTION * deviation, 1.0) * job.walltime, urgencies / weights
