"""Advisory locks of files: who holds which range, and who is in whose way. No code here knows connections or time."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from forebay.act.forward.net.payloads import EXCLUSIVE, LAST_BYTE, UNLOCKED


class Lock(NamedTuple):
    """A range of bytes, both ends included, that an owner at a client holds or wants; `process` is for its users.

    Spaces of locks do not conflict with each other. An owner is a process for POSIX locks, an open file for `flock`.
    """

    space: int
    client: int
    owner: int
    kind: int
    begin: int = 0
    end: int = LAST_BYTE
    process: int = 0

    @property
    def holder(self) -> tuple[int, int, int]:
        return self.space, self.client, self.owner

    def overlaps(self, other: "Lock") -> bool:
        return self.begin <= other.end and other.begin <= self.end

    def conflicts_with(self, other: "Lock") -> bool:
        return (
            self.overlaps(other)
            and EXCLUSIVE in (self.kind, other.kind)
            and self.space == other.space
            and self.holder != other.holder
        )


class LockTable:
    """The locks that are held, by file."""

    def __init__(self) -> None:
        self._files: dict[int, list[Lock]] = {}
        self._counts: Counter[int] = Counter()  # locks by client

    def __iter__(self) -> Iterator[tuple[int, Lock]]:
        return ((file, lock) for file, locks in self._files.items() for lock in locks)

    def __len__(self) -> int:
        return self._counts.total()

    def count(self, client: int) -> int:
        """The number of locks of a client."""
        return self._counts[client]

    def kind_of(self, file: int, wanted: Lock) -> int:
        """The kind of lock that the holder of `wanted` has on the file, wherever; UNLOCKED if it has none."""
        return next((lock.kind for lock in self._files.get(file, ()) if lock.holder == wanted.holder), UNLOCKED)

    def find_conflicts(self, file: int, wanted: Lock) -> list[Lock]:
        return [lock for lock in self._files.get(file, ()) if lock.conflicts_with(wanted)]

    def set(self, file: int, new: Lock) -> None:
        """Set what its holder has in this range: a lock of this kind, or none if the kind is UNLOCKED.

        >>> table = LockTable()
        >>> table.set(1, Lock(0, 7, 7, EXCLUSIVE, 0, 9))
        >>> table.set(1, Lock(0, 7, 7, UNLOCKED, 4, 5))
        >>> [(lock.begin, lock.end) for _, lock in table]
        [(0, 3), (6, 9)]
        """
        before = self._files.get(file, [])
        after = [lock for lock in before if lock.holder != new.holder]
        for lock in before:
            if lock.holder != new.holder:
                continue
            if lock.kind == new.kind and lock.begin <= new.end + 1 and new.begin <= lock.end + 1:
                new = new._replace(begin=min(lock.begin, new.begin), end=max(lock.end, new.end))
            elif lock.overlaps(new):
                after += _cut(lock, new.begin, new.end)
            else:
                after.append(lock)
        if new.kind != UNLOCKED:
            after.append(new)
        self._replace(file, before, after)

    def drop_client(self, client: int) -> list[int]:
        """Release everything that a client holds; return the files."""
        files = [file for file, locks in self._files.items() if any(lock.client == client for lock in locks)]
        for file in files:
            before = self._files[file]
            self._replace(file, before, [lock for lock in before if lock.client != client])
        return files

    def _replace(self, file: int, before: list[Lock], after: list[Lock]) -> None:
        self._counts.update(lock.client for lock in after)
        self._counts.subtract(lock.client for lock in before)
        for client in {lock.client for lock in before if not self._counts[lock.client]}:
            del self._counts[client]
        if after:
            self._files[file] = after
        else:
            self._files.pop(file, None)


def _cut(lock: Lock, begin: int, end: int) -> Iterator[Lock]:
    """What is left of a lock outside a range."""
    if lock.begin < begin:
        yield lock._replace(end=begin - 1)
    if lock.end > end:
        yield lock._replace(begin=end + 1)


def would_deadlock(wanted: Lock, blockers: Iterable[Lock], waits: dict[tuple[int, int, int], list[Lock]]) -> bool:
    """Whether an owner of those that block `wanted` waits for its holder; `waits` says by whom each is blocked."""
    seen = set()
    following = [lock.holder for lock in blockers]
    while following:
        holder = following.pop()
        if holder == wanted.holder:
            return True
        if holder not in seen:
            seen.add(holder)
            following += (lock.holder for lock in waits.get(holder, ()))
    return False
