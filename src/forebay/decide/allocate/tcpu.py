"""`tcpu`: TCPU-Allocator, Algorithm 1 of the paper, to the letter, in O(log K) a move.

The listing looks at every application again for every move. But what it finds for one
application changes only when that application moved, or when the load crossed a bound that
decided one of its comparisons. So each application's finding is kept in a tournament tree
together with its bounds: the winner, the sum of the stress, and the next bound to be
crossed are read at the root, and one leaf at a time is looked at again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.decide.policy import Input, allocator
from forebay.decide.view import View
from forebay.model.decision import Allocation
from forebay.model.kernels import kernel


@allocator(
    "tcpu",
    inputs=[Input.COMPUTE_NODES, Input.VOLUME, Input.COMPUTE_SECONDS, Input.CURVE],
    source="Bandet et al. 2024, Algorithm 1",
)
def tcpu(view: View) -> Allocation:
    """From nsys up, as long as the load stays at most 1, what keeps most compute nodes computing."""
    with np.errstate(invalid="ignore"):
        cpu_load = view.compute_nodes[:, None] * (1.0 - view.io_ratio)
    counts = view.n_sys.copy()
    _climb(counts, view.n_perf, view.io_stress, cpu_load, view.system.targets)
    return Allocation(tuple(counts.tolist()))


@kernel
def _climb(counts: Any, n_perf: Any, stress: Any, cpu_load: Any, targets: int) -> None:
    """Lines 3 to 20: raise `counts` in place."""
    leaves = 1
    while leaves < counts.size:
        leaves *= 2
    total = np.zeros(2 * leaves)  # sum of the stress
    gain = np.full(2 * leaves, -1.0)  # largest loadDiff, and whose it is
    winner = np.zeros(2 * leaves, dtype=np.int64)
    fits = np.full(2 * leaves, -np.inf)  # largest rise in load that was found to fit
    over = np.full(2 * leaves, np.inf)  # smallest rise in load that was found not to
    move = counts.copy()
    for i in range(counts.size):
        total[leaves + i] = stress[i, counts[i]]
        winner[leaves + i] = i
    for node in range(leaves - 1, 0, -1):
        total[node] = total[2 * node] + total[2 * node + 1]
    load = total[1] / targets
    for i in range(counts.size):
        _look(i, load, counts, move, n_perf, stress, cpu_load, targets, leaves, gain, fits, over)
    for node in range(leaves - 1, 0, -1):
        _merge(node, total, gain, winner, fits, over)
    while True:
        while load + fits[1] > 1.0 or load + over[1] <= 1.0:  # a bound was crossed: look again
            node = 1
            crossed = load + fits[1] > 1.0
            while node < leaves:
                same = fits[2 * node] == fits[node] if crossed else over[2 * node] == over[node]
                node = 2 * node if same else 2 * node + 1
            i = node - leaves
            _look(i, load, counts, move, n_perf, stress, cpu_load, targets, leaves, gain, fits, over)
            _rise(node, total, gain, winner, fits, over)
        if gain[1] < 0:
            return
        i = winner[1]
        counts[i] = move[i]
        total[leaves + i] = stress[i, counts[i]]
        _rise(leaves + i, total, gain, winner, fits, over)
        load = total[1] / targets
        _look(i, load, counts, move, n_perf, stress, cpu_load, targets, leaves, gain, fits, over)
        _rise(leaves + i, total, gain, winner, fits, over)


@kernel
def _look(
    i: int,
    load: float,
    counts: Any,
    move: Any,
    n_perf: Any,
    stress: Any,
    cpu_load: Any,
    targets: int,
    leaves: int,
    gain: Any,
    fits: Any,
    over: Any,
) -> None:
    """Lines 8 to 14 for application i, and the bounds within which they find the same again."""
    n = counts[i]
    moved = n
    diff, most_fit, least_over = -1.0, -np.inf, np.inf
    while n != n_perf[i] and diff < 0:
        n += 1
        rise = stress[i, n] / targets - stress[i, counts[i]] / targets
        if load + rise <= 1.0:
            diff = cpu_load[i, n] - cpu_load[i, moved]
            moved = n
            most_fit = max(most_fit, rise)
        else:
            least_over = min(least_over, rise)
    move[i] = moved
    gain[leaves + i], fits[leaves + i], over[leaves + i] = diff, most_fit, least_over


@kernel
def _rise(node: int, total: Any, gain: Any, winner: Any, fits: Any, over: Any) -> None:
    while node > 1:
        node //= 2
        _merge(node, total, gain, winner, fits, over)


@kernel
def _merge(node: int, total: Any, gain: Any, winner: Any, fits: Any, over: Any) -> None:
    left, right = 2 * node, 2 * node + 1
    total[node] = total[left] + total[right]
    best = left if gain[left] >= gain[right] else right  # ties to the earlier application
    gain[node], winner[node] = gain[best], winner[best]
    fits[node] = max(fits[left], fits[right])
    over[node] = min(over[left], over[right])
