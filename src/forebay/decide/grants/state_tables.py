"""The building blocks of the state: tables with undo, and agendas of what is due when."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import Any, Generic, TypeVar

from forebay.model.errors import ForebayError

Row = TypeVar("Row")
Follower = Callable[[str, Row | None, Row | None], None]  # called with a key, its old row and its new one


class BrokenJournal(ForebayError):
    """An event contradicts the events before it."""


class UndoLog:
    """Records the changes of several tables during a trial."""

    def __init__(self) -> None:
        self.changes: list[tuple[Table[Any], str, Any]] | None = None

    @contextmanager
    def trial(self, *, keep: bool) -> Iterator[None]:
        """Undo all changes at the end of the block; with `keep`, only after an error."""
        self.changes = []
        try:
            yield
        except BaseException:
            self._undo()
            raise
        if keep:
            self.changes = None
        else:
            self._undo()

    def _undo(self) -> None:
        changes, self.changes = self.changes or [], None
        for table, key, old in reversed(changes):
            table.set(key, old)


class Table(dict[str, Row], Generic[Row]):
    """Rows of one kind by key. Every change goes through `set`, which records it for undo and calls the follower."""

    def __init__(
        self,
        kind: type[Row],
        undo_log: UndoLog,
        follow: Follower[Row] | None = None,
        next_states: Mapping[Any, frozenset[Any]] | None = None,  # the states that may follow each state of a row
    ) -> None:
        super().__init__()
        self.kind, self._undo_log, self._follow, self._next_states = kind, undo_log, follow, next_states
        if is_dataclass(kind):  # with slots, and without `__post_init__`
            names = [field.name for field in fields(kind)]
            self._read, self._slots = attrgetter(*names), {name: getattr(kind, name).__set__ for name in names}

    def set(self, key: str, row: Row | None) -> None:
        """Replace the row with this key; None removes it."""
        old, changes = self.get(key), self._undo_log.changes
        if changes is not None:
            changes.append((self, key, old))
        if row is None:
            self.pop(key, None)
        else:
            self[key] = row
        if self._follow is not None:
            self._follow(key, old, row)

    def change(self, key: str, **changes: Any) -> Row:
        if not changes:
            return self[key]
        old: Any = self[key]
        state = changes.get("state")
        if state is not None and self._next_states is not None and state not in self._next_states[old.state]:
            what = f"{self.kind.__name__.lower()} {key}"
            raise BrokenJournal(f"{what} is {old.state.value} and cannot become {state.value}")
        row = object.__new__(self.kind)  # `replace` takes three times as long
        for write, value in zip(self._slots.values(), self._read(old), strict=True):
            write(row, value)
        for name, value in changes.items():
            self._slots[name](row, value)
        self.set(key, row)
        return row


class Agenda:
    """Names sorted by time (or any number). A change takes microseconds, even with tens of thousands of names."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, time: float, name: str) -> None:
        insort(self._entries, (time, name))

    def remove(self, time: float, name: str) -> None:
        at = bisect_left(self._entries, (time, name))
        assert self._entries[at] == (time, name)
        del self._entries[at]

    def due(self, now: float) -> list[str]:
        """The names that are due by now, the earliest first."""
        if not self._entries or self._entries[0][0] > now:  # the usual case
            return []
        return [name for _, name in self._entries[: self._first_after(now)]]

    def after(self, time: float) -> list[str]:
        return [name for _, name in self._entries[self._first_after(time) :]]

    def next(self, now: float) -> float | None:
        """The first time after now at which something is due."""
        at = self._first_after(now)
        return self._entries[at][0] if at < len(self._entries) else None

    def rank(self, time: float, name: str) -> int:
        return bisect_left(self._entries, (time, name))

    def _first_after(self, time: float) -> int:
        return bisect_right(self._entries, time, key=lambda entry: entry[0])
