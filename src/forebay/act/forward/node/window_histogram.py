"""How long windows really were, as an I/O node saw them pass."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from forebay.decide.order.words import WINDOW, WINDOW_BEGIN

BOUNDS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0)
"""Of real length over what was set."""


class Windows:
    """Counts of real lengths; `counts[i]` are those up to BOUNDS[i], the last one all above."""

    def __init__(self, words: memoryview) -> None:
        """`words` is the queue's array."""
        self._words: Any = words
        self._begin = self._entered = 0
        self._awaited = False
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0
        self.recent: list[float] = []

    def seen(self, now: int, awaited: bool) -> None:
        """The scheduler was asked now; `awaited` says whether something had waited for the window to come.

        A window's length is from when it was entered to when the next one was; where a node had nothing to do, or
        could send nothing more, nobody knows when it would have gone from one to the other.
        """
        begin = self._words[WINDOW_BEGIN]
        if begin == self._begin:
            return
        window = self._words[WINDOW]
        if awaited and self._awaited and begin - self._begin == window:
            self._count((now - self._entered) / window)
        self._begin, self._entered, self._awaited = begin, now, awaited

    def _count(self, share: float) -> None:
        self.counts[bisect_left(BOUNDS, share)] += 1
        self.sum += share
        if len(self.recent) >= _KEPT:
            self.recent.clear()
        self.recent.append(share)


_KEPT = 100_000
