"""The allocation policy `forebay`. It predicts the effect of an allocation with a model of sharing.

`tcpu` bounds the load and uses congestion-free times; this policy estimates the congestion
itself. Application a has a transfer under way on one of its targets with probability p(a).
A transfer shares its target with the others' transfers, so it takes 1 + (sum of p of the
others on that target) times as long as alone. A phase takes as long as its slowest transfer,
and p follows from the length of the phases: a fixed point, found by iteration. This takes a
microsecond, so the policy can compare hundreds of thousands of allocations with their real
placement: first one application at a time, then by simulated annealing, because under round
robin a change of one application moves all others.

It needs the same inputs as `tcpu`: compute nodes, volume, compute time, curve. It uses
neither the number of phases nor a simulator, and it is deterministic.
"""

from typing import NamedTuple

import numpy as np

from forebay.decide.allocate.tcpu import tcpu
from forebay.decide.place import greedy_non_clairvoyant, round_robin
from forebay.decide.policy import Input, allocator
from forebay.decide.view import View, check_weight
from forebay.model.decision import Allocation
from forebay.model.kernels import Array, kernel

# The slowest of n transfers meets more than the mean load: halfway to the most loaded target,
# plus a random term that grows with the spread of the load and with log n. Fitted once to
# simulated phases over loads 0.4 to 1.2; results are not sensitive to it.
_TOWARDS_MOST_LOADED = 0.5
_STRAGGLERS = 0.3

_SETTLE = 60  # iterations to find the fixed point from the start
_FOLLOW = 3  # iterations to update it after one or two applications change
_STEPS_EACH, _MOST_STEPS = 12_000, 700_000  # annealing steps for each application, and in total
_HOT, _COLD = 3e-3, 5e-5  # relative losses that annealing sometimes accepts, first and last
_HOPELESS = 10  # temperatures; a first estimate that is worse by more ends the evaluation
_PAIRS = 0.5  # share of steps in which one application gives a target to another
_ANY = 0.2  # share of the other steps that go to a random n, not a neighbouring one


class _Case(NamedTuple):
    io_seconds: Array  # [application, n]
    compute_seconds: Array
    node_share: Array  # of the machine's compute nodes
    slowdown_each: Array  # slowdown per second of I/O: 1 / (I/O seconds alone on the best n)
    straggle: Array  # for each n
    first: Array
    last: Array
    targets: int
    known_targets: bool  # placed round robin; otherwise uniformly at random
    weight: float


class _Scratch(NamedTuple):
    start: Array  # first target of each application
    turn: Array
    load: Array  # sum of p on each target


@allocator(
    "forebay",
    inputs=[Input.COMPUTE_NODES, Input.VOLUME, Input.COMPUTE_SECONDS, Input.CURVE],
    source="Forebay",
)
def forebay(view: View, *, weight: float = 0.1) -> Allocation:
    """The least expected slowdown and idle time, by a model of how applications share targets.

    `weight`, between 0 and 1, is the weight of the slowdown; 1 - `weight` is that of computing.
    The model assumes random targets unless the placement is greedy-non-clairvoyant.
    """
    check_weight(weight)
    counts = np.array(tcpu.decide(view).counts, dtype=np.int64)
    doing_io = view.volume > 0
    case = _Case(
        io_seconds=view.io_seconds,
        compute_seconds=view.compute_seconds,
        node_share=view.compute_nodes / view.system.compute_nodes,
        slowdown_each=np.where(doing_io, 1.0 / np.where(doing_io, view.io_seconds.min(axis=1), 1.0), 0.0),
        straggle=_STRAGGLERS * np.log(np.maximum(np.arange(view.io_seconds.shape[1]), 1)),
        first=view.first,
        last=np.where(doing_io, view.last, view.first),
        targets=view.system.targets,
        known_targets=False,
        weight=weight,
    )
    np.clip(counts, case.first, case.last, out=counts)
    busy = np.full(counts.size, 0.5)
    _descend(case, counts, busy)
    if view.places in (None, greedy_non_clairvoyant.name):
        case = case._replace(known_targets=True)
        _descend(case, counts, busy)
        _anneal(case, counts, busy, min(_STEPS_EACH * counts.size, _MOST_STEPS))
        _descend(case, counts, busy)
    return Allocation(tuple(counts.tolist()))


