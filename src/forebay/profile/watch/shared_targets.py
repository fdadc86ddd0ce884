"""Which runs used the same OST at the same time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from forebay.history.store.run_columns import Records
from forebay.model.arrays import Floats, Ints

MOST_PAIRS = 100_000_000
"""Pairs of runs on an OST that are looked at, the newest."""
_AT_ONCE = 2_000_000
_OST_BITS = 16


@dataclass(frozen=True, slots=True)
class Pairs:
    """Two runs on one target in each row: indices of runs, and the bytes that each moved there."""

    first: Ints
    second: Ints
    target: Ints
    bytes_of_first: Ints
    bytes_of_second: Ints


class SharedTargets:
    """Runs by target and start. `runs` are indices of runs, `targets` file systems with an OST's number in the lower
    bits. If there are more than `most` pairs, only those of the newest runs count, from `since` on."""

    def __init__(self, starts: Floats, ends: Floats, runs: Ints, shares: Records, most: int = MOST_PAIRS) -> None:
        filesystem: Ints = shares["filesystem_id"]
        ost: Ints = shares["ost"]
        targets = (filesystem << _OST_BITS) + ost
        order = np.lexsort((runs, starts[runs], targets))
        self.runs, self.targets, self._bytes = runs[order], targets[order], shares["total_bytes"][order]
        begin, end = starts[self.runs], ends[self.runs]
        low = float(begin.min(initial=np.inf))
        span = float(end.max(initial=0.0)) - low + 1.0
        places = np.unique(self.targets, return_inverse=True)[1] * span
        last = np.searchsorted(places + begin - low, places + end - low, side="left")
        self._counts = np.maximum(last - np.arange(self.runs.size) - 1, 0)
        self.since: float | None = None
        if self._counts.sum() > most:
            newest = np.argsort(-begin, kind="stable")
            kept = newest[: int(np.searchsorted(np.cumsum(self._counts[newest]), most))]
            old = np.ones(self.runs.size, dtype=bool)
            old[kept] = False
            self._counts[old] = 0
            self.since = float(begin[kept].min()) if kept.size else None

    def pairs(self) -> Iterator[Pairs]:
        """All pairs that overlap, some at a time."""
        done = np.cumsum(self._counts)
        first = 0
        while first < self.runs.size:
            before = int(done[first - 1]) if first else 0
            last = max(int(np.searchsorted(done, before + _AT_ONCE)), first + 1)
            counts = self._counts[first:last]
            early = np.repeat(np.arange(first, first + counts.size), counts)
            late = early + 1 + np.arange(early.size) - np.repeat(np.cumsum(counts) - counts, counts)
            yield Pairs(self.runs[early], self.runs[late], self.targets[early], self._bytes[early], self._bytes[late])
            first = last


def split_target(target: int) -> tuple[int, int]:
    """The id of the file system, and the number of the OST."""
    return target >> _OST_BITS, target & ((1 << _OST_BITS) - 1)
