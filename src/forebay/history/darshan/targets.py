"""Which OSTs a run's bytes went to, and how long they took there.

Layouts are kept as flat arrays, some 60 bytes a file: a log can have millions of files.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.history.darshan.log import Component, Striped
from forebay.history.darshan.slowness import TELLING_BYTES, relative_to_median

Ints = NDArray[np.int64]
_COLUMNS = ("ost", "files", "total_bytes", "io_time", "alone_files", "alone_bytes", "alone_time")


class Layouts:
    """The layouts of files, by number; `widest` has size, count, first OST and pool of each one's widest component."""

    def __init__(self, layouts: Iterable[Striped]) -> None:
        self.pools: list[str] = [""]
        files, widest = array("Q"), array("q")
        self._first, self._components, self._osts = array("q", [0]), array("q"), array("q")
        self.most_components = 0
        for layout in layouts:
            files.append(layout.file)
            size, own = _widest(layout.components)
            widest.extend((size, len(own), own[0] if own else -1, self._pool(layout.pool)))
            for component in layout.components:
                self._components.extend((component.size, component.begin, component.end, len(self._osts)))
                self._osts.extend(component.osts)
            self._first.append(len(self._components) // 4)
            self.most_components = max(self.most_components, len(layout.components))
        self.files = np.frombuffer(files, dtype=np.uint64) if files else np.zeros(0, dtype=np.uint64)
        self.widest: Ints = np.array(widest, dtype=np.int64).reshape(-1, 4)
        self.osts: Ints = np.unique(np.array(self._osts, dtype=np.int64))

    def _pool(self, name: str) -> int:
        if name not in self.pools:
            self.pools.append(name)
        return self.pools.index(name)

    def components(self, file: int) -> list[Component]:
        """Those of the file of that number."""
        found = []
        for c in range(self._first[file], self._first[file + 1]):
            size, begin, end, first = self._components[4 * c : 4 * c + 4]
            last = self._components[4 * c + 7] if 4 * c + 7 < len(self._components) else len(self._osts)
            found.append(Component(size, begin, end, tuple(self._osts[first:last])))
        return found

    def only(self) -> Ints:
        """The place in `osts` of each file's only OST; -1 for files on several or none."""
        counts = np.diff(np.array(self._first, dtype=np.int64))
        one = (counts == 1) & (self.widest[:, 1] == 1)
        return np.where(one, np.searchsorted(self.osts, self.widest[:, 2]), -1)


class Targets:
    """What is added up over a run's files while its records stream by."""

    def __init__(self, layouts: Iterable[Striped]) -> None:
        self._layouts = Layouts(layouts)
        self._order = np.argsort(self._layouts.files, kind="stable")
        self._sorted = self._layouts.files[self._order]
        count = self._sorted.size
        self._moved, self._extent = np.zeros((2, count), dtype=np.int64)
        self._seconds = np.zeros(count)

    @property
    def osts(self) -> Ints:
        return self._layouts.osts

    @property
    def most_components(self) -> int:
        return self._layouts.most_components

    def add(self, files: Any, moved: Any, seconds: Any, extent: Any) -> None:
        """Records of files: bytes moved, seconds spent moving them, and the end of each file as far as it was used."""
        if not self._sorted.size:
            return
        place = np.minimum(np.searchsorted(self._sorted, files), self._sorted.size - 1)
        ours = self._sorted[place] == files
        at = self._order[place[ours]]
        np.add.at(self._moved, at, moved[ours])
        np.add.at(self._seconds, at, seconds[ours])
        np.maximum.at(self._extent, at, extent[ours])

    def rows(self) -> list[dict[str, Any]]:
        """Rows of `run_osts`."""
        size = self.osts.size
        files, moved, seconds = np.zeros(size, dtype=np.int64), np.zeros(size), np.zeros(size)
        only = self._layouts.only()
        one = only >= 0
        np.add.at(files, only[one], 1)
        np.add.at(moved, only[one], self._moved[one])
        np.add.at(seconds, only[one], self._seconds[one])
        for i in np.flatnonzero(~one).tolist():
            share = self._shares(self._layouts.components(i), int(self._extent[i]))
            files += share >= 0
            moved += np.maximum(share, 0) * self._moved[i]
            seconds += np.maximum(share, 0) * self._seconds[i]
        alone = self._alone(only)
        slow = relative_to_median({i: (alone[1][i], alone[2][i]) for i in range(size)})
        columns = (self.osts, files, moved.round().astype(np.int64), seconds, *alone)
        return [
            dict(zip(_COLUMNS, values, strict=True)) | {"slowness": slow.get(i)}
            for i, values in enumerate(zip(*(column.tolist() for column in columns), strict=True))
        ]

    def _alone(self, only: Ints) -> tuple[NDArray[Any], ...]:
        """Files that lie on one OST only and are large enough to tell: how many, their bytes and seconds, per OST."""
        telling = (only >= 0) & (self._moved >= TELLING_BYTES)
        files, moved = np.zeros((2, self.osts.size), dtype=np.int64)
        seconds = np.zeros(self.osts.size)
        np.add.at(files, only[telling], 1)
        np.add.at(moved, only[telling], self._moved[telling])
        np.add.at(seconds, only[telling], self._seconds[telling])
        return files, moved, seconds

    def _shares(self, components: list[Component], extent: int) -> NDArray[np.float64]:
        """The part of a file's bytes on each OST, as if all of it up to `extent` had been moved once; -1 if none."""
        held = np.full(self.osts.size, -1.0)
        for size, begin, end, own in components:
            places = np.searchsorted(self.osts, own)
            held[places] = np.maximum(held[places], 0)
            length = (extent if end < 0 else min(extent, end)) - begin
            if length > 0 and own and size > 0:
                rounds, rest = divmod(length, size * len(own))
                last = np.clip(rest - size * np.arange(len(own)), 0, size)
                np.add.at(held, places, rounds * size + last)
        on = held >= 0
        total = held[on].sum()
        return np.where(on, held / total if total else 1 / max(on.sum(), 1), -1.0)

    def main_layout(self) -> tuple[int, int, int, str] | None:
        """Stripe size, stripes and pool of the layout that holds most bytes (most files, if no bytes are
        known), and the first OST of the file that holds most: (size, count, first, pool)."""
        laid = self._layouts.widest[:, 1] > 0
        if not laid.any():
            return None
        widest, moved = self._layouts.widest[laid], self._moved[laid]
        kinds, of = np.unique(widest[:, [0, 1, 3]], axis=0, return_inverse=True)
        held = np.bincount(of.ravel(), weights=moved if moved.any() else None)
        best = len(kinds) - 1 - int(np.argmax(held[::-1]))
        size, count, pool = kinds[best].tolist()
        return size, count, int(widest[np.argmax(moved), 2]), self._layouts.pools[pool]


def _widest(components: Iterable[Component]) -> tuple[int, tuple[int, ...]]:
    """Of a progressive layout the component over most OSTs, the later one of equals."""
    best: tuple[int, tuple[int, ...]] = (0, ())
    for component in components:
        if len(component.osts) >= len(best[1]):
            best = (component.size, component.osts)
    return best
