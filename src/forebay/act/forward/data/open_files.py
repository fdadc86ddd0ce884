"""Which files I/O nodes have open, so that a file without a name exists until all have closed it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from time import monotonic


class OpenFileTable:
    """Counts the opens of each file at each I/O node, and knows which mounts may write it.

    An I/O node reports how many of its opens have ended, not that a file is closed. So a report that crosses an answer
    to another open on the way does not close that one.
    """

    def __init__(self, known_at: float = 0.0, clock: Callable[[], float] = monotonic) -> None:
        """Until `known_at`, I/O nodes may have files open that they have not reported yet."""
        self._known_at, self._clock = known_at, clock
        self._opens: dict[str, Counter[int]] = {}
        self._users: Counter[int] = Counter()  # I/O nodes that have each file open
        self._writers: dict[int, dict[str, set[int]]] = {}  # by file and I/O node

    def is_open(self, file: int) -> bool:
        return file in self._users

    def may_be_open(self, file: int) -> bool:
        return file in self._users or not self.is_complete()

    def is_complete(self) -> bool:
        """Whether all I/O nodes have had time to report what they have open."""
        return self._clock() >= self._known_at

    def writers(self, file: int) -> Collection[int]:
        """The mounts that may have the file open to write; 0 stands for any other client."""
        by_node = self._writers.get(file)
        return set().union(*by_node.values()) if by_node else ()

    def open(self, node: str, file: int, writer: int | None = 0) -> None:
        """Note an open; `writer` is the mount that may write, None if nobody does."""
        opens = self._opens.setdefault(node, Counter())
        if not opens[file]:
            self._users[file] += 1
        opens[file] += 1
        if writer is not None:
            self._writers.setdefault(file, {}).setdefault(node, set()).add(writer)

    def close(self, node: str, files: Iterable[tuple[int, int]]) -> list[int]:
        """Forget some opens; return the files that no I/O node has open any more."""
        opens = self._opens.get(node, Counter())
        closed = []
        for file, count in files:
            if file in opens:
                opens[file] -= count
                if opens[file] <= 0:
                    del opens[file]
                    closed += self._leave(node, file)
        return closed

    def replace(self, node: str, files: Iterable[tuple[int, int]]) -> list[int]:
        """Set all files that an I/O node has open; return those that no I/O node has open any more."""
        before = self._opens.pop(node, Counter())
        now = Counter(dict(files))
        if now:
            self._opens[node] = now
        for file in now:
            self._users[file] += 1
            self._writers.setdefault(file, {}).setdefault(node, set()).add(0)
        return [closed for file in before for closed in self._leave(node, file)]

    def add(self, node: str, files: Iterable[tuple[int, int]]) -> None:
        """Note opens that an I/O node has had before this table knew the files; it may write them."""
        for file, count in files:
            for _ in range(count):
                self.open(node, file)

    def forget(self, files: Iterable[int]) -> None:
        """Forget files that another server takes care of."""
        for file in files:
            if self._users.pop(file, 0):
                self._writers.pop(file, None)
                for opens in self._opens.values():
                    opens.pop(file, None)

    def _leave(self, node: str, file: int) -> list[int]:
        by_node = self._writers.get(file)
        if by_node is not None and file not in self._opens.get(node, ()):
            by_node.pop(node, None)
            if not by_node:
                del self._writers[file]
        self._users[file] -= 1
        if self._users[file]:
            return []
        del self._users[file]
        return [file]
