"""Policies that start jobs in order, and let others pass the first one that must wait."""

import numpy as np

from forebay.decide.schedule.profile import Profile, add, earliest_free, earliest_start, fits, project_ends, reserve
from forebay.decide.schedule.view import Starts, View, nothing_starts, soonest_start, start_at
from forebay.model.kernels import Array, hot_kernel

NOTHING, NODES, NODES_AND_BYTES = 0, 1, 2


@hot_kernel
def fcfs(view: Array, memory: Array, starts: Array) -> None:
    """In order of arrival; nobody passes a job that waits."""
    _start_jobs(view, memory, starts, view.queue, NODES_AND_BYTES, False)


@hot_kernel
def filler(view: Array, memory: Array, starts: Array) -> None:
    """Whatever fits, in order of arrival, without reservations."""
    _start_jobs(view, memory, starts, view.queue, NOTHING, True)


@hot_kernel
def easy(view: Array, memory: Array, starts: Array) -> None:
    """EASY backfilling: nodes are reserved for the first job that waits, bytes are not."""
    _start_jobs(view, memory, starts, view.queue, NODES, True)


@hot_kernel
def fcfs_bb(view: Array, memory: Array, starts: Array) -> None:
    """EASY backfilling that reserves nodes and bytes for the first job that waits."""
    _start_jobs(view, memory, starts, view.queue, NODES_AND_BYTES, True)


@hot_kernel
def sjf_bb(view: Array, memory: Array, starts: Array) -> None:
    """The same as fcfs-bb, with the shortest wall time first."""
    _start_jobs(view, memory, starts, view.by_walltime, NODES_AND_BYTES, True)


@hot_kernel
def _start_jobs(view: Array, memory: Array, starts: Array, order: Array, reserves: int, passes: bool) -> None:
    """Start jobs in `order` while they fit; then reserve for the first that waits, and let others pass it."""
    jobs, profile, machine = view.jobs, memory.profile, view.machine[0]
    if nothing_starts(view):
        return
    project_ends(view, profile)
    if machine.holding > 0:
        plan_holders(view, profile, starts, order)
    someone_waits = False
    for row in order:
        job = jobs[np.uint64(row)]
        if job.held:
            continue
        soonest = soonest_start(view, job)
        if someone_waits and not machine.stages and not is_free_now(profile, job):
            continue
        if fits(profile, job, soonest, job.walltime):
            reserve(profile, job, soonest, job.walltime)
            start_at(starts, row, soonest)
        elif not someone_waits:
            someone_waits = True
            if reserves == NODES:
                _reserve_nodes(profile, job, soonest)
            elif reserves == NODES_AND_BYTES:
                plan_start(profile, starts, row, job, soonest)
            if not passes:
                return
        if someone_waits and profile.nodes[0] == 0 and not machine.stages:
            return


@hot_kernel
def is_free_now(profile: Profile, job: Array) -> bool:
    """Whether the job's nodes and bytes are free at this moment."""
    return job.nodes <= profile.nodes[0] and job.bytes <= profile.bytes[0]  # type: ignore[no-any-return]


@hot_kernel
def plan_holders(view: Array, profile: Array, starts: Array, order: Array) -> None:
    """Plan the jobs that hold bytes before all others, in `order`: only their ends give the bytes back."""
    for row in order:
        job = view.jobs[np.uint64(row)]
        if job.held:
            plan_start(profile, starts, row, job, soonest_start(view, job))


@hot_kernel
def start_where_possible(view: View, profile: Profile, starts: Starts, behind: int) -> None:
    """Start the jobs from place `behind` of the queue on that fit without delay for others."""
    for row in view.queue[behind:]:
        job = view.jobs[np.uint64(row)]
        soonest = soonest_start(view, job)
        if not job.held and fits(profile, job, soonest, job.walltime):
            reserve(profile, job, soonest, job.walltime)
            start_at(starts, row, soonest)


@hot_kernel
def plan_start(profile: Array, starts: Array, row: int, job: Array, soonest: float) -> None:
    """Reserve the job's earliest start, if there is one."""
    plan_start_for(profile, starts, row, job, soonest, job.walltime)


@hot_kernel
def plan_start_for(profile: Array, starts: Array, row: int, job: Array, soonest: float, duration: float) -> None:
    """Reserve the earliest start of a job that runs for `duration` seconds, if there is one."""
    start = earliest_start(profile, job, soonest, duration)
    if start < np.inf:
        reserve(profile, job, start, duration)
        start_at(starts, row, start)


@hot_kernel
def _reserve_nodes(profile: Array, job: Array, soonest: float) -> None:
    start = earliest_free(profile, job.nodes, 0, soonest, 0.0, job.walltime, 0.0)
    add(profile, start, start + job.walltime, -job.nodes, 0)
