"""The event loop: jobs arrive, stage data in, run, end, and stage data out.

A scheduling policy decides after all events of one instant. A job holds bytes from the start of its stage-in to the end
of its stage-out, and nodes while it runs. Transfers share the bandwidth of the parallel file system.
"""

from typing import NamedTuple

import numpy as np

from forebay.decide.schedule.memory import Memory
from forebay.decide.schedule.policies import OTHER, choose
from forebay.decide.schedule.runtimes import Past, learn_runtime, new_past, predict_runtimes
from forebay.decide.schedule.view import KNOWN_JOB, MACHINE, Starts, View, new_starts
from forebay.model.kernels import Array, hot_kernel
from forebay.simulate.jobs import space as disks
from forebay.simulate.jobs.sorted_rows import insert_row, remove_row
from forebay.simulate.jobs.space import Space
from forebay.simulate.sharing import Flows, begin_flow, end_flow, has_seats, new_flows

# Where a job is:
COMING, WAITING, STAGING, STAGED, RUNNING, DRAINING, ENDED = range(7)
# Why `run` returns; space.py has further reasons:
GO, FINISHED, MORE, MORE_SEATS, MORE_MEMORY, ASK_SCHEDULE, TOO_LARGE, NOT_WAITING, STUCK = range(9)
# What `run` does next:
ADVANCE, DECIDE, CARRY_OUT = range(3)

FATE = np.dtype(
    [
        ("state", np.int8),
        ("runtime", np.float64),  # true; at most the wall time
        ("held_from", np.float64),  # when it begins to hold bytes
        ("start", np.float64),  # of its nodes
        ("end", np.float64),
        ("held_until", np.float64),
        ("mark", np.float64),  # where its transfer ends, on the clock of the file system (see sharing)
    ]
)
COUNTS = np.dtype(
    [
        ("next", np.int64),  # what `run` does next
        ("arrived", np.int64),  # rows before this one have arrived
        ("waiting", np.int64),
        ("running", np.int64),  # holding nodes or draining
        ("ending", np.int64),  # holding nodes
        ("moving", np.int64),  # staging in or out
        ("carried", np.int64),  # entries of the answer that are carried out
        ("foreseen", np.int64),  # jobs that had ended when run times were last predicted
        ("known", np.int64),  # jobs that had arrived then
        ("passes", np.int64),  # calls of the policy
        ("refused", np.int64),  # starts for which the disks had no room in the right places
        ("retries", np.int64),  # refusals in a row on a machine without any other event
        ("culprit", np.int64),  # the row that made `run` fail
        ("wake", np.float64),  # the next stage-in that is due before the next event
        ("rate", np.float64),  # of the file system, bytes/s
    ]
)
RETRY = 60.0  # s until a start that was refused on an otherwise idle machine is tried again
MOST_RETRIES = 100_000
FOREVER = 1e18  # the end of bookings of jobs that stage data, as nobody knows it
SOONEST = 1.0  # s from now, for the end of a transfer that is due
_SAME = 1e-3  # s, within which a stage-in is due


class State(NamedTuple):
    """All state of one simulation. Rows are jobs in order of submission."""

    machine: Array  # see decide.schedule.view
    jobs: Array
    fates: Array  # what the policy must not see
    queue: Array
    by_walltime: Array
    running: Array  # by `end_by`
    ending: Array  # those that hold nodes, by their true ends
    moving: Array  # jobs with a transfer, in no order
    counts: Array  # one COUNTS record
    starts: Starts
    flows: Flows  # on one resource, the parallel file system
    past: Past


def new_state(rows: Array, nodes: int, space: int, rate: float) -> State:
    """Return the state before the first submission; `rows` are JOB records in order of submission.

    `rate` is the bandwidth of the parallel file system; inf for no transfers.
    """
    machine = np.zeros(1, MACHINE)
    machine["nodes"] = machine["free_nodes"] = nodes
    machine["bytes"] = machine["free_bytes"] = space
    machine["stages"] = rate < np.inf
    jobs = np.zeros(rows.size, KNOWN_JOB)
    for column in ("submit", "nodes", "walltime", "bytes", "user", "project", "tier", "application"):
        jobs[column] = rows[column]
    jobs["id"], jobs["predicted"] = np.arange(rows.size), rows["walltime"]
    if rate < np.inf:
        jobs["bytes_in"], jobs["bytes_out"] = rows["bytes_in"], rows["bytes_out"]
        jobs["stage_in"], jobs["stage_out"] = rows["bytes_in"] / rate, rows["bytes_out"] / rate
    fates = np.zeros(rows.size, FATE)
    fates["runtime"] = np.minimum(rows["runtime"], rows["walltime"])
    for column in ("held_from", "start", "end", "held_until"):
        fates[column] = np.inf
    queue, by_walltime, running, ending, moving = (np.zeros(rows.size, np.int64) for _ in range(5))
    counts = np.zeros(1, COUNTS)
    counts["rate"], counts["wake"] = rate, np.inf
    starts, flows = new_starts(rows.size), new_flows(1, 64)
    return State(machine, jobs, fates, queue, by_walltime, running, ending, moving, counts, starts, flows, new_past())


