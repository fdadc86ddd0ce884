"""Which targets each application gets: the placement policies, and how they combine with an allocation policy."""

import heapq
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from forebay.decide.policy import Input, Policy, placer
from forebay.decide.view import View
from forebay.model.decision import Allocation, Never, Placement
from forebay.model.errors import PolicyError
from forebay.model.kernels import Array, kernel


@placer("random", source="Bandet et al. 2024, IV-B")
def random(view: View, counts: Sequence[int]) -> Placement:
    """Different targets for each application, uniformly at random."""
    rng = view.rng
    assert rng is not None, "the random policy needs view.rng"
    return tuple(tuple(sorted(rng.choice(view.system.targets, n, replace=False).tolist())) for n in counts)


@placer("greedy-non-clairvoyant", source="Bandet et al. 2024, IV-B")
def greedy_non_clairvoyant(view: View, counts: Sequence[int]) -> Placement:
    """Targets in round-robin order; the application with the most targets comes first."""
    targets = view.system.targets
    first = np.empty(len(counts), dtype=np.int64)
    round_robin(np.asarray(counts, dtype=np.int64), targets, first, np.empty(targets + 1, dtype=np.int64))
    return tuple(
        tuple(sorted((start + k) % targets for k in range(n))) for start, n in zip(first.tolist(), counts, strict=True)
    )


@kernel
def round_robin(counts: Array, targets: int, first: Array, turn: Array) -> None:
    """Write to first[a] where the counts[a] targets of application a begin; `turn` is scratch space for every n."""
    turn[:] = 0
    for n in counts:
        turn[n] += n
    before = 0
    for n in range(turn.size - 1, -1, -1):  # applications with n targets come after all with more
        turn[n], before = before, before + turn[n]
    for a in range(counts.size):
        n = counts[a]
        first[a] = turn[n] % targets
        turn[n] += n


@placer(
    "greedy-clairvoyant",
    inputs=[Input.VOLUME, Input.COMPUTE_SECONDS, Input.CURVE],
    source="Bandet et al. 2024, IV-B",
)
def greedy_clairvoyant(view: View, counts: Sequence[int]) -> Placement:
    """The least occupied targets; the application with the largest share of I/O comes first."""
    ratios = [a.io_ratio(n) for a, n in zip(view.applications, counts, strict=True)]
    placement: list[tuple[int, ...]] = [()] * len(counts)
    occupied = [(0.0, target) for target in range(view.system.targets)]
    for i in sorted(range(len(counts)), key=lambda i: -ratios[i]):
        chosen = [heapq.heappop(occupied) for _ in range(counts[i])]
        for occupancy, target in chosen:
            heapq.heappush(occupied, (occupancy + ratios[i], target))
        placement[i] = tuple(sorted(target for _, target in chosen))
    return tuple(placement)


PLACEMENTS = (random, greedy_non_clairvoyant, greedy_clairvoyant)


def choose_targets(view: View, allocate: Policy, place: Policy) -> Placement | Never:
    """Ask `allocate` how many targets each application gets, then `place` which ones, and check the answers."""
    allocation = allocate.decide(replace(view, place=place.decide, places=place.name))
    if isinstance(allocation, Never):
        return allocation
    if not isinstance(allocation, Allocation):
        raise PolicyError(f"{allocate.name}: returns {allocation!r}, which is neither an Allocation nor a Never")
    counts, applications = allocation.counts, view.applications
    if len(counts) != len(applications):
        raise PolicyError(f"{allocate.name}: returns {len(counts)} counts for {len(applications)} applications")
    for application, n in zip(applications, counts, strict=True):
        if not application.curve.first <= n <= min(application.curve.last, view.system.targets):
            raise PolicyError(f"{allocate.name}: gives {application.name} {n} targets, which its curve excludes")
    decider, placement = allocate, allocation.placement
    if placement is None:
        decider, placement = place, place.decide(view, counts)
    if len(placement) != len(counts):
        raise PolicyError(f"{decider.name}: places {len(placement)} of {len(counts)} applications")
    for application, n, targets in zip(applications, counts, placement, strict=True):
        if len(targets) != n or len(set(targets)) != n or not all(0 <= t < view.system.targets for t in targets):
            raise PolicyError(f"{decider.name}: {application.name} needs {n} different targets, got {targets}")
    return placement
