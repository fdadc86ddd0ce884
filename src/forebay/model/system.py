"""The machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

MOST_TARGETS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A machine whose `targets` (I/O nodes, OSTs) are alike and whose compute nodes are shared out."""

    targets: int
    compute_nodes: float

    def __post_init__(self) -> None:
        if not 1 <= self.targets <= MOST_TARGETS:
            raise ValueError(f"targets must be at least 1 and at most {MOST_TARGETS:,}, not {self.targets}")
        if not (math.isfinite(self.compute_nodes) and self.compute_nodes > 0):
            raise ValueError(f"compute_nodes must be positive and finite, not {self.compute_nodes:g}")
