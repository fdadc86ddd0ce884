"""`greedy-non-clairvoyant`: as many applications on each target as on any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forebay.decide.policy import placer
from forebay.decide.view import View
from forebay.model.decision import Placement
from forebay.model.kernels import kernel


@placer("greedy-non-clairvoyant", source="Bandet et al. 2024, IV-B")
def greedy_non_clairvoyant(view: View, counts: Sequence[int]) -> Placement:
    """Round robin over the targets, the applications with most of them first."""
    targets = view.system.targets
    first = np.empty(len(counts), dtype=np.int64)
    round_robin(np.asarray(counts, dtype=np.int64), targets, first, np.empty(targets + 1, dtype=np.int64))
    return tuple(
        tuple(sorted((start + k) % targets for k in range(n))) for start, n in zip(first.tolist(), counts, strict=True)
    )


@kernel
def round_robin(counts: Any, targets: int, first: Any, turn: Any) -> None:
    """Application a gets the counts[a] targets from first[a] on, around the end.

    `turn` is scratch space with room for every n.
    """
    turn[:] = 0
    for n in counts:
        turn[n] += n
    before = 0
    for n in range(turn.size - 1, -1, -1):  # those with n targets begin after all with more
        turn[n], before = before, before + turn[n]
    for a in range(counts.size):
        n = counts[a]
        first[a] = turn[n] % targets
        turn[n] += n
