"""Jobs that do their I/O on their granted space: a bad placement makes a job, and its grant, longer.

A job computes for its duration and does its I/O in between, in equal phases. Every part of its
space has a flow on the part's disk and another on the disk's node. Disks and nodes divide their
bandwidth among their flows (`sharing`), and a phase ends with its last flow. A job that was
refused, or that finds no space when it starts, does its I/O on the parallel file system, which
is one more shared resource. With infinite bandwidth, results are the same as without feedback.

Each request is decided as late as the order of arrival allows, and booked for its duration plus its
I/O time alone. If a job still runs when its booking ends, the booking is prolonged, each time by
the expected time of the remaining phases at the speed so far.
"""

from typing import NamedTuple

import numpy as np

from forebay.model.kernels import Array, hot_kernel
from forebay.model.ledger import Ledger, book, has_room, shorten
from forebay.simulate.sharing import Flows, begin_flow, end_flow, has_seats, new_flows
from forebay.simulate.storage.plan import DONE, GRANTED, MORE_ROOM, MORE_SEATS
from forebay.simulate.storage.usage import ALLOCATED, FAILED, begin, finish
from forebay.simulate.tournament import first, put, tournament

JOB = np.dtype(
    [
        ("volume", np.float64),  # bytes read and written
        ("phase", np.int32),  # phases done
        ("open", np.int32),  # flows under way
        ("waiting", np.float64),  # when the I/O under way began
        ("waited", np.float64),  # I/O seconds of the phases done
        ("from", np.float64),  # start of its latest booking
        ("until", np.float64),  # end of its latest booking
        ("end", np.float64),
    ]
)
_SEATS = 64
_LEAST_PROLONGED = 60.0


class Jobs(NamedTuple):
    """All jobs and what they share: the disks, then the nodes, then the parallel file system."""

    jobs: Array  # a JOB for each request
    arriving: Array  # tournament over the requests: start of each
    computing: Array  # end of its computing
    overdue: Array  # end of its booking
    flows: Flows
    bandwidth: Array  # of every shared resource


def jobs(ledger: Ledger, volumes: Array, pfs: float) -> Jobs:
    """Return the initial state: no job has arrived."""
    bandwidth = np.concatenate(
        [ledger.disks["write_bandwidth"], ledger.nodes["network_bandwidth"], np.array([pfs], dtype=np.float64)]
    )
    state = np.zeros(volumes.size, dtype=JOB)
    state["volume"] = volumes
    arriving, computing, overdue = (tournament(np.full(volumes.size, np.inf)) for _ in range(3))
    return Jobs(state, arriving, computing, overdue, new_flows(bandwidth.size, _SEATS), bandwidth)


