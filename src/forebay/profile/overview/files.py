"""The files of a run: which are the largest and the slowest, what they were used for, and where they are."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forebay.history.darshan.file_records import FileRecords, Uses
from forebay.history.darshan.file_systems import find_links
from forebay.model.arrays import Floats

Mounts = NDArray[np.int16]
SHOWN = 15
"""Files in each order."""
ORDERS = ("largest", "slowest", "most opened")
_NOWHERE = "other"
Span = tuple[float, float]
"""Begin and end, in seconds of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file. The elements of tuples are of reads and of writes; `seconds` are those of all processes, `spans` when
    the first request began and the last one ended. `processes` and `stripes` are None if unknown."""

    name: str
    moved: tuple[int, int]
    requests: tuple[int, int]
    seconds: tuple[float, float]
    meta_seconds: float
    opens: int
    processes: int | None
    stripes: int | None
    spans: tuple[Span | None, Span | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files with something in common: their number, the bytes read and written, and the size of the largest."""

    name: str
    count: int
    moved: tuple[int, int]
    largest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOverview:
    """`orders` has the first files in each of `ORDERS`, `uses` the groups of files read, written or both, `mounts`
    those on each file system."""

    count: int
    orders: dict[str, list[File]]
    uses: list[FileGroup]
    mounts: list[FileGroup]


class _Table:
    """Sums over the records of each file."""

    def __init__(self, records: FileRecords) -> None:
        self._kinds = [uses for uses in (records.posix, records.stdio, records.dfs) if uses.size]
        self.ids, self._of = np.unique(self._column("id", np.uint64), return_inverse=True)
        self._nprocs = records.job.nprocs

    def _column(self, name: str, kind: type = float) -> NDArray[np.generic]:
        if not self._kinds:
            return np.zeros(0, dtype=kind)
        return np.concatenate([uses[name] for uses in self._kinds])

    def sums(self, name: str, operation: int | None = None) -> Floats:
        column: list[NDArray[np.number]] = [
            uses[name] if operation is None else uses[name][:, operation] for uses in self._kinds
        ]
        if not column:
            return np.zeros(0)
        return np.bincount(self._of, weights=np.concatenate(column), minlength=self.ids.size).astype(float)

    def most(self, name: str) -> Floats:
        """The largest value of each file, over reads and writes."""
        most = np.zeros(self.ids.size)
        if self._kinds:
            np.maximum.at(most, self._of, np.concatenate([uses[name].max(axis=1) for uses in self._kinds]))
        return most

    def records_of(self, file: np.uint64) -> Uses:
        ids: list[NDArray[np.uint64]] = [uses["id"] for uses in self._kinds]
        return np.concatenate([uses[numbers == file] for uses, numbers in zip(self._kinds, ids, strict=True)])


def describe_files(records: FileRecords) -> FileOverview:
    table = _Table(records)
    read, written = (table.sums("bytes", operation) for operation in (0, 1))
    seconds = table.sums("seconds", 0) + table.sums("seconds", 1) + table.sums("meta_seconds")
    calls = table.sums("opens") + table.sums("stats")
    weights = dict(zip(ORDERS, (read + written, seconds, calls), strict=True))
    first = {order: _first(values) for order, values in weights.items()}
    wanted = {int(table.ids[i]) for places in first.values() for i in places}
    names, mount_of = _read_names(records, wanted, table.ids)
    stripes = {layout.file: max((c.stripes for c in layout.components), default=0) for layout in records.layouts}
    files = {
        i: _describe_file(table, i, names, stripes, records.job.nprocs) for i in {i for p in first.values() for i in p}
    }
    extents = table.most("extent")
    return FileOverview(
        count=table.ids.size,
        orders={order: [files[i] for i in places] for order, places in first.items()},
        uses=_group_by_use(read, written, extents),
        mounts=_group_by_mount(records, mount_of, read, written, extents),
    )


def _first(values: Floats) -> list[int]:
    most = np.argsort(-values, kind="stable")[:SHOWN]
    return [int(i) for i in most if values[i] > 0]


def _describe_file(table: _Table, place: int, names: dict[int, str], stripes: dict[int, int], nprocs: int) -> File:
    file = table.ids[place]
    records = table.records_of(file)
    ranks = np.unique(records["rank"])
    return File(
        name=names.get(int(file)) or f"file {file}",
        moved=_pair(records["bytes"].sum(axis=0), int),
        requests=_pair(records["requests"].sum(axis=0), int),
        seconds=_pair(records["seconds"].astype(float).sum(axis=0), float),
        meta_seconds=float(records["meta_seconds"].astype(float).sum()),
        opens=int(records["opens"].sum()),
        processes=nprocs if (ranks < 0).any() else int(ranks.size),
        stripes=stripes.get(int(file)) or None,
        spans=(_span(records, 0), _span(records, 1)),
    )


