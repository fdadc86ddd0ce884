"""Which nodes and bytes each job held, for pictures: a pool has no places, so jobs get the lowest free ones."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from forebay.model.arrays import Floats, Ints


class Block(NamedTuple):
    """A part of a job's nodes or bytes that lie side by side, from `low` to `high`."""

    job: int
    begin: float
    end: float
    low: float
    high: float


class _Pool:
    """Free intervals of a resource, in order."""

    def __init__(self, total: float) -> None:
        self._free: list[tuple[float, float]] = [(0.0, total)]

    def take(self, amount: float) -> list[tuple[float, float]]:
        """Take one interval if any is long enough, else the lowest ones."""
        whole = next((k for k, (low, high) in enumerate(self._free) if high - low >= amount), None)
        intervals: list[tuple[float, float]] = []
        while amount > 0 and self._free:
            k = 0 if whole is None else whole
            low, high = self._free.pop(k)
            part = min(amount, high - low)
            intervals.append((low, low + part))
            if low + part < high:
                self._free.insert(k, (low + part, high))
            amount -= part
        return intervals

    def give(self, intervals: Sequence[tuple[float, float]]) -> None:
        merged: list[tuple[float, float]] = []
        for low, high in sorted([*self._free, *intervals]):
            if merged and low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        self._free = merged


def place_blocks(begins: Floats, ends: Floats, amounts: Ints, total: float) -> list[Block]:
    """Give each job the lowest free places of a resource for its time; jobs without an amount have no block.

    >>> place_blocks(np.array([0.0, 1.0, 2.0]), np.array([2.0, 3.0, 4.0]), np.array([2, 1, 2]), 4)[2]
    Block(job=2, begin=2.0, end=4.0, low=0.0, high=2.0)
    """
    used = np.flatnonzero((amounts > 0) & (ends > begins))
    # At the same moment, ends come first.
    events = sorted([(float(ends[j]), 0, int(j)) for j in used] + [(float(begins[j]), 1, int(j)) for j in used])
    pool, held, blocks = _Pool(total), dict[int, list[tuple[float, float]]](), []
    for _, is_begin, job in events:
        if is_begin:
            held[job] = pool.take(float(amounts[job]))
            blocks += [Block(job, float(begins[job]), float(ends[job]), low, high) for low, high in held[job]]
        else:
            pool.give(held.pop(job))
    return blocks
