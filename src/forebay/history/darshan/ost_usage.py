"""The OSTs of a run: the bytes moved on each, and the time that this took.

Each file system numbers its own OSTs, so an OST is identified by file system and number. The file system follows from
the file's name and the mounts. Layouts are flat arrays of about 60 bytes per file: a log can have millions of files.
"""

from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.history.darshan.file_systems import NONE, FileSystems
from forebay.history.darshan.log import counter_columns
from forebay.history.darshan.log_format import FileLayout
from forebay.history.darshan.ost_slowness import slowness
from forebay.model.arrays import Bools, Ints

_FIELDS = 5  # of a component: size, begin, end, the index of its first OST, and the number of OSTs
_OST_BITS = 16  # of a number in `osts`; the index of the file system is above
_COLUMNS = (
    *("filesystem", "ost", "files", "total_bytes", "io_time"),
    *("alone_files", "alone_bytes", "alone_time", "slowness"),
)
MOST_LISTED = 20_000
"""The most files on OSTs that are listed; a file counts once for each of its OSTs."""
COMPARABLE_BYTES = 1 << 20
"""With fewer bytes, the time of a file shows latency rather than the speed of its OST."""


class Layouts:
    """The layouts of files. `widest` has size, count, first OST, pool and file system of each file's widest component.
    `osts` are all OSTs in use, each as the index of its file system with the OST's number in the lower 16 bits."""

    def __init__(self, layouts: Iterable[FileLayout], systems: FileSystems) -> None:
        self.pools: list[str] = [""]
        self.most_components = 0
        files, widest, counts = array("Q"), array("q"), array("q")
        self._first, self._components, self._osts = array("q", [0]), array("q"), array("q")
        for layout in layouts:
            files.append(layout.file)
            widest.extend((*_widest_component(layout), self._pool(layout.pool)))
            at = len(self._osts)
            for size, begin, end, stripes in layout.components:
                self._components.extend((size, begin, end, at, stripes))
                at += stripes
            self._osts += layout.osts
            counts.append(len(layout.osts))
            self._first.append(len(self._components) // _FIELDS)
            self.most_components = max(self.most_components, len(layout.components))
        self.files = np.frombuffer(files, dtype=np.uint64) if files else np.zeros(0, dtype=np.uint64)
        of = systems.of(self.files)
        self.widest: Ints = np.column_stack((np.array(widest, dtype=np.int64).reshape(-1, 4), of))
        every = np.array(self._osts, dtype=np.int64)
        every[every >= 0] += np.repeat(of << _OST_BITS, counts)[every >= 0]
        self.osts: Ints = np.unique(every[every >= 0])
        self._places = np.searchsorted(self.osts, every)

    def _pool(self, name: str) -> int:
        if name not in self.pools:
            self.pools.append(name)
        return self.pools.index(name)

    def components(self, file: int) -> list[tuple[int, int, int, Ints]]:
        """Stripe size, begin, end, and the indices of the OSTs in `osts`, of each component of a file."""
        numbers = range(self._first[file], self._first[file + 1])
        return [
            (size, begin, end, self._places[first : first + stripes])
            for size, begin, end, first, stripes in (self._components[_FIELDS * c : _FIELDS * (c + 1)] for c in numbers)
            if stripes and self._osts[first] >= 0  # otherwise it has no objects yet
        ]

    def single_osts(self) -> Ints:
        """The index in `osts` of each file's only OST; -1 for files on several or none."""
        is_single = (np.diff(np.array(self._first, dtype=np.int64)) == 1) & (self.widest[:, 1] == 1)
        first = self.widest[:, 2] + (self.widest[:, 4] << _OST_BITS)
        return np.where(is_single, np.searchsorted(self.osts, first), -1)


class OstUsage:
    """Sums a stream of records by OST."""

    def __init__(self, layouts: Iterable[FileLayout], systems: FileSystems = NONE) -> None:
        self._systems = systems.known
        self._layouts = Layouts(layouts, systems)
        self.osts, self.most_components = self._layouts.osts, self._layouts.most_components
        self._order = np.argsort(self._layouts.files, kind="stable")
        self._sorted = self._layouts.files[self._order]
        count = self._sorted.size
        # Darshan writes a layout for each process that opened the file; records are added to the first one.
        self._is_first = np.zeros(count, dtype=bool)
        self._is_first[self._order[np.append(True, np.diff(self._sorted) != 0)[:count]]] = True
        self._moved, self._extent = np.zeros((2, count), dtype=np.int64)
        self._seconds = np.zeros(count)
        self._columns: dict[str, list[Any]] | None = None

    def add_records(self, name: str, chunk: Any) -> None:
        at = counter_columns(name)
        moved = chunk["counters"][:, [at["BYTES_READ"], at["BYTES_WRITTEN"]]].sum(axis=1)
        seconds = chunk["fcounters"][:, [at["F_READ_TIME"], at["F_WRITE_TIME"]]].sum(axis=1)
        ends = [at[n] for n in ("MAX_BYTE_READ", "MAX_BYTE_WRITTEN") if n in at]
        extent = chunk["counters"][:, ends].max(axis=1) + 1 if ends else moved
        self.add(chunk["id"], moved, seconds, extent)

    def add(self, files: Any, moved: Any, seconds: Any, extent: Any) -> None:
        """Add records of files: bytes moved, seconds spent, and the highest offset used, in bytes."""
        if not self._sorted.size:
            return
        place = np.minimum(np.searchsorted(self._sorted, files), self._sorted.size - 1)
        known = self._sorted[place] == files
        at = self._order[place[known]]
        np.add.at(self._moved, at, moved[known])
        np.add.at(self._seconds, at, seconds[known])
        np.maximum.at(self._extent, at, extent[known])

    def columns(self) -> dict[str, list[Any]]:
        """The columns of `run_osts` without the run's id, after the last record."""
        if self._columns is None:
            self._columns = self._sum_up()
        return self._columns

    def _sum_up(self) -> dict[str, list[Any]]:
        single = self._layouts.single_osts()
        is_single = single >= 0
        files, moved_alone, seconds = self._sum_by_ost(single, is_single & self._is_first)
        moved = moved_alone.astype(float)
        for i in np.flatnonzero(~is_single & self._is_first).tolist():
            self._add_shares(i, files, moved, seconds)
        alone = [column.tolist() for column in self._sum_by_ost(single, self._are_comparable(is_single))]
        systems = [self._systems[number] for number in (self.osts >> _OST_BITS).tolist()]
        slow = slowness(systems, alone[1], alone[2])
        summed = (self.osts & ((1 << _OST_BITS) - 1), files, moved.round().astype(np.int64), seconds)
        columns = [systems, *(column.tolist() for column in summed), *alone, slow]
        return dict(zip(_COLUMNS, columns, strict=True))

    def _are_comparable(self, is_single: Bools) -> Bools:
        """Which files are on one OST alone and large enough to compare."""
        return is_single & (self._moved >= COMPARABLE_BYTES)

    def list_files(self, most: int = MOST_LISTED) -> dict[str, list[list[int]]] | None:
        """The ids behind the columns `files` and `alone_files`; None for more than `most` in all."""
        single = self._layouts.single_osts()
        comparable = self._are_comparable(single >= 0)
        files: list[list[int]] = [[] for _ in range(self.osts.size)]
        alone: list[list[int]] = [[] for _ in range(self.osts.size)]
        count = 0
        for i in np.flatnonzero(self._is_first).tolist():
            if single[i] >= 0:
                osts = [int(single[i])]
            else:
                osts = sorted({ost for *_, places in self._layouts.components(i) for ost in places.tolist()})
            count += len(osts)
            if count > most:
                return None
            for ost in osts:
                files[ost].append(int(self._layouts.files[i]))
            if comparable[i]:
                alone[osts[0]].append(int(self._layouts.files[i]))
        return {"files": files, "alone_files": alone}

    def _add_shares(self, file: int, files: Ints, moved: NDArray[np.float64], seconds: NDArray[np.float64]) -> None:
        """Divide a file on several OSTs among them, in proportion to its bytes on each."""
        components = self._layouts.components(file)
        if len(components) == 1:
            files[components[0][3]] += 1
        elif components:
            files[np.unique(np.concatenate([places for *_, places in components]))] += 1
        if self._moved[file] or self._seconds[file]:
            share = _shares(components, int(self._extent[file]), self.osts.size)
            moved += share * self._moved[file]
            seconds += share * self._seconds[file]

    def _sum_by_ost(self, single: Ints, chosen: NDArray[np.bool_]) -> tuple[Ints, Ints, NDArray[np.float64]]:
        """The number, bytes and seconds of the chosen files, by OST."""
        files, moved = np.zeros((2, self.osts.size), dtype=np.int64)
        seconds = np.zeros(self.osts.size)
        np.add.at(files, single[chosen], 1)
        np.add.at(moved, single[chosen], self._moved[chosen])
        np.add.at(seconds, single[chosen], self._seconds[chosen])
        return files, moved, seconds

    def main_components(self) -> list[dict[str, int]]:
        """The layout of the file with most bytes, if it is a progressive one."""
        laid = np.flatnonzero(self._layouts.widest[:, 1] > 0)
        if not laid.size:
            return []
        parts = self._layouts.components(int(laid[np.argmax(self._moved[laid])]))
        named = ({"stripe_size": s, "stripe_count": len(p), "begin": b, "end": e} for s, b, e, p in parts)
        return list(named) if len(parts) > 1 else []

    def main_layout(self) -> tuple[int, int, int, str, str] | None:
        """(size, count, first, pool, file system) of the layout with most bytes, or with most files if no bytes are
        known. `first` is the first OST of its file with most bytes."""
        laid = self._is_first & (self._layouts.widest[:, 1] > 0)
        if not laid.any():
            return None
        widest, moved = self._layouts.widest[laid], self._moved[laid]
        kinds, of = np.unique(widest[:, [0, 1, 3, 4]], axis=0, return_inverse=True)
        held = np.bincount(of.ravel(), weights=moved if moved.any() else None)
        best = len(kinds) - 1 - int(np.argmax(held[::-1]))
        size, count, pool, system = kinds[best].tolist()
        there = widest[:, 4] == system
        first = int(widest[there][np.argmax(moved[there]), 2])
        return size, count, first, self._layouts.pools[pool], self._systems[system]


def _widest_component(layout: FileLayout) -> tuple[int, int, int]:
    """Size, count and first OST of the component with most OSTs; of equals, the last."""
    best, at = (0, 0, -1), 0
    for size, _, _, stripes in layout.components:
        if stripes >= max(best[1], 1) and layout.osts[at] >= 0:
            best = (size, stripes, layout.osts[at])
        at += stripes
    return best


def _shares(components: list[tuple[int, int, int, Ints]], extent: int, osts: int) -> NDArray[np.float64]:
    """The share of a file's bytes on each OST, assuming that all of it up to `extent` was moved once."""
    held = np.zeros(osts)
    for size, begin, end, places in components:
        length = (extent if end < 0 else min(extent, end)) - begin
        if length > 0 and size > 0:
            rounds, rest = divmod(length, size * len(places))
            last = np.minimum(np.maximum(rest - size * np.arange(len(places)), 0), size)
            np.add.at(held, places, rounds * size + last)
    if not held.any():
        for *_, places in components:
            held[places] = 1
    held /= max(held.sum(), 1)
    return held