def _pair(values: NDArray[np.generic], kind: type) -> tuple:  # type: ignore[type-arg]
    return kind(values[0]), kind(values[1])


def _span(records: Uses, operation: int) -> Span | None:
    used = records[records["requests"][:, operation] > 0]
    begin, end = used["begin"][:, operation], used["end"][:, operation]
    timed = (end > 0) & (end >= begin)
    return (float(begin[timed].min()), float(end[timed].max())) if timed.any() else None


def _read_names(records: FileRecords, wanted: set[int], ids: NDArray[np.uint64]) -> tuple[dict[int, str], Mounts]:
    """The names of the wanted files, and the index of each file's mount point in `_mount_points`, -1 for none."""
    mounts = _MountFinder(_mount_points(records), records.mounts)
    mount_of = np.full(ids.size, -1, dtype=np.int16)
    names: dict[int, str] = {}
    named_ids, mount_indices = array("Q"), array("h")  # a log can have millions of files
    for file, name in records.iterate_names():
        if file in wanted:
            names[file] = name.decode("utf-8", "backslashreplace")
        named_ids.append(file)
        mount_indices.append(mounts.find(name))
    if named_ids and ids.size:
        named = np.frombuffer(named_ids, dtype=np.uint64)
        place = np.minimum(np.searchsorted(ids, named), ids.size - 1)
        known = ids[place] == named
        mount_of[place[known]] = np.frombuffer(mount_indices, dtype=np.int16)[known]
    return names, mount_of


def _mount_points(records: FileRecords) -> list[str]:
    return sorted(records.mounts, key=len, reverse=True)


class _MountFinder:
    """Finds the mount point of a file's name, and remembers it for the names with the same first folders."""

    def __init__(self, points: Sequence[str], kinds: Mapping[str, str]) -> None:
        self._points = [f"{point.rstrip('/')}/".encode() for point in points]
        self._depth = max((point.count(b"/") for point in self._points), default=1) + 1
        is_lustre = [kinds[point].startswith("lustre") for point in points]
        self._lustre = {number for number, lustre in enumerate(is_lustre) if lustre}
        self._links = find_links([point if lustre else "" for point, lustre in zip(points, is_lustre, strict=True)])
        self._known: dict[bytes, int] = {}

    def find(self, name: bytes) -> int:
        """The index of the mount point; -1 for none."""
        folders = b"/".join(name.split(b"/", self._depth)[: self._depth])
        if folders not in self._known:
            self._known[folders] = self._find_new(folders + b"/")
        return self._known[folders]

    def _find_new(self, folders: bytes) -> int:
        number = next((n for n, point in enumerate(self._points) if folders.startswith(point)), -1)
        if number in self._lustre:
            return number
        return self._links.get(folders[1:].partition(b"/")[0], number)


def _group_by_use(read: Floats, written: Floats, extents: Floats) -> list[FileGroup]:
    kinds = {
        "only read": (read > 0) & (written == 0),
        "only written": (read == 0) & (written > 0),
        "read and written": (read > 0) & (written > 0),
        "no bytes moved": (read == 0) & (written == 0),
    }
    groups = [_group(name, chosen, read, written, extents) for name, chosen in kinds.items()]
    return [group for group in groups if group.count]


def _group_by_mount(
    records: FileRecords, mount_of: Mounts, read: Floats, written: Floats, extents: Floats
) -> list[FileGroup]:
    points = _mount_points(records)
    groups = []
    for number in np.unique(mount_of).tolist():
        name = _NOWHERE if number < 0 else f"{points[number]} ({records.mounts[points[number]]})"
        groups.append(_group(name, mount_of == number, read, written, extents))
    return sorted(groups, key=lambda group: -sum(group.moved))


def _group(name: str, chosen: NDArray[np.bool_], read: Floats, written: Floats, extents: Floats) -> FileGroup:
    return FileGroup(
        name=name,
        count=int(chosen.sum()),
        moved=(int(read[chosen].sum()), int(written[chosen].sum())),
        largest=int(extents[chosen].max(initial=0)),
    )
