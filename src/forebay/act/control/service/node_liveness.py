"""Which agents have not been heard of for too long, by this instance of the service or another.

Only lengths of time are compared, and only by this machine's own clock that never jumps: what another instance notes
is a stamp that has changed or has not.
"""

import time
from collections.abc import Callable, Iterable, Mapping


class NodeLiveness:
    """`after` so many seconds a node is silent."""

    def __init__(self, after: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._after, self._clock = after, clock
        self._last: dict[str, float] = {}
        self._stamps: dict[str, float] = {}
        self._new: dict[str, float] = {}

    def begin(self, nodes: Iterable[str]) -> None:
        """Those that were there before this instance are given time to come back."""
        self._last.update(dict.fromkeys(nodes, self._clock()))

    def heard(self, node: str, stamp: float) -> None:
        """An agent spoke to this instance; `stamp` (seconds since 1970) is what others see of it."""
        self._last[node] = self._clock()
        self._new[node] = self._stamps[node] = stamp

    def new(self) -> dict[str, float]:
        """The stamps since this was asked last."""
        new, self._new = self._new, {}
        return new

    def learn(self, stamps: Mapping[str, float]) -> None:
        """What all instances noted."""
        for node, stamp in stamps.items():
            if self._stamps.get(node) != stamp and node not in self._new:
                self._stamps[node] = stamp
                self._last[node] = self._clock()

    def since(self, node: str) -> float:
        """Seconds since somebody heard of it; 0 of one that is new."""
        now = self._clock()
        return now - self._last.get(node, now)

    def silent(self, nodes: Iterable[str]) -> list[str]:
        now = self._clock()
        return [node for node in nodes if now - self._last.setdefault(node, now) > self._after]
