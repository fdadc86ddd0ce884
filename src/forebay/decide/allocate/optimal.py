"""`optimal`: the best allocation there is, for cases small enough to search, with the simulator as judge.

Congestion only ever adds: an application's slowdown is at least its rho_io, and its time in
I/O over the horizon at least what it has alone. So a branch whose score would be no better
than the best so far, even with the unfriendliest competitors gone, is not entered.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from forebay.decide.allocate.best_bandwidth import best_bandwidth
from forebay.decide.allocate.nsys import nsys
from forebay.decide.allocate.tcpu import tcpu
from forebay.decide.policy import Input, allocator
from forebay.decide.view import Floats, Judge, Score, View
from forebay.model.decision import Allocation, Never

Counts = tuple[int, ...]


@allocator(
    "optimal",
    inputs=[Input.COMPUTE_NODES, Input.VOLUME, Input.COMPUTE_SECONDS, Input.CURVE, Input.PHASES],
    source="exhaustive reference",
    simulates=True,
)
def optimal(view: View, *, weight: float = 0.1, most: int = 2_000_000) -> Allocation | Never:
    """The allocation that the simulator likes best, by branch and bound; for small cases.

    `weight` is that of the policy `forebay`. More than `most` allocations to choose from is refused.
    """
    assert view.judge is not None and view.place is not None, "optimal is called with a judge and a placement"
    choices = [range(a.curve.first, a.curve.last + 1) for a in view.applications]
    total = math.prod(len(c) for c in choices)
    if total > most:
        return Never(because=f"{total:.3g} allocations to try, more than the {most:,} that optimal:most=… allows")
    judge, place = view.judge, view.place

    def score(counts: Counts) -> float:
        return judge.score(place(view, counts)).combined(weight)

    starts = [policy.decide(view).counts for policy in (nsys, tcpu, best_bandwidth)]
    best = min(starts, key=score)
    return Allocation(_search(view, judge, choices, score, best, weight))


def _search(
    view: View, judge: Judge, choices: list[range], score: Callable[[Counts], float], best: Counts, weight: float
) -> Counts:
    """Depth first over the applications in input order, lowest n first, so ties go to the lowest."""
    slowdown, idle = _lower_bounds(view, judge.horizon)
    k = len(choices)
    doing_io = max(1, int((view.volume > 0).sum()))  # the mean is over those
    rest_slowdown = np.concatenate([np.cumsum(slowdown.min(axis=1)[::-1])[::-1], [0.0]])
    rest_idle = np.concatenate([np.cumsum(idle.min(axis=1)[::-1])[::-1], [0.0]])
    best_score = score(best)
    counts: list[int] = []

    def enter(so_far_slowdown: float, so_far_idle: float) -> None:
        nonlocal best, best_score
        i = len(counts)
        bound = Score((so_far_slowdown + rest_slowdown[i]) / doing_io, so_far_idle + rest_idle[i])
        if bound.combined(weight) >= best_score:
            return
        if i == k:
            found = score(tuple(counts))
            if found < best_score:
                best, best_score = tuple(counts), found
            return
        for n in choices[i]:
            counts.append(n)
            enter(so_far_slowdown + slowdown[i, n], so_far_idle + idle[i, n])
            counts.pop()

    enter(0.0, 0.0)
    return best


def _lower_bounds(view: View, horizon: float) -> tuple[Floats, Floats]:
    """For each application and n: its slowdown, and its part of the machine's idle time, if alone."""
    phases = np.array([a.phases for a in view.applications])[:, None]
    compute, io = view.compute_seconds[:, None] / phases, view.io_seconds / phases
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = view.bandwidth.max(axis=1)[:, None] / view.bandwidth * (view.volume > 0)[:, None]
        whole = np.floor(horizon / (compute + io))
        in_io = whole * io + np.maximum(0.0, horizon - whole * (compute + io) - compute)
        idle = in_io * view.compute_nodes[:, None] / (horizon * view.system.compute_nodes)
    undefined = ~np.isfinite(view.io_seconds)
    return np.where(undefined, np.inf, slowdown), np.where(undefined, np.inf, idle)
