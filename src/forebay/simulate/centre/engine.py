"""The event loop of a month: jobs that read their input, then compute and do I/O, on targets that they share.

A phase has a flow on every target that holds its bytes. A target divides its bandwidth equally among its flows
(`sharing`). The phase ends with its last flow, but no sooner than the client allows. A job with space in the burst
buffer writes there if its earlier data is drained. A drain has flows on the disks, and no job waits for it. Disk
targets come first, then flash targets.
"""

from typing import NamedTuple

import numpy as np

from forebay.model.kernels import Array, hot_kernel
from forebay.simulate.centre.layouts import LAYOUT
from forebay.simulate.sharing import Flows, begin_flow, end_flow, has_seats, new_flows
from forebay.simulate.tournament import first, put, tournament

DRAINS = 2  # phases of a job that the burst buffer holds at a time
_SLOTS = DRAINS + 1
JOB = np.dtype(
    [
        ("nodes", np.int64),
        ("decided", np.bool_),  # policies decide for it, so its end is reported
        ("reads", np.bool_),  # in all phases, not only the first
        ("phases", np.int64),  # after the input
        ("compute", np.float64),  # seconds before each of them
        ("input", np.float64),  # bytes
        ("volume", np.float64),  # bytes of each phase
        ("pools", np.int64),  # number of its pools
        ("slots", np.int64),  # phases that fit into its space in the burst buffer
        ("part", np.int64),  # its parts there are parts[part:last]
        ("last", np.int64),
        ("flash_seconds", np.float64),  # per byte there, alone
        ("flash_floor", np.float64),  # LAYOUT.floor for phases there
        ("phase", np.int64),  # the next; 0 is the input
        ("open", np.int64),  # flows under way
        ("began", np.float64),
        ("until", np.float64),  # earliest end of the phase under way
        ("slot", np.int64),  # of the burst buffer; -1: the phase goes to the disks
        ("waited", np.float64),  # seconds in I/O, all phases
        ("input_waited", np.float64),  # of these, seconds for the input
        ("buffered", np.int64),  # phases that went to the burst buffer
        ("end", np.float64),
    ]
)
FLASH_PART = np.dtype([("disk", np.int64), ("share", np.float64)])
NOTHING, ENDED, DRAINED, NO_SEAT = 0, 1, 2, 3
WHO, EVENTS = 0, 1


class State(NamedTuple):
    """The state of a month."""

    jobs: Array
    layouts: Array  # [job, 2]: of its input, and of its own phases
    pools: Array  # [job, pools]: its pools
    parts: Array
    draining: Array  # [job, DRAINS]: flows under way
    timers: Array  # tournament over the jobs: when each continues by itself
    flows: Flows  # on all targets; a flow's owner is job * _SLOTS, and 1 + slot more if it is a drain
    moved: Array  # bytes that went to each target
    load: Array  # scratch: bytes for each disk target
    touched: Array  # scratch: which of them
    counters: Array  # WHO, EVENTS


def state(jobs: Array, starts: Array, disks: int, flash: int, pools: int, seats: int = 64) -> State:
    """Return the initial state: no job has begun; every job has all disks and no flash."""
    count, everything = disks + flash, np.tile(np.arange(pools, dtype=np.int32), (jobs.size, 1))
    jobs["pools"], jobs["began"] = pools, -1.0
    return State(
        jobs=jobs,
        layouts=np.zeros((jobs.size, 2), dtype=LAYOUT),
        pools=everything,
        parts=np.zeros(flash, dtype=FLASH_PART),
        draining=np.zeros((jobs.size, DRAINS), dtype=np.int64),
        timers=tournament(starts),
        flows=new_flows(count, seats),
        moved=np.zeros(count),
        load=np.zeros(disks),
        touched=np.zeros(disks, dtype=np.int64),
        counters=np.zeros(2, dtype=np.int64),
    )


