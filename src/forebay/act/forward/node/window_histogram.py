"""A histogram of the real lengths of the scheduler's windows at an I/O node."""

from bisect import bisect_left

from forebay.decide.order.queue_layout import WINDOW, WINDOW_BEGIN

BOUNDS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0)
"""Upper bounds of the bins: real length over the length that was set."""


class WindowHistogram:
    """`counts[i]` is the number of windows up to BOUNDS[i]; the last entry counts all longer ones."""

    def __init__(self, queue: memoryview) -> None:
        """`queue` is the scheduler's array."""
        self._queue = queue
        self._begin = self._entered = 0
        self._awaited = False
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0

    def observe(self, now: int, awaited: bool) -> None:
        """Measure the last window, if the scheduler entered another one at `now`.

        A window lasts until the node enters the next one. `awaited` says whether a request waited for the new window.
        If none did, the real end of a window is unknown, and it does not count.
        """
        begin = self._queue[WINDOW_BEGIN]
        if begin == self._begin:
            return
        window = self._queue[WINDOW]
        if awaited and self._awaited and begin - self._begin == window:
            self.add((now - self._entered) / window)
        self._begin, self._entered, self._awaited = begin, now, awaited

    def add(self, share: float) -> None:
        self.counts[bisect_left(BOUNDS, share)] += 1
        self.sum += share
