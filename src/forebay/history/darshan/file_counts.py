"""How many files a log is about: those of POSIX and of STDIO are often the same, and each process may have a record."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint64]
Ranks = NDArray[np.int64]


class FileCounts:
    """Collects the files of each module, and the processes that used them."""

    def __init__(self) -> None:
        self._ids: dict[str, list[Ids]] = {}
        self._ranks: dict[str, list[Ranks]] = {}

    def add(self, name: str, chunk: Any) -> None:
        self._ids.setdefault(name, []).append(chunk["id"].copy())
        self._ranks.setdefault(name, []).append(chunk["rank"].copy())

    def count(self, modules: Iterable[str]) -> tuple[int, int]:
        """The number of files in these modules together, and of those that several processes used."""
        known = [name for name in modules if name in self._ids]
        if not known:
            return 0, 0
        ids = np.concatenate([part for name in known for part in self._ids[name]])
        ranks = np.concatenate([part for name in known for part in self._ranks[name]])
        files, of = np.unique(ids, return_inverse=True)
        least, most = np.full(files.size, np.iinfo(np.int64).max), np.full(files.size, -1)
        np.minimum.at(least, of, ranks)
        np.maximum.at(most, of, ranks)
        return files.size, int(((least < 0) | (least < most)).sum())

    def list_ids(self, name: str) -> list[int]:
        """The files of a module."""
        files: list[int] = np.unique(np.concatenate(self._ids.get(name, [np.zeros(0, np.uint64)]))).tolist()
        return files