@hot_kernel
def run(state: State, memory: Memory, space: Space, policy: int, foresees: bool, most: int) -> int:
    """Process up to `most` instants. Returns FINISHED, what `run` needs to continue, or what went wrong.

    Run times are predicted for policies that `foresees`.
    """
    counts = state.counts[0]
    for _ in range(most):
        if counts.next == ADVANCE:
            code = _advance(state, space)
            if code != GO:
                return code
            counts.next = DECIDE
        waiting, running = counts.waiting, counts.running
        if counts.next == DECIDE:
            if waiting + running > memory.ids.size:
                return MORE_MEMORY
            if foresees:
                _foresee(state)
            if policy == OTHER:
                return ASK_SCHEDULE
            view = View(
                state.machine, state.jobs, state.queue[:waiting], state.by_walltime[:waiting], state.running[:running]
            )
            choose(policy, view, memory, state.starts)
            counts.next = CARRY_OUT
        code = _carry_out(state, space)
        if code != GO:
            return code
        counts.next = ADVANCE
    return MORE


@hot_kernel
def _advance(state: State, space: Space) -> int:
    """Go to the next instant at which something happens, and process it. FINISHED if nothing is left."""
    machine, counts, fates, jobs = state.machine[0], state.counts[0], state.fates, state.jobs
    arrival = jobs[np.uint64(counts.arrived)].submit if counts.arrived < jobs.size else np.inf
    end = fates[np.uint64(state.ending[0])].end if counts.ending > 0 else np.inf
    transfer = state.flows.finishing[1]
    now = min(min(arrival, end), min(transfer, counts.wake))
    if now == np.inf:
        if counts.waiting == 0:
            return FINISHED
        counts.culprit = state.queue[0]
        return STUCK
    machine.now = now
    while state.flows.finishing[1] == now:
        _end_transfer(state, space, end_flow(state.flows, now))
    while counts.ending > 0 and fates[np.uint64(state.ending[0])].end == now:
        row = state.ending[0]
        if not has_seats(state.flows, 1):
            return MORE_SEATS
        _end_run(state, space, row)
    while counts.arrived < jobs.size and jobs[np.uint64(counts.arrived)].submit == now:
        row = counts.arrived
        state.queue[counts.waiting] = row
        insert_row(state.by_walltime, counts.waiting, jobs.walltime, row)
        fates[np.uint64(row)].state = WAITING
        counts.waiting += 1
        counts.arrived += 1
    if counts.moving > 0:
        _expect_transfers(state)
    counts.passes += 1
    counts.carried = 0
    counts.wake = np.inf
    state.starts.count[0] = 0
    return GO


@hot_kernel
def _foresee(state: State) -> None:
    """Predict run times: of jobs that came since the last call, and of all if a job has ended since."""
    counts, past = state.counts[0], state.past
    first = 0 if counts.foreseen < past.count[0] else counts.waiting
    while first > 0 and state.queue[first - 1] >= counts.known:
        first -= 1
    waiting, running = state.queue[first : counts.waiting], state.running[: counts.running]
    predict_runtimes(past, state.jobs, waiting, running, state.machine[0].now)
    counts.known, counts.foreseen = counts.arrived, past.count[0]


@hot_kernel
def _carry_out(state: State, space: Space) -> int:
    """Start the jobs that the policy starts now, and the stage-ins that are due."""
    now, counts, starts, jobs = state.machine[0].now, state.counts[0], state.starts, state.jobs
    while counts.carried < starts.count[0]:
        row, when = starts.rows[counts.carried], starts.times[counts.carried]
        job, fate = jobs[np.uint64(row)], state.fates[np.uint64(row)]
        code = GO
        if fate.state == WAITING and job.bytes_in > 0:
            begin = when - job.stage_in
            if begin <= now or (begin <= now + _SAME and job.bytes <= state.machine[0].free_bytes):
                code = _begin_stage_in(state, space, row)
            else:
                counts.wake = min(counts.wake, max(begin, now + _SAME))
        elif when <= now and fate.state != STAGING:
            code = _start_run(state, space, row)
        if code != GO:
            counts.culprit = row
            return code
        counts.carried += 1
    return GO


@hot_kernel
def _hold_bytes(state: State, space: Space, row: int, seconds: float) -> int:
    """Take the job's bytes for about this many seconds. REFUSED if the disks have no room in the right places."""
    machine, counts = state.machine[0], state.counts[0]
    job, fate = state.jobs[np.uint64(row)], state.fates[np.uint64(row)]
    if job.bytes > machine.free_bytes:
        return TOO_LARGE
    if space.rules[0].real and job.bytes > 0:
        end = FOREVER if machine.stages else machine.now + seconds
        code = disks.claim(space, row, job.bytes, machine.now, end, seconds)
        if code == disks.REFUSED:
            counts.refused += 1
            if counts.running == 0 and counts.moving == 0:
                counts.retries += 1
                if counts.retries < MOST_RETRIES:
                    counts.wake = min(counts.wake, machine.now + RETRY)
        if code != disks.GRANTED:
            return code
    counts.retries = 0
    machine.free_bytes -= job.bytes
    fate.held_from = machine.now
    return GO


