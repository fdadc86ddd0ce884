"""`greedy-clairvoyant`: as much I/O on each target as on any other."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from forebay.decide.policy import Input, placer
from forebay.decide.view import View
from forebay.model.decision import Placement


@placer(
    "greedy-clairvoyant",
    inputs=[Input.VOLUME, Input.COMPUTE_SECONDS, Input.CURVE],
    source="Bandet et al. 2024, IV-B",
)
def greedy_clairvoyant(view: View, counts: Sequence[int]) -> Placement:
    """The least occupied targets, the applications with the largest share of I/O first."""
    ratios = [a.io_ratio(n) for a, n in zip(view.applications, counts, strict=True)]
    placement: list[tuple[int, ...]] = [()] * len(counts)
    occupied = [(0.0, target) for target in range(view.system.targets)]
    for i in sorted(range(len(counts)), key=lambda i: -ratios[i]):
        own = [heapq.heappop(occupied) for _ in range(counts[i])]
        for occupancy, target in own:
            heapq.heappush(occupied, (occupancy + ratios[i], target))
        placement[i] = tuple(sorted(target for _, target in own))
    return tuple(placement)
