"""What Slurm 22.05 does with burst-buffer jobs: backfill reserves nodes for every job, and bytes for none.

As measured on 22.05.8 with `burst_buffer/lua` and read in its source (docs/fidelity.md). Slurm makes one pass at each
event and another one every `bf_interval`; here they are one.
"""

import numpy as np

from forebay.decide.schedule.plan import sort_by
from forebay.decide.schedule.profile import Profile, add, earliest_free
from forebay.decide.schedule.view import View, nothing_starts, start_at
from forebay.model.kernels import Array, hot_kernel

RESOLUTION = 60.0  # bf_resolution, s: ends are rounded up to it
DEPTH = 500  # bf_max_job_test
AHEAD = 36_000.0  # s: stage-in begins at most this long before the estimated start


@hot_kernel
def slurm(view: Array, memory: Array, starts: Array) -> None:
    """Slurm 22.05: nodes reserved for every job in order of arrival, bytes for none."""
    machine, jobs, profile, estimates = view.machine[0], view.jobs, memory.profile, memory.reals[0]
    if nothing_starts(view):
        return
    _project_nodes(view, profile)
    now, free_bytes = machine.now, machine.free_bytes
    depth = min(view.queue.size, DEPTH)
    for k in range(depth):
        row = view.queue[k]
        job = jobs[np.uint64(row)]
        start = earliest_free(profile, job.nodes, 0, now, 0.0, job.walltime, 0.0)
        estimates[k] = np.inf  # unless its stage-in can begin
        if job.bytes_in > 0 and not job.held:
            estimates[k] = start
            if start == now:
                if job.bytes > free_bytes:
                    estimates[k] = max(now, _first_release(view))
                continue  # an estimate only, until its data is there
        elif start == now:
            if job.ready > now or (not job.held and job.bytes > free_bytes):
                continue  # skipped, without a reservation
            start_at(starts, row, now)
            free_bytes -= 0 if job.held else job.bytes
        add(profile, start, _round_up(start + job.walltime), -job.nodes, 0)
    if machine.stages:
        _stage_in(view, memory, starts, free_bytes, depth)


@hot_kernel
def _stage_in(view: View, memory: Array, starts: Array, free_bytes: int, depth: int) -> None:
    """Begin stage-ins in the order of the estimated starts, up to the first that has no room."""
    estimates, order, now = memory.reals[0], memory.rows[0], view.machine[0].now
    sort_by(estimates, order, depth)
    for k in range(depth):
        row = view.queue[order[k]]
        job = view.jobs[np.uint64(row)]
        if estimates[order[k]] > now + AHEAD or job.bytes > free_bytes:
            return
        free_bytes -= job.bytes
        start_at(starts, row, now + job.stage_in)


@hot_kernel
def _project_nodes(view: View, profile: Profile) -> None:
    """Set the profile to the nodes that are free as the running jobs end."""
    machine = view.machine[0]
    profile.times[0], profile.nodes[0], profile.bytes[0], profile.size[0] = machine.now, machine.free_nodes, 0, 1
    for row in view.running:
        job = view.jobs[np.uint64(row)]
        if job.end_by > machine.now:
            add(profile, _round_up(job.end_by), np.inf, job.nodes, 0)


@hot_kernel
def _first_release(view: View) -> float:
    """Return when the first of the running jobs gives its bytes back."""
    first = np.inf
    for row in view.running:
        job = view.jobs[np.uint64(row)]
        if job.bytes > 0:
            first = min(first, job.space_until)
    return first


@hot_kernel
def _round_up(time: float) -> float:
    return np.ceil(time / RESOLUTION) * RESOLUTION  # type: ignore[no-any-return]
