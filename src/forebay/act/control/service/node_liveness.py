"""When a storage node is silent: its agent has called no instance of the service for a time."""

import time
from collections.abc import Callable, Iterable, Mapping


class NodeLiveness:
    """Finds agents that have called no instance of the service for `after` seconds.

    It compares only durations by this machine's monotonic clock. The stamps of other instances are never compared with
    a clock: a stamp has changed or has not.
    """

    def __init__(self, after: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._after, self._clock = after, clock
        self._last: dict[str, float] = {}
        self._stamps: dict[str, float] = {}
        self._new: dict[str, float] = {}

    def begin(self, nodes: Iterable[str]) -> None:
        """Give the nodes that were known before this instance started time to call."""
        self._last.update(dict.fromkeys(nodes, self._clock()))

    def note_call(self, node: str, stamp: float) -> None:
        """Note that an agent called this instance; other instances see `stamp` (seconds since 1970)."""
        self._last[node] = self._clock()
        self._new[node] = self._stamps[node] = stamp

    def take_new_stamps(self) -> dict[str, float]:
        """The stamps since the last call of this method."""
        new, self._new = self._new, {}
        return new

    def merge_stamps(self, stamps: Mapping[str, float]) -> None:
        """Take over the stamps of all instances."""
        for node, stamp in stamps.items():
            if self._stamps.get(node) != stamp and node not in self._new:
                self._stamps[node] = stamp
                self._last[node] = self._clock()

    def seconds_since_call(self, node: str) -> float:
        """Seconds since the node's agent last called; 0 for a new node."""
        now = self._clock()
        return now - self._last.get(node, now)

    def find_silent(self, nodes: Iterable[str]) -> list[str]:
        now = self._clock()
        return [node for node in nodes if now - self._last.setdefault(node, now) > self._after]
