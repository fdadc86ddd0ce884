"""`optimal`: the best allocation according to the simulator, for cases small enough to search.

Congestion never helps: an application's slowdown is at least its rho_io, and its I/O time over
the horizon is at least that alone. The search skips a branch whose score, without any
congestion, is no better than the best so far.
"""

import math

import numpy as np

from forebay.decide.allocate.baselines import best_bandwidth, nsys
from forebay.decide.allocate.tcpu import tcpu
from forebay.decide.policy import Input, allocator
from forebay.decide.view import Score, View
from forebay.model.arrays import Floats
from forebay.model.decision import Allocation, Never

_MOST_APPLICATIONS = 200  # each is a level of recursion


@allocator(
    "optimal",
    inputs=[Input.COMPUTE_NODES, Input.VOLUME, Input.COMPUTE_SECONDS, Input.CURVE, Input.PHASES],
    source="exhaustive reference",
    simulates=True,
)
def optimal(view: View, *, weight: float = 0.1, most: int = 2_000_000) -> Allocation | Never:
    """The best allocation in the simulator, by branch and bound; for small cases."""
    assert view.judge is not None and view.place is not None, "optimal needs view.judge and view.place"
    choices = [range(a.curve.first, a.curve.last + 1) for a in view.applications]
    total = math.prod(len(c) for c in choices)
    if total > most:
        return Never(because=f"{total:.3g} allocations to try; the limit is {most:,} (raise it with optimal:most=…)")
    if len(choices) > _MOST_APPLICATIONS:
        return Never(because=f"{len(choices)} applications; optimal can search at most {_MOST_APPLICATIONS}")
    judge, place = view.judge, view.place
    best, answer = math.inf, Allocation(())

    def try_out(counts: tuple[int, ...]) -> None:
        nonlocal best, answer
        placement = place(view, counts)
        score = judge.score(placement).combine(weight)
        if score < best:
            best, answer = score, Allocation(counts, placement)

    for policy in (nsys, tcpu, best_bandwidth):
        try_out(policy.decide(view).counts)
    slowdown, idle = _lower_bounds(view, judge.horizon)
    doing_io = max(1, int((view.volume > 0).sum()))  # the mean counts only these
    rest_slowdown = np.concatenate([np.cumsum(slowdown.min(axis=1)[::-1])[::-1], [0.0]])
    rest_idle = np.concatenate([np.cumsum(idle.min(axis=1)[::-1])[::-1], [0.0]])
    counts: list[int] = []

    def enter(so_far_slowdown: float, so_far_idle: float) -> None:
        """Search depth first in input order, lowest n first, so that ties go to the lowest n."""
        i = len(counts)
        bound = Score((so_far_slowdown + rest_slowdown[i]) / doing_io, so_far_idle + rest_idle[i])
        if bound.combine(weight) >= best:
            return
        if i == len(choices):
            try_out(tuple(counts))
            return
        for n in choices[i]:
            counts.append(n)
            enter(so_far_slowdown + slowdown[i, n], so_far_idle + idle[i, n])
            counts.pop()

    enter(0.0, 0.0)
    return answer


def _lower_bounds(view: View, horizon: float) -> tuple[Floats, Floats]:
    """Return, for each application and n, its slowdown and its share of machine idle time if alone."""
    phases = np.array([a.phases for a in view.applications])[:, None]
    compute, io = view.compute_seconds[:, None] / phases, view.io_seconds / phases
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = view.bandwidth.max(axis=1)[:, None] / view.bandwidth * (view.volume > 0)[:, None]
        whole = np.floor(horizon / (compute + io))
        in_io = whole * io + np.maximum(0.0, horizon - whole * (compute + io) - compute)
        idle = in_io * view.compute_nodes[:, None] / (horizon * view.system.compute_nodes)
    undefined = ~np.isfinite(view.io_seconds)
    return np.where(undefined, np.inf, slowdown), np.where(undefined, np.inf, idle)
