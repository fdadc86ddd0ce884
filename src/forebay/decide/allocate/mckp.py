"""`mckp`: the multiple-choice knapsack of Bez et al. 2021, which decides how many and which at once."""

from __future__ import annotations

import numpy as np

from forebay.decide.policy import Input, allocator
from forebay.decide.view import View
from forebay.model.decision import Allocation
from forebay.model.kernels import Array, kernel


@allocator("mckp", inputs=[Input.CURVE], source="Bez et al. 2021")
def mckp(view: View) -> Allocation:
    """Largest sum of bandwidths with targets of one's own; what doesn't fit shares one target.

    Where every application can have targets of its own, each gets one measured n. Where there
    are too many of them, the last target is set aside, the knapsack chooses who gets how many
    of the others, and everybody else shares the one set aside (or as many as their smallest n).
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
    # Targets from the lowest index up for those who have their own; the last ones for the others.
    placement: list[tuple[int, ...]] = []
    free = 0
    for count, curve in zip(chosen.tolist(), curves, strict=True):
        placement.append(tuple(range(free, free + count) if count else range(targets - curve.first, targets)))
        free += count
    return Allocation(tuple(len(some) for some in placement), tuple(placement))


@kernel
def _knapsack(begin: Array, size: Array, value: Array, capacity: int, may_skip: bool) -> Array:
    """One item of each class, or none, of largest value; ties go to the smallest items for the earliest classes."""
    classes = begin.size - 1
    best = np.zeros((classes + 1, capacity + 1))  # [k, c]: the largest value of the classes from k on within c
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
