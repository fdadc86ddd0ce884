"""Ours: an annealed plan that knows how long jobs usually run, and keeps room for short ones that have not come yet."""

import numpy as np

from forebay.decide.schedule.backfill import plan_start_for, start_where_possible
from forebay.decide.schedule.memory import DUE, DURATIONS, SPARE, WEIGHTS
from forebay.decide.schedule.plan import list_jobs, plan_jobs
from forebay.decide.schedule.profile import project_ends, project_expected_ends
from forebay.decide.schedule.view import nothing_starts, soonest_start
from forebay.model.kernels import Array, hot_kernel

_URGENCY = 2.0  # a job that is certainly short weighs 1 + this: it adds to the mean slowdown, too
_ROOM = 0.1  # the share of the other nodes that must stay free when an endless job starts
_LONG = 36_000.0  # s: a job that is predicted to run for so long leaves half of that
_CHANGES = 300  # of the order, in each plan
_DUE = 0.75  # times the longest wall time so far: a job that waits for longer costs more
_ATTENTION = 0.5  # the share of that time from which a plan counts it: those for new jobs are too uncertain
_PATIENCE = 10.0  # times the longest wall time so far, after which a job goes before all others
_LONGEST = 0  # where memory.state has that wall time


@hot_kernel
def forebay(view: Array, memory: Array, starts: Array) -> None:
    """An annealed plan with predicted run times, in which short jobs weigh more and nobody starves."""
    base, nodes = memory.profile, view.machine[0].nodes
    overdue = _find_overdue(view, memory)
    if nothing_starts(view):
        return
    if overdue >= 0:  # until it has started, wall times count, so that nothing can delay it
        project_ends(view, base)
    else:
        project_expected_ends(view, base)
    for row in view.queue:  # jobs that hold bytes: only their ends give them back
        job = view.jobs[np.uint64(row)]
        if job.held:
            plan_start_for(base, starts, row, job, soonest_start(view, job), _duration(job, overdue))
    if overdue >= 0:
        job = view.jobs[np.uint64(overdue)]
        plan_start_for(base, starts, overdue, job, soonest_start(view, job), job.walltime)
    count, behind = list_jobs(view, memory, overdue)
    now, patience = view.machine[0].now, _DUE * memory.state[_LONGEST]
    for k in range(count):
        job = view.jobs[np.uint64(memory.rows[2, k])]
        memory.reals[DURATIONS, k] = _duration(job, overdue)
        memory.reals[WEIGHTS, k] = 1.0 + _URGENCY * job.urgency
        share = _ROOM * job.predicted / (job.predicted + _LONG)
        waits = now - job.submit >= _ATTENTION * patience
        memory.reals[DUE, k] = job.submit + patience if waits else np.inf
        memory.reals[SPARE, k] = np.floor(share * (nodes - job.nodes))
    plan_jobs(view, memory, starts, count, 1.0, _CHANGES, True)
    start_where_possible(view, base, starts, behind)


@hot_kernel
def _find_overdue(view: Array, memory: Array) -> int:
    """Return the first job that has waited too long; -1 if there is none."""
    now, state = view.machine[0].now, memory.state
    for row in view.queue:
        state[_LONGEST] = max(state[_LONGEST], view.jobs[np.uint64(row)].walltime)
    for row in view.queue:
        job = view.jobs[np.uint64(row)]
        if now - job.submit <= _PATIENCE * state[_LONGEST]:
            return -1  # jobs behind it came later
        if not job.held:
            return row  # type: ignore[no-any-return]
    return -1


@hot_kernel
def _duration(job: Array, overdue: int) -> float:
    return job.predicted if overdue < 0 else job.walltime  # type: ignore[no-any-return]
