"""Bandwidth in use of all disks, as it was told last; only in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

Rate = tuple[float, float]
"""Bytes per second written and read."""
_FRESH = 120.0  # seconds for which what was told holds, unless it is told anew


class Rates:
    """By node; `version` changes whenever something new is told."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, tuple[float, dict[str, Rate]]] = {}
        self.version = 0

    def update(self, node: str, rates: Mapping[str, Rate]) -> None:
        """Of all disks of a node, by their keys."""
        self._told[node] = self._clock(), dict(rates)
        self.version += 1

    def now(self) -> dict[str, Rate]:
        """Of all disks that are measured."""
        old = self._clock() - _FRESH
        self._told = {node: one for node, one in self._told.items() if one[0] > old}
        return {key: (round(w), round(r)) for _, rates in self._told.values() for key, (w, r) in rates.items()}
