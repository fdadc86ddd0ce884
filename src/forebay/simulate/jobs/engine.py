"""The event loop: jobs arrive, wait, run and end. A scheduling policy decides after all events of one instant."""

from typing import NamedTuple

import numpy as np

from forebay.decide.schedule.memory import Memory
from forebay.decide.schedule.policies import choose
from forebay.decide.schedule.view import KNOWN_JOB, MACHINE, Starts, View, new_starts
from forebay.model.kernels import Array, hot_kernel
from forebay.simulate.jobs.sorted_rows import insert_row, remove_row

# Where a job is:
COMING, WAITING, RUNNING, ENDED = 0, 1, 2, 3
# Why `run` returns:
FINISHED, MORE, TOO_LARGE, NOT_WAITING, STUCK = 0, 1, 2, 3, 4

FATE = np.dtype(
    [
        ("state", np.int8),
        ("runtime", np.float64),  # true; at most the wall time
        ("start", np.float64),
        ("end", np.float64),  # when its nodes are free again
    ]
)
COUNTS = np.dtype(
    [
        ("arrived", np.int64),  # rows before this one have arrived
        ("waiting", np.int64),
        ("running", np.int64),
        ("passes", np.int64),  # calls of the policy
        ("culprit", np.int64),  # the row that made `run` fail
    ]
)


class State(NamedTuple):
    """All state of one simulation. Rows are jobs in order of submission."""

    machine: Array  # see decide.schedule.view
    jobs: Array
    fates: Array  # what the policy must not see
    queue: Array
    by_walltime: Array
    running: Array  # by `end_by`
    ending: Array  # the same rows by their true ends
    counts: Array  # one COUNTS record
    starts: Starts


def new_state(rows: Array, nodes: int, space: int) -> State:
    """Return the state before the first submission; `rows` are JOB records in order of submission."""
    machine = np.zeros(1, MACHINE)
    machine["nodes"] = machine["free_nodes"] = nodes
    machine["bytes"] = machine["free_bytes"] = space
    jobs = np.zeros(rows.size, KNOWN_JOB)
    for column in ("submit", "nodes", "walltime", "bytes", "bytes_in", "bytes_out", "user", "project", "tier"):
        jobs[column] = rows[column]
    jobs["application"] = rows["application"]
    jobs["id"], jobs["predicted"] = np.arange(rows.size), rows["walltime"]
    fates = np.zeros(rows.size, FATE)
    fates["runtime"] = np.minimum(rows["runtime"], rows["walltime"])
    fates["start"] = fates["end"] = np.inf
    queue, by_walltime, running, ending = (np.zeros(rows.size, np.int64) for _ in range(4))
    counts, starts = np.zeros(1, COUNTS), new_starts(rows.size)
    return State(machine, jobs, fates, queue, by_walltime, running, ending, counts, starts)


@hot_kernel
def run(state: State, memory: Memory, policy: int, most: int) -> int:
    """Process up to `most` instants with a built-in policy. Returns FINISHED, MORE or what went wrong."""
    for _ in range(most):
        code = advance(state)
        if code != MORE:
            return code
        choose(policy, view_of(state), memory, state.starts)
        code = carry_out(state)
        if code != MORE:
            return code
    return MORE


@hot_kernel
def view_of(state: State) -> View:
    """Return what the policy sees."""
    counts = state.counts[0]
    waiting, running = counts.waiting, counts.running
    return View(state.machine, state.jobs, state.queue[:waiting], state.by_walltime[:waiting], state.running[:running])


@hot_kernel
def advance(state: State) -> int:
    """Go to the next instant at which jobs end or arrive, and process them. FINISHED if there is none."""
    machine, counts, fates, jobs = state.machine[0], state.counts[0], state.fates, state.jobs
    arrival = jobs[np.uint64(counts.arrived)].submit if counts.arrived < jobs.size else np.inf
    end = fates[np.uint64(state.ending[0])].end if counts.running > 0 else np.inf
    now = min(arrival, end)
    if now == np.inf:
        if counts.waiting == 0:
            return FINISHED
        counts.culprit = state.queue[0]
        return STUCK
    machine.now = now
    while counts.running > 0 and fates[np.uint64(state.ending[0])].end == now:
        _end_job(state, state.ending[0])
    while counts.arrived < jobs.size and jobs[np.uint64(counts.arrived)].submit == now:
        row = counts.arrived
        state.queue[counts.waiting] = row
        insert_row(state.by_walltime, counts.waiting, jobs.walltime, row)
        fates[np.uint64(row)].state = WAITING
        counts.waiting += 1
        counts.arrived += 1
    counts.passes += 1
    state.starts.count[0] = 0
    return MORE


@hot_kernel
def carry_out(state: State) -> int:
    """Start the jobs that the policy starts now."""
    now, starts = state.machine[0].now, state.starts
    for k in range(starts.count[0]):
        if starts.times[k] > now:
            continue
        row = starts.rows[k]
        code = _start_job(state, row)
        if code != MORE:
            state.counts[0].culprit = row
            return code
    return MORE


@hot_kernel
def _start_job(state: State, row: int) -> int:
    machine, counts, job, fate = (
        state.machine[0],
        state.counts[0],
        state.jobs[np.uint64(row)],
        state.fates[np.uint64(row)],
    )
    if fate.state != WAITING:
        return NOT_WAITING
    if job.nodes > machine.free_nodes or job.bytes > machine.free_bytes:
        return TOO_LARGE
    machine.free_nodes -= job.nodes
    machine.free_bytes -= job.bytes
    remove_row(state.queue, counts.waiting, state.jobs.submit, row)
    remove_row(state.by_walltime, counts.waiting, state.jobs.walltime, row)
    counts.waiting -= 1
    job.start, fate.start, fate.state = machine.now, machine.now, RUNNING
    job.end_by = job.space_until = job.start + job.walltime
    job.expected_end = job.start + job.predicted
    fate.end = job.start + fate.runtime
    insert_row(state.running, counts.running, state.jobs.end_by, row)
    insert_row(state.ending, counts.running, state.fates.end, row)
    counts.running += 1
    return MORE


@hot_kernel
def _end_job(state: State, row: int) -> None:
    machine, counts, job = state.machine[0], state.counts[0], state.jobs[np.uint64(row)]
    machine.free_nodes += job.nodes
    machine.free_bytes += job.bytes
    remove_row(state.running, counts.running, state.jobs.end_by, row)
    remove_row(state.ending, counts.running, state.fates.end, row)
    counts.running -= 1
    state.fates[np.uint64(row)].state = ENDED
