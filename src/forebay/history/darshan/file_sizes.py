"""The sizes of the files in one log, which can have several records of the same file."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.model.file_sizes import SizeClass

_FILE = np.dtype([("id", "u8"), ("shared", "?"), ("size", "i8")])
_AT_ONCE = 1 << 19  # records to keep before those of equal files are merged


class FileSizeCount:
    """Counts files by size. A file is as large as the highest offset that any process used."""

    def __init__(self) -> None:
        self._parts: list[NDArray[np.void]] = []
        self._kept = self._limit = 0

    def add(self, ids: Any, shared: Any, sizes: Any) -> None:
        """Add records: the files' ids, whether all processes used them, and the bytes up to the highest offset."""
        if not len(ids):
            return
        part = np.zeros(len(ids), dtype=_FILE)
        part["id"], part["shared"], part["size"] = ids, shared, sizes
        self._parts.append(part)
        self._kept += len(part)
        if self._kept > max(_AT_ONCE, self._limit):
            self._parts = [_merge(self._parts)]
            self._kept = len(self._parts[0])
            self._limit = 2 * self._kept  # so that many different files are not merged again and again

    def classes(self, shared_ids: Any) -> list[SizeClass]:
        """Return the number of files by size. Files with one of `shared_ids` are shared, whatever their records say."""
        files = _merge(self._parts) if self._parts else np.zeros(0, dtype=_FILE)
        shared = files["shared"] | np.isin(files["id"], shared_ids)
        doubling = np.frexp(files["size"].astype(float))[1]
        classes = []
        for key in np.unique(2 * doubling + shared).tolist():
            chosen = files["size"][(doubling == key // 2) & (shared == key % 2)]
            below = 1 << key // 2
            classes.append(SizeClass(below=below, shared=bool(key % 2), files=chosen.size, bytes=int(chosen.sum())))
        return classes


def _merge(parts: list[NDArray[np.void]]) -> NDArray[np.void]:
    """Return one record for each file; a file with several is shared."""
    records = np.concatenate(parts)
    records = records[np.argsort(records["id"], kind="stable")]
    first = np.flatnonzero(np.append(True, records["id"][1:] != records["id"][:-1]))
    if first.size == len(records):
        return records
    files = records[first]
    files["size"] = np.maximum.reduceat(records["size"], first)
    several = np.diff(np.append(first, len(records))) > 1
    files["shared"] = np.logical_or.reduceat(records["shared"], first) | several
    return files