@hot_kernel
def advance(s: Array, until: float) -> int:
    """Process events before `until`, or until job WHO is ENDED or DRAINED, or a flow finds NO_SEAT."""
    timers, flows = s.timers, s.flows  # read from the tuple only once: numba counts references at each access
    finishing, timed = flows.finishing, timers.view(np.int64)
    while True:
        now = min(timers[1], finishing[1])
        if now >= until:
            return NOTHING
        s.counters[EVENTS] += 1
        if finishing[1] <= now:
            if not has_seats(flows, 1):  # the end of a phase in the burst buffer begins a drain to the disks
                return NO_SEAT
            outcome = _end_flow(s, flows, now)
        else:
            j = first(timed, 0, timers.size // 2)
            if not has_seats(flows, max(s.jobs[j].last - s.jobs[j].part, 1)):
                return NO_SEAT
            put(timers, 0, timers.size // 2, j, np.inf)
            # A job with a phase under way waited only for its client.
            outcome = _end_phase(s, flows, j, now) if s.jobs[j].began >= 0.0 else _begin(s, flows, j, now)
        if outcome != NOTHING:
            return outcome


@hot_kernel
def _begin(s: Array, flows: Array, j: int, now: float) -> int:
    job = s.jobs[j]
    is_input = job.phase == 0
    size = job.input if is_input else job.volume
    layout = s.layouts[j, 0 if is_input else 1]
    job.began, job.slot = now, -1
    if not is_input and not job.reads:
        for slot in range(job.slots):
            if s.draining[j, slot] == 0:
                job.slot = slot
                break
    if job.slot >= 0:
        job.until = now + size * job.flash_floor
        job.buffered += 1
        for part in s.parts[job.part : job.last]:
            _begin_flow(s, flows, s.load.size + part.disk, j * _SLOTS, size * part.share, job.flash_seconds, now)
            job.open += 1
    else:
        job.until = now + size * layout.floor
        job.open += _to_disks(s, flows, j, layout, size, j * _SLOTS, now)
    if job.open == 0:
        return _end_phase(s, flows, j, now)
    return NOTHING


@hot_kernel
def _to_disks(s: Array, flows: Array, j: int, layout: Array, size: float, code: int, now: float) -> int:
    """Begin flows to all disk targets of `size` bytes. Return the number of flows."""
    ahead = min(size, layout.files * layout.head)
    targets = s.jobs[j].pools * (s.load.size // s.pools.shape[1])
    stripes = layout.files * min(layout.count, targets)
    n = _spread(s, j, layout.first, layout.files, ahead, targets, 0)
    # The stripes of a single file follow its head; those of many files are on all targets anyway.
    n = _spread(s, j, layout.first + (1 if ahead > 0.0 else 0), stripes, size - ahead, targets, n)
    for k in range(n):
        _begin_flow(s, flows, s.touched[k], code, s.load[s.touched[k]], layout.seconds, now)
        s.load[s.touched[k]] = 0.0
    return n


@hot_kernel
def _spread(s: Array, j: int, begin: int, stripes: int, size: float, targets: int, n: int) -> int:
    """Spread `size` bytes in equal stripes over the job's targets. Add the targets without bytes to `n`; return it."""
    if size <= 0.0:
        return n
    width = s.load.size // s.pools.shape[1]
    each, whole, more = size / stripes, stripes // targets, stripes % targets
    for k in range(min(stripes, targets)):
        at = (begin + k) % targets
        target = s.pools[j, at // width] * width + at % width
        if s.load[target] == 0.0:
            s.touched[n] = target
            n += 1
        s.load[target] += each * (whole + (k < more))
    return n


@hot_kernel
def _begin_flow(s: Array, flows: Array, target: int, code: int, size: float, seconds: float, now: float) -> None:
    s.moved[target] += size
    begin_flow(flows, target, code, size * seconds, now)


@hot_kernel
def _end_flow(s: Array, flows: Array, now: float) -> int:
    code = end_flow(flows, now)
    j, slot = code // _SLOTS, code % _SLOTS - 1
    job = s.jobs[j]
    if slot >= 0:
        s.draining[j, slot] -= 1
        if s.draining[j, slot] == 0 and job.end > 0.0 and s.draining[j].sum() == 0:
            s.counters[WHO] = j
            return DRAINED
        return NOTHING
    job.open -= 1
    if job.open > 0:
        return NOTHING
    if now < job.until:
        put(s.timers, 0, s.timers.size // 2, j, job.until)
        return NOTHING
    return _end_phase(s, flows, j, now)


@hot_kernel
def _end_phase(s: Array, flows: Array, j: int, now: float) -> int:
    job = s.jobs[j]
    took = now - job.began
    job.waited += took
    if job.phase == 0:
        job.input_waited = took
    if job.slot >= 0:
        s.draining[j, job.slot] = _to_disks(s, flows, j, s.layouts[j, 1], job.volume, j * _SLOTS + job.slot + 1, now)
    job.began = -1.0
    job.phase += 1
    if job.phase <= job.phases:
        put(s.timers, 0, s.timers.size // 2, j, now + job.compute)
        return NOTHING
    job.end = now
    if job.decided:
        s.counters[WHO] = j
        return ENDED
    return NOTHING
