"""`tcpu`: TCPU-Allocator, exactly Algorithm 1 of the paper, in O(log K) per move.

The listing evaluates every application again for every move. But the result for an
application changes only when it moves, or when the load crosses a bound that decided one of
its comparisons. So a tournament tree keeps each application's result and bounds: the root
has the winner, the sum of the stress and the next bound, and one leaf at a time is evaluated
again.
"""

from typing import NamedTuple

import numpy as np

from forebay.decide.policy import Input, allocator
from forebay.decide.view import View
from forebay.model.decision import Allocation
from forebay.model.kernels import Array, hot_kernel, kernel


class _Case(NamedTuple):
    counts: Array  # targets of each application so far
    move: Array  # targets after its next move
    n_perf: Array
    stress: Array  # [application, n]
    cpu_load: Array
    targets: int


class _Tree(NamedTuple):
    total: Array  # sum of the stress
    gain: Array  # largest loadDiff
    winner: Array  # its application
    fits: Array  # largest rise in load that fits
    over: Array  # smallest rise in load that does not fit


@allocator(
    "tcpu",
    inputs=[Input.COMPUTE_NODES, Input.VOLUME, Input.COMPUTE_SECONDS, Input.CURVE],
    source="Bandet et al. 2024, Algorithm 1",
)
def tcpu(view: View) -> Allocation:
    """Starts at nsys and adds targets that keep the most compute nodes busy, while the load is at most 1."""
    with np.errstate(invalid="ignore"):
        cpu_load = view.compute_nodes[:, None] * (1.0 - view.io_ratio)
    counts = view.n_sys.copy()
    _climb(counts, view.n_perf, view.io_stress, cpu_load, view.system.targets)
    return Allocation(tuple(counts.tolist()))


@kernel
def _climb(counts: Array, n_perf: Array, stress: Array, cpu_load: Array, targets: int) -> None:
    """Lines 3 to 20: raise `counts` in place."""
    case = _Case(counts, counts.copy(), n_perf, stress, cpu_load, targets)
    leaves = 1
    while leaves < counts.size:
        leaves *= 2
    size = 2 * leaves
    tree = _Tree(
        np.zeros(size),
        np.full(size, -1.0),
        np.zeros(size, dtype=np.int64),
        np.full(size, -np.inf),
        np.full(size, np.inf),
    )
    total, gain, winner, fits, over = tree
    for i in range(counts.size):
        total[leaves + i] = stress[i, counts[i]]
        winner[leaves + i] = i
    for node in range(leaves - 1, 0, -1):
        total[node] = total[2 * node] + total[2 * node + 1]
    load = total[1] / targets
    for i in range(counts.size):
        _look(case, tree, i, load)
    for node in range(leaves - 1, 0, -1):
        _merge(tree, node)
    while True:
        while load + fits[1] > 1.0 or load + over[1] <= 1.0:  # the load crossed a bound: evaluate again
            node = 1
            crossed = load + fits[1] > 1.0
            while node < leaves:
                same = fits[2 * node] == fits[node] if crossed else over[2 * node] == over[node]
                node = 2 * node if same else 2 * node + 1
            _look(case, tree, node - leaves, load)
            _rise(tree, node)
        if gain[1] < 0:
            return
        i = winner[1]
        counts[i] = case.move[i]
        total[leaves + i] = stress[i, counts[i]]
        _rise(tree, leaves + i)
        load = total[1] / targets
        _look(case, tree, i, load)
        _rise(tree, leaves + i)


@hot_kernel
def _look(case: Array, tree: Array, i: int, load: float) -> None:
    """Run lines 8 to 14 for application i, and store the bounds within which the result stays the same."""
    stress, targets, leaf = case.stress, case.targets, tree.total.size // 2 + i
    n = moved = case.counts[i]
    diff, most_fit, least_over = -1.0, -np.inf, np.inf
    while n != case.n_perf[i] and diff < 0:
        n += 1
        rise = stress[i, n] / targets - stress[i, case.counts[i]] / targets
        if load + rise <= 1.0:
            diff = case.cpu_load[i, n] - case.cpu_load[i, moved]
            moved = n
            most_fit = max(most_fit, rise)
        else:
            least_over = min(least_over, rise)
    case.move[i] = moved
    tree.gain[leaf], tree.fits[leaf], tree.over[leaf] = diff, most_fit, least_over


@hot_kernel
def _rise(tree: Array, node: int) -> None:
    while node > 1:
        node //= 2
        _merge(tree, node)


@hot_kernel
def _merge(tree: Array, node: int) -> None:
    left, right = 2 * node, 2 * node + 1
    tree.total[node] = tree.total[left] + tree.total[right]
    best = left if tree.gain[left] >= tree.gain[right] else right  # ties to the earlier application
    tree.gain[node], tree.winner[node] = tree.gain[best], tree.winner[best]
    tree.fits[node] = max(tree.fits[left], tree.fits[right])
    tree.over[node] = min(tree.over[left], tree.over[right])
