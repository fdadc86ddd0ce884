"""Free nodes and bytes over time, as steps: step i lasts from `times[i]` to `times[i + 1]`, the last one forever."""

from typing import NamedTuple

import numpy as np

from forebay.model.kernels import Array, hot_kernel

_SOON = 1.0  # s, in which a job that should have ended is expected to end


class Profile(NamedTuple):
    times: Array
    nodes: Array  # free
    bytes: Array
    size: Array  # [number of steps]


def new_profile(steps: int) -> Profile:
    """Return a profile with room for `steps` steps."""
    whole = np.int64
    return Profile(np.zeros(steps), np.zeros(steps, whole), np.zeros(steps, whole), np.zeros(1, whole))


@hot_kernel
def copy_profile(source: Profile, target: Profile) -> None:
    """Make the target equal to the source."""
    size = source.size[0]
    target.size[0] = size
    for k in range(size):
        target.times[k], target.nodes[k], target.bytes[k] = source.times[k], source.nodes[k], source.bytes[k]


@hot_kernel
def project_ends(view: Array, profile: Array) -> None:
    """Set the profile to what is free if nothing starts and every running job uses its whole wall time."""
    _set_free(view, profile)
    for row in view.running:
        job = view.jobs[np.uint64(row)]
        release(profile, job, job.end_by, job.space_until)


@hot_kernel
def project_expected_ends(view: Array, profile: Array) -> None:
    """Set the profile to what is free if nothing starts and every running job ends when it is expected to."""
    _set_free(view, profile)
    now = view.machine[0].now
    for row in view.running:
        job = view.jobs[np.uint64(row)]
        early = job.end_by - max(job.expected_end, now + _SOON) if job.end_by > now else 0.0
        release(profile, job, job.end_by - max(early, 0.0), job.space_until - max(early, 0.0))


@hot_kernel
def _set_free(view: Array, profile: Array) -> None:
    """Set the profile to what is free now, without any end to come."""
    machine = view.machine[0]
    profile.times[0], profile.nodes[0], profile.bytes[0] = machine.now, machine.free_nodes, machine.free_bytes
    profile.size[0] = 1


@hot_kernel
def release(profile: Array, job: Array, end: float, space_until: float) -> None:
    """Give back what a running job holds: nodes at `end`, bytes at `space_until`."""
    if end == space_until:
        add(profile, end, np.inf, job.nodes, job.bytes)
    else:
        if end > profile.times[0]:  # else the job is staged out already, and its nodes are free
            add(profile, end, np.inf, job.nodes, 0)
        add(profile, space_until, np.inf, 0, job.bytes)


@hot_kernel
def step_at(profile: Array, time: float) -> int:
    """Return the number of the step that `time` is in; the first one for earlier times."""
    times = profile.times
    low, high = 0, profile.size[0]
    while high - low > 1:
        middle = (low + high) >> 1
        if times[middle] <= time:
            low = middle
        else:
            high = middle
    return low


@hot_kernel
def _begin_step(profile: Array, time: float) -> int:
    """Return the number of the step that begins at `time`, which is made if needed."""
    times, nodes, size = profile.times, profile.nodes, profile.size[0]
    at = size - 1 if times[size - 1] <= time else step_at(profile, time)
    if times[at] >= time:
        return at
    for k in range(size, at + 1, -1):
        times[k], nodes[k], profile.bytes[k] = times[k - 1], nodes[k - 1], profile.bytes[k - 1]
    times[at + 1], nodes[at + 1], profile.bytes[at + 1] = time, nodes[at], profile.bytes[at]
    profile.size[0] = size + 1
    return at + 1


@hot_kernel
def add(profile: Array, start: float, end: float, nodes: int, size: int) -> None:
    """Add free nodes and bytes (taken ones if negative) over [start, end)."""
    if start >= end:
        return
    first = _begin_step(profile, start)
    last = profile.size[0] if end == np.inf else _begin_step(profile, end)
    for k in range(first, last):
        profile.nodes[k] += nodes
        profile.bytes[k] += size


@hot_kernel
def earliest_start(profile: Array, job: Array, soonest: float, duration: float) -> float:
    """Return the first time from `soonest` on at which the job can run for `duration` seconds; inf if never."""
    return earliest_start_beside(profile, job, soonest, duration, 0.0)


@hot_kernel
def earliest_start_beside(profile: Array, job: Array, soonest: float, duration: float, spare: float) -> float:
    """The same if `spare` nodes more must be free."""
    nodes = job.nodes + int(spare)
    if job.held:
        return earliest_free(profile, nodes, 0, soonest, 0.0, duration, 0.0)
    return earliest_free(profile, nodes, job.bytes, soonest, job.stage_in, duration, job.stage_out)


@hot_kernel
def earliest_free(
    profile: Array, nodes: int, size: int, soonest: float, before: float, duration: float, after: float
) -> float:
    """Return the first start from `soonest` on at which `nodes` are free for `duration` seconds, and `size` bytes from
    `before` seconds before the start to `after` seconds after the end; inf if never."""
    times, steps = profile.times, profile.size[0]
    start, space = soonest, soonest - before  # kept apart, as a sum and a difference may be rounded differently
    step = step_at(profile, space)
    while step < steps:
        if times[step] > start and times[step] >= start + duration + after:
            break
        until = times[step + 1] if step + 1 < steps else np.inf
        if profile.bytes[step] < size:
            space = until
            start = max(start, space + before)
        elif profile.nodes[step] < nodes and until > start and (times[step] <= start or times[step] < start + duration):
            start = until
            if start - before > space:
                space = start - before
                step = min(step, step_at(profile, space) - 1)
        step += 1
    return start


@hot_kernel
def fits(profile: Array, job: Array, start: float, duration: float) -> bool:
    """Whether the job's nodes and bytes are free if it starts at `start`."""
    return earliest_start(profile, job, start, duration) == start


@hot_kernel
def reserve(profile: Profile, job: Array, start: float, duration: float) -> None:
    """Take the job's nodes and bytes for as long as it needs them if it starts at `start`."""
    _take(profile, job, start, duration, 1)


@hot_kernel
def give_back(profile: Profile, job: Array, start: float, duration: float) -> None:
    """Undo a reservation."""
    _take(profile, job, start, duration, -1)


@hot_kernel
def _take(profile: Profile, job: Array, start: float, duration: float, sign: int) -> None:
    end, nodes, size = start + duration, -sign * job.nodes, -sign * job.bytes
    if job.held:  # the bytes are not in the profile; they become free when the job has ended
        add(profile, start, end, nodes, 0)
        add(profile, end + job.stage_out, np.inf, 0, -size)
    elif job.stage_in == 0 and job.stage_out == 0:
        add(profile, start, end, nodes, size)
    else:
        add(profile, start, end, nodes, 0)
        add(profile, start - job.stage_in, end + job.stage_out, 0, size)