@kernel
def _descend(case: Array, counts: Array, busy: Array) -> None:
    """Give each application in turn its best n with the others unchanged, until none changes."""
    scratch = _scratch(case, counts.size)
    best = _score(case, counts, busy, scratch, _SETTLE)
    trial = busy.copy()
    moved = True
    while moved:
        moved = False
        for a in range(counts.size):
            old = chosen = counts[a]
            for n in range(case.first[a], case.last[a] + 1):
                if n != old:
                    counts[a] = n
                    trial[:] = busy
                    score = _score(case, counts, trial, scratch, _SETTLE // 4)
                    if score < best - 1e-9:
                        best, chosen = score, n
            counts[a] = chosen
            if chosen != old:
                moved = True
                best = min(best, _score(case, counts, busy, scratch, _SETTLE))


@kernel
def _anneal(case: Array, counts: Array, busy: Array, steps: int) -> None:
    """Change one or two applications at a time, at first also for the worse; keep the best allocation."""
    scratch = _scratch(case, counts.size)
    applications = np.uint64(counts.size)
    trial, best_counts = busy.copy(), counts.copy()
    now = best = _score(case, counts, busy, scratch, _SETTLE)
    cooling = (_COLD / _HOT) ** (1.0 / steps)
    temperature = _HOT
    chance = np.uint64(88172645463325252)  # a fixed start: the same view gives the same answer
    for _ in range(steps):
        temperature *= cooling
        chance = _xorshift(chance)
        a = np.int64(chance % applications)
        chance = _xorshift(chance)
        b = np.int64(chance % applications)
        chance = _xorshift(chance)
        up = np.int64(chance & np.uint64(1)) * 2 - 1
        kind = _unit(chance)
        old_a, old_b = counts[a], counts[b]
        if kind < _PAIRS:
            if a == b:
                continue
            counts[a] += up
            counts[b] -= up
        elif kind < _PAIRS + (1.0 - _PAIRS) * _ANY:
            chance = _xorshift(chance)
            counts[a] = case.first[a] + np.int64(chance % np.uint64(case.last[a] - case.first[a] + 1))
        else:
            counts[a] += up
        allowed = case.first[a] <= counts[a] <= case.last[a] and case.first[b] <= counts[b] <= case.last[b]
        if allowed and (counts[a] != old_a or counts[b] != old_b):
            trial[:] = busy
            score = _score(case, counts, trial, scratch, _FOLLOW, now + _HOPELESS * temperature)
            chance = _xorshift(chance)
            if score < now or _unit(chance) < np.exp((now - score) / temperature):
                now = score
                busy[:] = trial
                if now < best:
                    best = now
                    best_counts[:] = counts
                continue
        counts[a] = old_a
        counts[b] = old_b
    counts[:] = best_counts


@kernel
def _scratch(case: Array, applications: int) -> Array:
    return _Scratch(
        np.zeros(applications, dtype=np.int64),
        np.zeros(max(case.targets, case.straggle.size) + 1, dtype=np.int64),
        np.zeros(case.targets),
    )


@kernel
def _score(case: Array, counts: Array, busy: Array, scratch: Array, iterations: int, limit: float = np.inf) -> float:
    """Return the log of the expected `Score.combine`. Updates `busy` in place, only once if that exceeds `limit`."""
    # Read from the tuples only once: numba counts references at each access.
    io_seconds, compute_seconds, straggle = case.io_seconds, case.compute_seconds, case.straggle
    node_share, slowdown_each = case.node_share, case.slowdown_each
    start, load = scratch.start, scratch.load
    targets, known_targets = case.targets, case.known_targets
    if known_targets:
        round_robin(counts, targets, start, scratch.turn)
    slowdown, idle = 0.0, 0.0
    for iteration in range(iterations):
        slowdown, idle = 0.0, 0.0
        load[:] = 0.0
        for a in range(counts.size):
            if known_targets:
                t = start[a]
                for _ in range(counts[a]):
                    load[t] += busy[a]
                    t = t + 1 if t + 1 < targets else 0
            else:
                load[0] += busy[a] * counts[a] / targets
        for a in range(counts.size):
            n = counts[a]
            if known_targets:
                mean, most = 0.0, 0.0
                t = start[a]
                for _ in range(n):
                    mean += load[t]
                    most = max(most, load[t])
                    t = t + 1 if t + 1 < targets else 0
                mean = mean / n - busy[a]
                most -= busy[a]
            else:
                mean = most = load[0] - busy[a] * n / targets
            alone = io_seconds[a, n]
            stretch = 1.0 + mean + _TOWARDS_MOST_LOADED * (most - mean) + straggle[n] * np.sqrt(max(most, 0.0))
            io = alone * stretch
            part = 1.0 / (compute_seconds[a] + io) if io > 0 else 0.0
            busy[a] = 0.5 * (busy[a] + alone * (1.0 + mean) * part)
            idle += node_share[a] * io * part
            slowdown += io * slowdown_each[a]
        if iteration == 0 and limit < np.inf and _combine_scores(case.weight, slowdown, idle) > limit:
            break
    return _combine_scores(case.weight, slowdown, idle)


@kernel
def _combine_scores(weight: float, slowdown: float, idle: float) -> float:
    computing = max(1.0 - idle, 1e-9)
    return weight * np.log(max(slowdown, 1e-300)) - (1.0 - weight) * np.log(computing)  # type: ignore[no-any-return]


@kernel
def _xorshift(state: Array) -> Array:
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


@kernel
def _unit(state: Array) -> float:
    """Return a number in [0, 1) from the upper bits, which are more random."""
    return np.float64(state >> np.uint64(11)) * 2.0**-53
