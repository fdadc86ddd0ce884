"""b(n): the bandwidth that an application reaches on n targets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Curve:
    """Measured points of b(n), joined by straight lines and undefined beyond the first and last.

    `counts` ascend; `bandwidths` are bytes per second.

    >>> Curve.of({1: 100.0, 2: 150.0, 4: 250.0}).at(3)
    200.0
    """

    counts: tuple[int, ...]
    bandwidths: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.counts:
            raise ValueError("a curve needs at least one measured point")
        if self.counts[0] < 1 or any(a >= b for a, b in pairwise(self.counts)):
            raise ValueError(f"the numbers of targets must ascend from 1 or more, not {list(self.counts)}")
        for n, bandwidth in zip(self.counts, self.bandwidths, strict=True):
            if not (math.isfinite(bandwidth) and bandwidth > 0):
                raise ValueError(f"the bandwidth on {n} targets must be positive and finite, not {bandwidth:g}")

    @classmethod
    def of(cls, points: Mapping[int, float]) -> Curve:
        """The curve through `points`, given in any order."""
        counts = tuple(sorted(points))
        return cls(counts, tuple(float(points[n]) for n in counts))

    @property
    def first(self) -> int:
        """The smallest n that the curve is defined for."""
        return self.counts[0]

    @property
    def last(self) -> int:
        """The largest n that the curve is defined for."""
        return self.counts[-1]

    @property
    def n_perf(self) -> int:
        """The smallest n that maximises b, always a measured one (Bandet et al. 2024, Eq. 1)."""
        return self.counts[self.bandwidths.index(max(self.bandwidths))]

    def at(self, n: int) -> float:
        """b(n) in bytes per second."""
        if not self.first <= n <= self.last:
            raise ValueError(f"the curve is defined for {self.first} to {self.last} targets, not for {n}")
        return self.table()[n - self.first]

    def table(self) -> tuple[float, ...]:
        """b(n) for every n from `first` to `last`."""
        return _table(self.counts, self.bandwidths)


@lru_cache(maxsize=4096)
def _table(counts: tuple[int, ...], bandwidths: tuple[float, ...]) -> tuple[float, ...]:
    filled = [bandwidths[0]]
    for (n0, b0), (n1, b1) in pairwise(zip(counts, bandwidths, strict=True)):
        filled += [b0 + (b1 - b0) * (n - n0) / (n1 - n0) for n in range(n0 + 1, n1)]
        filled.append(b1)
    return tuple(filled)