@hot_kernel
def schedule_starts(state: Array, plan: Array, begin_at: int, end_at: int) -> None:
    """Schedule the starts of the decided requests from `begin_at` to `end_at`."""
    arriving = state.arriving
    for request in range(begin_at, end_at):
        put(arriving, 0, arriving.size // 2, request, plan.verdicts[request].start)


@hot_kernel
def advance(state: Array, ledger: Array, use: Array, plan: Array, asks: Array, phases: int, until: float) -> int:
    """Process events up to `until`, except starts at exactly that time."""
    arriving, computing, overdue, finishing = state.arriving, state.computing, state.overdue, state.flows.finishing
    waits = computing.size // 2
    while True:
        now = min(finishing[1], min(computing[1], overdue[1]))
        if arriving[1] < now:  # at equal times, ends come before starts
            if arriving[1] >= until:
                return DONE
            request = first(arriving.view(np.int64), 0, waits)
            put(arriving, 0, waits, request, np.inf)
            _start(state, ledger, use, plan, asks, phases, request)
            continue
        if now > until or now == np.inf:
            return DONE
        if finishing[1] <= now:
            _end_flow(state, ledger, use, plan, asks, phases, now)
        elif computing[1] <= now:
            request = first(computing.view(np.int64), 0, waits)
            verdict = plan.verdicts[request]
            if not has_seats(state.flows, max(verdict.last - verdict.first, 1)):
                return MORE_SEATS
            put(computing, 0, waits, request, np.inf)
            _start_io(state, ledger, use, plan, asks, phases, request, now)
        else:
            request = first(overdue.view(np.int64), 0, waits)
            verdict = plan.verdicts[request]
            if not has_room(ledger, verdict.last - verdict.first):
                return MORE_ROOM
            _prolong(state, ledger, plan, phases, request, now)


@hot_kernel
def _start(state: Array, ledger: Array, use: Array, plan: Array, asks: Array, phases: int, request: int) -> None:
    job, verdict = state.jobs[request], plan.verdicts[request]
    waits = state.computing.size // 2
    if verdict.state == GRANTED:
        parts = plan.parts[verdict.first : verdict.last]
        verdict.put = begin(ledger, use, parts, verdict.start, False)
        if verdict.put == parts.size:
            verdict.state = ALLOCATED
            job["from"] = verdict.start
            job.until = verdict.start + asks[request].booked
            put(state.overdue, 0, waits, request, job.until)
        else:
            verdict.state = FAILED
    put(state.computing, 0, waits, request, _compute_end(job, verdict, asks[request], phases))


@hot_kernel
def _compute_end(job: Array, verdict: Array, ask: Array, phases: int) -> float:
    """Return when the computing before the next I/O phase ends; all computing, if the job does no I/O."""
    done = job.phase + 1
    whole = done == phases or job.volume == 0.0
    return verdict.start + (ask.duration if whole else ask.duration * done / phases) + job.waited  # type: ignore[no-any-return]


@hot_kernel
def _start_io(
    state: Array, ledger: Array, use: Array, plan: Array, asks: Array, phases: int, request: int, now: float
) -> None:
    job, verdict, ask = state.jobs[request], plan.verdicts[request], asks[request]
    if job.volume == 0.0:
        _end_job(state, ledger, use, plan, request, now)
        return
    job.waiting = now
    each = job.volume / phases
    if verdict.state != ALLOCATED:
        _begin_flow(state, state.bandwidth.size - 1, request, each, now)
        return
    for part in plan.parts[verdict.first : verdict.last]:
        size = each * (part.bytes / ask.bytes)
        _begin_flow(state, part.disk, request, size, now)
        _begin_flow(state, ledger.disks.size + ledger.disks[part.disk].node, request, size, now)


@hot_kernel
def _begin_flow(state: Array, which: int, request: int, size: float, now: float) -> None:
    begin_flow(state.flows, which, request, size / state.bandwidth[which], now)
    state.jobs[request].open += 1


@hot_kernel
def _end_flow(state: Array, ledger: Array, use: Array, plan: Array, asks: Array, phases: int, now: float) -> None:
    """End a flow; the last flow ends its phase, and the last phase ends the job."""
    request = end_flow(state.flows, now)
    job = state.jobs[request]
    job.open -= 1
    if job.open == 0:
        job.phase += 1
        job.waited += now - job.waiting
        if job.phase == phases:
            _end_job(state, ledger, use, plan, request, now)
        else:
            ends = _compute_end(job, plan.verdicts[request], asks[request], phases)
            put(state.computing, 0, state.computing.size // 2, request, ends)


@hot_kernel
def _end_job(state: Array, ledger: Array, use: Array, plan: Array, request: int, now: float) -> None:
    job, verdict = state.jobs[request], plan.verdicts[request]
    job.end = now
    if verdict.state == ALLOCATED:
        parts = plan.parts[verdict.first : verdict.last]
        finish(ledger, use, parts, now)
        put(state.overdue, 0, state.overdue.size // 2, request, np.inf)
        if now < job.until:
            for part in parts:
                shorten(ledger, part.disk, job["from"], job.until, now, part.booking)


@hot_kernel
def _prolong(state: Array, ledger: Array, plan: Array, phases: int, request: int, now: float) -> None:
    """Prolong the booking of a job that still runs when its booking ends."""
    job, verdict = state.jobs[request], plan.verdicts[request]
    so_far = (now - verdict.start) / max(job.phase, 1)
    job["from"] = now
    job.until = now + max(_LEAST_PROLONGED, so_far * (phases - job.phase))
    for part in plan.parts[verdict.first : verdict.last]:
        part.booking = book(ledger, part.disk, now, job.until, part.bytes)
    put(state.overdue, 0, state.overdue.size // 2, request, job.until)
