"""What is due when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort


class Agenda:
    """Grants in the order of a time (or any number); a few microseconds for tens of thousands."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, time: float, grant: str) -> None:
        insort(self._entries, (time, grant))

    def remove(self, time: float, grant: str) -> None:
        at = bisect_left(self._entries, (time, grant))
        assert self._entries[at] == (time, grant)
        del self._entries[at]

    def due(self, now: float) -> list[str]:
        """What was to happen by now, the earliest first."""
        return [grant for _, grant in self._entries[: bisect_right(self._entries, now, key=lambda entry: entry[0])]]

    def after(self, time: float) -> list[str]:
        """What is to happen later than that."""
        return [grant for _, grant in self._entries[bisect_right(self._entries, time, key=lambda entry: entry[0]) :]]

    def next(self, now: float) -> float | None:
        """When something is due next, later than now."""
        at = bisect_right(self._entries, now, key=lambda entry: entry[0])
        return self._entries[at][0] if at < len(self._entries) else None

    def rank(self, time: float, grant: str) -> int:
        """How many come before."""
        return bisect_left(self._entries, (time, grant))