@hot_kernel
def _release_bytes(state: State, space: Space, row: int) -> None:
    job = state.jobs[np.uint64(row)]
    state.machine[0].free_bytes += job.bytes
    state.fates[np.uint64(row)].held_until = state.machine[0].now
    if space.rules[0].real and job.bytes > 0:
        disks.release_space(space, row)


@hot_kernel
def _begin_stage_in(state: State, space: Space, row: int) -> int:
    machine, job, fate = state.machine[0], state.jobs[np.uint64(row)], state.fates[np.uint64(row)]
    if not has_seats(state.flows, 1):
        return MORE_SEATS
    code = _hold_bytes(state, space, row, job.stage_in + job.walltime + job.stage_out)
    if code != GO:
        return GO if code == disks.REFUSED else code
    _begin_transfer(state, row, job.bytes_in)
    fate.state, job.held = STAGING, True
    machine.holding += 1
    job.ready = machine.now + max(job.stage_in, SOONEST)
    return GO


@hot_kernel
def _begin_transfer(state: State, row: int, size: int) -> None:
    counts, work = state.counts[0], size / state.counts[0].rate
    begin_flow(state.flows, 0, row, work, state.machine[0].now)
    state.fates[np.uint64(row)].mark = state.flows.resources[0].clock + work
    state.moving[counts.moving] = row
    counts.moving += 1


@hot_kernel
def _end_transfer(state: State, space: Space, row: int) -> None:
    counts, job, fate = state.counts[0], state.jobs[np.uint64(row)], state.fates[np.uint64(row)]
    at = 0
    while state.moving[at] != row:
        at += 1
    counts.moving -= 1
    state.moving[at] = state.moving[counts.moving]
    if fate.state == STAGING:
        fate.state, job.ready = STAGED, 0.0
    else:
        remove_row(state.running, counts.running, state.jobs.end_by, row)
        counts.running -= 1
        fate.state = ENDED
        _release_bytes(state, space, row)


@hot_kernel
def _expect_transfers(state: State) -> None:
    """Estimate the end of every transfer from what is left of it and the number of transfers."""
    now, pfs = state.machine[0].now, state.flows.resources[0]
    clock = pfs.clock + (now - pfs.since) / max(pfs.live, 1)
    for k in range(state.counts[0].moving):
        row = np.uint64(state.moving[k])
        job = state.jobs[row]
        expected = now + max((state.fates[row].mark - clock) * pfs.live, SOONEST)
        if state.fates[row].state == STAGING:
            job.ready = expected
        else:
            job.space_until = expected


@hot_kernel
def _start_run(state: State, space: Space, row: int) -> int:
    machine, counts = state.machine[0], state.counts[0]
    job, fate = state.jobs[np.uint64(row)], state.fates[np.uint64(row)]
    if fate.state != WAITING and fate.state != STAGED:
        return NOT_WAITING
    if job.nodes > machine.free_nodes:
        return TOO_LARGE
    if fate.state == WAITING:
        code = _hold_bytes(state, space, row, job.walltime + job.stage_out)
        if code != GO:
            return GO if code == disks.REFUSED else code
    else:
        machine.holding -= 1
    machine.free_nodes -= job.nodes
    remove_row(state.queue, counts.waiting, state.jobs.submit, row)
    remove_row(state.by_walltime, counts.waiting, state.jobs.walltime, row)
    counts.waiting -= 1
    job.held = False
    job.start, fate.start, fate.state = machine.now, machine.now, RUNNING
    job.end_by = job.start + job.walltime
    job.space_until = job.end_by + job.stage_out
    job.expected_end = job.start + job.predicted
    fate.end = job.start + fate.runtime
    insert_row(state.running, counts.running, state.jobs.end_by, row)
    insert_row(state.ending, counts.ending, state.fates.end, row)
    counts.running += 1
    counts.ending += 1
    return GO


@hot_kernel
def _end_run(state: State, space: Space, row: int) -> None:
    machine, counts = state.machine[0], state.counts[0]
    job, fate = state.jobs[np.uint64(row)], state.fates[np.uint64(row)]
    machine.free_nodes += job.nodes
    learn_runtime(state.past, state.jobs, row, machine.now - job.start)
    remove_row(state.ending, counts.ending, state.fates.end, row)
    counts.ending -= 1
    remove_row(state.running, counts.running, state.jobs.end_by, row)
    if job.bytes_out > 0:
        fate.state, job.end_by = DRAINING, machine.now
        insert_row(state.running, counts.running - 1, state.jobs.end_by, row)
        _begin_transfer(state, row, job.bytes_out)
    else:
        counts.running -= 1
        fate.state = ENDED
        _release_bytes(state, space, row)
