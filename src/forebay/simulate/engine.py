"""The event loop: applications that compute, then do I/O on their targets, again and again.

An I/O phase over n targets is n independent transfers of equal work; it ends with the last of
them (Bandet et al. 2024, section III). Nothing happens between events, so there are no time
steps: one tournament holds the next finish on every target, another the end of every computation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from forebay.model.decision import Placement
from forebay.model.kernels import hot_kernel
from forebay.simulate.sharing import arrive, depart, next_finish, resources
from forebay.simulate.tournament import first, put, tournament

# A phase that ends on the horizon counts, also when adding up many phases put it a hair behind.
HORIZON_SLACK = 1e-9

# 32 bits where they are enough: what thousands of applications need has to fit into the cache.
APPLICATION = np.dtype(
    [
        ("begin", np.int32),  # its transfers are `transfers[begin:end]`
        ("end", np.int32),
        ("open", np.int32),  # transfers still under way
        ("goal", np.int32),  # phases of a whole run; the loop can stop when one application has done them
        ("done", np.int64),  # phases completed
        ("compute", np.float64),  # seconds of computing per phase
        ("work", np.float64),  # seconds that one transfer takes alone
        ("started", np.float64),  # when the I/O under way began
        ("io_seconds", np.float64),  # I/O seconds of completed phases
    ]
)
TRANSFER = np.dtype([("target", np.int32), ("seat", np.int32)])


class Engine(NamedTuple):
    """All state of one simulation."""

    applications: Any
    targets: Any  # see sharing.RESOURCE
    marks: Any
    transfers: Any  # each application's, ascending by target
    owner: Any  # whose seat it is, over all targets
    finishing: Any  # tournament: when the next transfer on each target ends
    computing: Any  # tournament: when each application's computation ends
    counters: Any  # [events so far]


def engine(targets: int, placement: Placement, compute: Any, work: Any, goal: Any) -> Engine:
    """All applications begin to compute at time 0."""
    applications = np.zeros(len(placement), dtype=APPLICATION)
    counts = np.array([len(own) for own in placement], dtype=np.int64)
    applications["end"] = np.cumsum(counts)
    applications["begin"] = applications["end"] - counts
    applications["compute"], applications["work"], applications["goal"] = compute, work, goal
    transfers = np.zeros(counts.sum(), dtype=TRANSFER)
    transfers["target"] = [t for own in placement for t in own]
    if transfers.size and not 0 <= transfers["target"].min() <= transfers["target"].max() < targets:
        raise ValueError(f"targets are numbered from 0 to {targets - 1}")
    idle, marks = resources(np.bincount(transfers["target"], minlength=targets))
    by_target = np.argsort(transfers["target"], kind="stable")
    transfers["seat"][by_target] = np.arange(by_target.size) - idle["seats"][transfers["target"][by_target]]
    return Engine(
        applications=applications,
        targets=idle,
        marks=marks,
        transfers=transfers,
        owner=np.repeat(np.arange(len(placement), dtype=np.int32), counts)[by_target],
        finishing=tournament(np.full(targets, np.inf)),
        computing=tournament(compute),
        counters=np.zeros(1, dtype=np.int64),
    )


def next_event(state: Engine) -> float:
    return float(min(state.finishing[1], state.computing[1]))


@hot_kernel
def advance(state: Any, until: float, most: int, stop_at_goal: bool) -> float:
    """Process events up to and including time `until`, at most `most` of them.

    Returns the time up to which everything has happened: `until`, or when the first
    application reached its goal; -1 if `most` events were not enough, then call again.
    """
    # Taken out of the tuple once: numba would count a reference each time.
    applications, targets, marks, transfers = state.applications, state.targets, state.marks, state.transfers
    owner, finishing, computing = state.owner, state.finishing, state.computing
    mark_bits, finish_bits, compute_bits = marks.view(np.int64), finishing.view(np.int64), computing.view(np.int64)
    finishers, computers = finishing.size // 2, computing.size // 2
    for event in range(most):
        transfer_ends = finishing[1] <= computing[1]
        now = finishing[1] if transfer_ends else computing[1]
        if now > until:
            state.counters[0] += event
            return until
        if transfer_ends:  # and with an application's last one its phase
            t = first(finish_bits, 0, finishers)
            target = targets[np.uint64(t)]
            a = owner[np.uint64(target.seats + depart(target, marks, mark_bits, now))]
            put(finishing, 0, finishers, t, next_finish(target, marks))
            application = applications[np.uint64(a)]
            application.open -= 1
            if application.open == 0:
                application.done += 1
                application.io_seconds += now - application.started
                put(computing, 0, computers, a, now + application.compute)
                if stop_at_goal and application.done >= application.goal:
                    state.counters[0] += event + 1
                    return now  # type: ignore[no-any-return]
        else:  # a computation ends: its application starts a transfer on every target
            a = first(compute_bits, 0, computers)
            put(computing, 0, computers, a, np.inf)
            application = applications[np.uint64(a)]
            application.started = now
            application.open = application.end - application.begin
            for k in range(np.uint64(application.begin), np.uint64(application.end)):
                transfer = transfers[k]
                target = targets[np.uint64(transfer.target)]
                arrive(target, marks, transfer.seat, application.work, now)
                put(finishing, 0, finishers, transfer.target, next_finish(target, marks))
    state.counters[0] += most
    return -1.0
