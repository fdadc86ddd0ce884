"""What a scheduling policy sees, and how it answers."""

from typing import NamedTuple

import numpy as np

from forebay.model.kernels import Array, hot_kernel

MACHINE = np.dtype(
    [
        ("now", np.float64),
        ("nodes", np.int64),  # in all
        ("bytes", np.int64),
        ("free_nodes", np.int64),  # at `now`
        ("free_bytes", np.int64),
        ("holding", np.int64),  # waiting jobs that hold their bytes already
        ("stages", np.bool_),  # whether jobs stage data in and out
        ("wants_plan", np.bool_),  # if not, a policy may leave out reservations when nothing can start now
    ]
)
KNOWN_JOB = np.dtype(
    [
        ("id", np.int64),
        ("submit", np.float64),
        ("nodes", np.int64),
        ("walltime", np.float64),  # asked for; the job ends at the latest after that
        ("predicted", np.float64),  # run time that is rarely exceeded; the wall time if nothing is known
        ("urgency", np.float64),  # by prediction, 600 s over the run time, which is at least 600 s; 0 if unknown
        ("bytes", np.int64),
        ("bytes_in", np.int64),
        ("bytes_out", np.int64),
        ("stage_in", np.float64),  # estimated seconds before the start, during which the job holds bytes but no nodes
        ("stage_out", np.float64),  # the same after the end
        ("user", np.int32),
        ("project", np.int32),
        ("tier", np.int32),
        ("application", np.int32),
        ("held", np.bool_),  # it waits and holds its bytes already, because its stage-in has begun
        ("ready", np.float64),  # the earliest time at which its nodes can start; 0 if nothing prevents it
        # Of running jobs:
        ("start", np.float64),
        ("end_by", np.float64),  # start + wall time
        ("expected_end", np.float64),  # by its prediction; later than now
        ("space_until", np.float64),  # when it gives its bytes back if it runs for its wall time
    ]
)


class View(NamedTuple):
    """Queue, running jobs and free resources. Jobs are row numbers of `jobs`, which they keep until they end."""

    machine: Array  # one MACHINE record
    jobs: Array  # KNOWN_JOB records
    queue: Array  # rows of waiting jobs, in order of submission
    by_walltime: Array  # the same rows, the shortest wall time first; ties in order of submission
    running: Array  # rows of jobs that hold nodes or are staged out, by `end_by`


class Starts(NamedTuple):
    """A policy's answer. Jobs start in this order; a job that is not here has no reservation."""

    rows: Array
    times: Array  # when the job's nodes start; its stage-in begins `stage_in` before
    count: Array  # [number of entries]


def new_starts(capacity: int) -> Starts:
    """Return an empty answer with room for `capacity` jobs."""
    return Starts(np.zeros(capacity, np.int64), np.zeros(capacity), np.zeros(1, np.int64))


@hot_kernel
def start_at(starts: Array, row: int, when: float) -> None:
    """Start the job at `when`: now, or reserved for later."""
    count = starts.count[0]
    starts.rows[count], starts.times[count] = row, when
    starts.count[0] = count + 1


@hot_kernel
def soonest_start(view: Array, job: Array) -> float:
    """Return the first time at which the job could start on an empty machine."""
    now = view.machine[0].now
    return max(job.ready, now if job.held else now + job.stage_in)  # type: ignore[no-any-return]


@hot_kernel
def nothing_starts(view: View) -> bool:
    """Whether a call can end early: no job fits on what is free now, and nobody wants to see reservations."""
    machine = view.machine[0]
    if machine.stages or machine.wants_plan:
        return False
    if machine.free_nodes > 0:
        for row in view.queue:
            job = view.jobs[np.uint64(row)]
            if job.nodes <= machine.free_nodes and job.bytes <= machine.free_bytes:
                return False
    return True
