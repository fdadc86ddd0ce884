"""Baseline allocation policies, for comparison."""

import math

import numpy as np

from forebay.decide.policy import Input, allocator, clip_counts
from forebay.decide.view import View
from forebay.model.decision import Allocation
from forebay.model.kernels import Array, kernel


@allocator("random", source="Bandet et al. 2024, IV-A")
def random(view: View) -> Allocation:
    """A uniformly random number of targets for which the curve is defined."""
    assert view.rng is not None, "the random policy needs view.rng"
    return Allocation(tuple(int(n) for n in view.rng.integers(view.first, view.last + 1)))


@allocator("static", inputs=[Input.COMPUTE_NODES], source="Bandet et al. 2024, IV-A")
def static(view: View) -> Allocation:
    """Targets in proportion to compute nodes, rounded half up, at least one."""
    targets, nodes = view.system.targets, view.system.compute_nodes
    return clip_counts(view, [math.floor(a.compute_nodes * targets / nodes + 0.5) for a in view.applications])


@allocator("best-bandwidth", inputs=[Input.N_PERF], source="Bandet et al. 2024, IV-A")
def best_bandwidth(view: View) -> Allocation:
    """The number of targets on which the application is fastest alone."""
    return Allocation(tuple(a.curve.n_perf for a in view.applications))


@allocator("nsys", inputs=[Input.VOLUME, Input.COMPUTE_SECONDS, Input.CURVE], source="Bandet et al. 2024, IV-A")
def nsys(view: View) -> Allocation:
    """The number of targets with which the application loads the I/O system least."""
    return Allocation(tuple(view.n_sys.tolist()))


@allocator("mckp", inputs=[Input.CURVE], source="Bez et al. 2021")
def mckp(view: View) -> Allocation:
    """The largest sum of bandwidths on exclusive targets; the remaining applications share one target.

    If every application can have exclusive targets, each gets one measured n. Otherwise the last
    target is set aside, a knapsack assigns the others, and all applications without targets share
    the last one (or their smallest n targets from the end).
    """
    curves = [a.curve for a in view.applications]
    targets = view.system.targets
    enough = sum(c.first for c in curves) <= targets
    shared = 0 if enough else min(max(c.first for c in curves), targets)
    points = np.array([len(c.counts) for c in curves], dtype=np.int64)
    begin = np.concatenate([[0], np.cumsum(points)])
    size = np.array([n for c in curves for n in c.counts], dtype=np.int64)
    value = np.array([b for c in curves for b in c.bandwidths])
    chosen = _knapsack(begin, size, value, targets - shared, not enough)
    # Exclusive targets start at the lowest index; shared ones are the last.
    placement: list[tuple[int, ...]] = []
    free = 0
    for count, curve in zip(chosen.tolist(), curves, strict=True):
        placement.append(tuple(range(free, free + count) if count else range(targets - curve.first, targets)))
        free += count
    return Allocation(tuple(len(some) for some in placement), tuple(placement))


@kernel
def _knapsack(begin: Array, size: Array, value: Array, capacity: int, may_skip: bool) -> Array:
    """Choose at most one item per class with the largest value; ties give the earliest classes the smallest items."""
    classes = begin.size - 1
    best = np.zeros((classes + 1, capacity + 1))  # [k, c]: largest value of classes k and later within capacity c
    for k in range(classes - 1, -1, -1):
        for c in range(capacity + 1):
            top = best[k + 1, c] if may_skip else -np.inf
            for item in range(begin[k], begin[k + 1]):
                if size[item] <= c:
                    top = max(top, value[item] + best[k + 1, c - size[item]])
            best[k, c] = top
    chosen = np.zeros(classes, dtype=np.int64)
    left = capacity
    for k in range(classes):
        if may_skip and best[k, left] == best[k + 1, left]:
            continue
        for item in range(begin[k], begin[k + 1]):
            if size[item] <= left and best[k, left] == value[item] + best[k + 1, left - size[item]]:
                chosen[k] = size[item]
                left -= size[item]
                break
    return chosen


BASELINES = (random, static, best_bandwidth, nsys)
