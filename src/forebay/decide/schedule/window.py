"""The best subset of the first jobs of the queue, after BBSched (Fan et al. 2019), searched exactly."""

import numpy as np

from forebay.decide.schedule.backfill import plan_holders, plan_start
from forebay.decide.schedule.profile import fits, give_back, project_ends, reserve
from forebay.decide.schedule.view import nothing_starts, soonest_start, start_at
from forebay.model.kernels import Array, hot_kernel

WINDOW = 10
_UNTRIED, _TAKEN, _LEFT = 0, 1, 2


@hot_kernel
def window(view: Array, memory: Array, starts: Array) -> None:
    """Start the first job or reserve for it, then start those of the next nine that fill most of nodes and bytes."""
    profile, jobs = memory.profile, view.jobs
    if nothing_starts(view):
        return
    project_ends(view, profile)
    if view.machine[0].holding > 0:
        plan_holders(view, profile, starts, view.queue)
    rows, count, first, waits = memory.rows[0], 0, 0, False
    while first < view.queue.size and count < WINDOW:
        row = view.queue[first]
        first += 1
        if not jobs[np.uint64(row)].held:
            rows[count] = row
            count += 1
    if count == 0:
        return
    head = jobs[np.uint64(rows[0])]
    waits = not fits(profile, head, soonest_start(view, head), head.walltime)
    plan_start(profile, starts, rows[0], head, soonest_start(view, head))
    chosen = _best_subset(view, memory, rows, count)
    for k in range(1, count):
        job = jobs[np.uint64(rows[k])]
        if chosen >> k & 1:
            reserve(profile, job, soonest_start(view, job), job.walltime)
            start_at(starts, rows[k], soonest_start(view, job))
    for k in range(1, count):
        if not chosen >> k & 1:
            waits = _pass_or_wait(view, profile, starts, rows[k], waits)
    for row in view.queue[first:]:
        if profile.nodes[0] == 0 and waits and not view.machine[0].stages:
            return
        waits = _pass_or_wait(view, profile, starts, row, waits)


@hot_kernel
def _pass_or_wait(view: Array, profile: Array, starts: Array, row: int, waits: bool) -> bool:
    """Start the job if it fits; the first that does not gets a reservation. Returns whether one waits."""
    job = view.jobs[np.uint64(row)]
    if job.held:
        return waits
    soonest = soonest_start(view, job)
    if fits(profile, job, soonest, job.walltime):
        reserve(profile, job, soonest, job.walltime)
        start_at(starts, row, soonest)
        return waits
    if not waits:
        plan_start(profile, starts, row, job, soonest)
    return True


@hot_kernel
def _best_subset(view: Array, memory: Array, rows: Array, count: int) -> int:
    """Return the bits of the jobs from number 1 on that together fill most; of equals, the one with earlier jobs."""
    profile, jobs, machine, tried = memory.profile, view.jobs, view.machine[0], memory.rows[1]
    best, most, at = 0, 0.0, 1
    nodes, size, chosen = 0, 0, 0
    tried[at] = _UNTRIED
    while at > 0:
        if at == count:
            filled = nodes / machine.nodes + (size / machine.bytes if machine.bytes > 0 else 0.0)
            if filled > most:
                best, most = chosen, filled
            at -= 1
            continue
        job = jobs[np.uint64(rows[at])]
        soonest = soonest_start(view, job)
        if tried[at] == _LEFT:
            at -= 1
            continue
        if tried[at] == _TAKEN:
            give_back(profile, job, soonest, job.walltime)
            nodes, size, chosen = nodes - job.nodes, size - job.bytes, chosen ^ (1 << at)
            tried[at] = _LEFT
        elif fits(profile, job, soonest, job.walltime):
            reserve(profile, job, soonest, job.walltime)
            nodes, size, chosen = nodes + job.nodes, size + job.bytes, chosen | 1 << at
            tried[at] = _TAKEN
        else:
            tried[at] = _LEFT
        at += 1
        tried[at] = _UNTRIED
    return best
