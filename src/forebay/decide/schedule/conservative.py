"""Conservative backfilling: every waiting job has a reservation of nodes and bytes, which never moves later."""

import numpy as np

from forebay.decide.schedule.backfill import plan_holders, start_where_possible
from forebay.decide.schedule.memory import DEPTH
from forebay.decide.schedule.profile import earliest_start, fits, give_back, project_ends, reserve
from forebay.decide.schedule.view import soonest_start, start_at
from forebay.model.kernels import Array, hot_kernel


@hot_kernel
def conservative_bb(view: Array, memory: Array, starts: Array) -> None:
    """A reservation of nodes and bytes for every job, in order of arrival; earlier ends move all of them forward."""
    profile, jobs = memory.profile, view.jobs
    project_ends(view, profile)
    if view.machine[0].holding > 0:
        plan_holders(view, profile, starts, view.queue)
    planned = min(view.queue.size, DEPTH)
    times = memory.reals[0]
    _recall(view, memory, times, planned)
    for k in range(planned):
        row = view.queue[k]
        job = jobs[np.uint64(row)]
        if job.held:
            continue
        if times[k] < np.inf:
            give_back(profile, job, times[k], job.walltime)
        times[k] = earliest_start(profile, job, soonest_start(view, job), job.walltime)
        reserve(profile, job, times[k], job.walltime)
        start_at(starts, row, times[k])
    _remember(view, memory, times, planned)
    start_where_possible(view, profile, starts, planned)


@hot_kernel
def _recall(view: Array, memory: Array, times: Array, planned: int) -> None:
    """Make the reservations of the last call again; inf for a job without one."""
    old = 0
    for k in range(planned):
        job = view.jobs[np.uint64(view.queue[k])]
        times[k] = np.inf
        at = old
        while at < memory.planned[0] and memory.ids[at] != job.id:
            at += 1
        if at == memory.planned[0]:
            continue  # new
        old = at + 1
        start = max(memory.times[at], soonest_start(view, job))
        if not job.held and start < np.inf and fits(memory.profile, job, start, job.walltime):
            times[k] = start
            reserve(memory.profile, job, start, job.walltime)


@hot_kernel
def _remember(view: Array, memory: Array, times: Array, planned: int) -> None:
    memory.planned[0] = planned
    for k in range(planned):
        memory.ids[k], memory.times[k] = view.jobs[np.uint64(view.queue[k])].id, times[k]
