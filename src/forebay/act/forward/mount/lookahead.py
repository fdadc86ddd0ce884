"""Guesses whether programs read the files that they look up, so that the bytes of a small one come with its status."""

import threading

_CREDIT = 8
"""Files of a folder whose bytes may come along and stay unread."""
_MOST = 1 << 14
_MOST_READS = 4096


class Lookahead:
    """Expects reads in a folder once a program has read a file that it has looked up there. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._credit: dict[int, int] = {}  # by folder
        self._alone: dict[int, int] = {}  # by file that came without its bytes: its folder
        self._with_bytes: dict[int, int] = {}  # by file that came with its bytes, until they are read: its folder
        self._reads: list[int] = []

    def expects_read(self, folder: int) -> bool:
        """Whether a program that looks up a file in this folder is likely to read it next."""
        return folder in self._credit

    def note_lookup(self, folder: int, file: int, *, with_bytes: bool) -> None:
        with self._lock:
            _put(self._with_bytes if with_bytes else self._alone, file, folder)
            if with_bytes and folder in self._credit:
                self._credit[folder] -= 1
                if not self._credit[folder]:
                    del self._credit[folder]

    def note_read(self, file: int) -> None:
        """A program reads a file."""
        if file not in self._alone and file not in self._with_bytes:
            return
        with self._lock:
            folder = self._alone.pop(file, None)
            if folder is not None:
                _put(self._credit, folder, _CREDIT)
            folder = self._with_bytes.pop(file, None)
            if folder is not None:
                _put(self._credit, folder, min(self._credit.get(folder, 0) + 1, _CREDIT))
                if len(self._reads) < _MOST_READS:
                    self._reads.append(file)

    def take_reads(self) -> list[int]:
        """Return the files that were read since the last call, and of which the layer does not know it."""
        with self._lock:
            reads, self._reads = self._reads, []
            return reads


def _put(table: dict[int, int], key: int, value: int) -> None:
    if len(table) >= _MOST:
        table.clear()
    table[key] = value
