"""The machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A machine whose `targets` (I/O nodes, OSTs) are alike and whose compute nodes are shared out."""

    targets: int
    compute_nodes: float

    def __post_init__(self) -> None:
        if self.targets < 1:
            raise ValueError(f"targets must be at least 1, not {self.targets}")
        if not self.compute_nodes > 0:
            raise ValueError(f"compute_nodes must be positive, not {self.compute_nodes:g}")
