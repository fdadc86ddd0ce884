"""Which files I/O nodes have open, so that a file without a name exists until all have closed it."""

from collections import Counter
from collections.abc import Iterable


class OpenFileTable:
    """Counts the opens of each file at each I/O node.

    An I/O node reports how many of its opens have ended, not that a file is closed. So a report that crosses an answer
    to another open on the way does not close that one.
    """

    def __init__(self) -> None:
        self._opens: dict[str, Counter[int]] = {}
        self._users: Counter[int] = Counter()  # I/O nodes that have each file open

    def is_open(self, file: int) -> bool:
        return file in self._users

    def open(self, node: str, file: int) -> None:
        opens = self._opens.setdefault(node, Counter())
        if not opens[file]:
            self._users[file] += 1
        opens[file] += 1

    def close(self, node: str, files: Iterable[tuple[int, int]]) -> list[int]:
        """Forget some opens; return the files that no I/O node has open any more."""
        opens = self._opens.get(node, Counter())
        closed = []
        for file, count in files:
            if file in opens:
                opens[file] -= count
                if opens[file] <= 0:
                    del opens[file]
                    closed += self._leave(file)
        return closed

    def replace(self, node: str, files: Iterable[tuple[int, int]]) -> list[int]:
        """Set all files that an I/O node has open; return those that no I/O node has open any more."""
        before = self._opens.pop(node, Counter())
        now = Counter(dict(files))
        if now:
            self._opens[node] = now
        for file in now:
            self._users[file] += 1
        return [closed for file in before for closed in self._leave(file)]

    def _leave(self, file: int) -> list[int]:
        self._users[file] -= 1
        if self._users[file]:
            return []
        del self._users[file]
        return [file]
