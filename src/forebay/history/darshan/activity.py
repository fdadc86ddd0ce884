"""How many bytes the processes of a run moved at what time, from the heat maps of its log or its traces of requests.

Both can be large, so they are reduced while they are read: to `COLUMNS` equal parts of the run, and to at most `ROWS`
groups of processes.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forebay.history.darshan.log import Job
from forebay.history.darshan.log_format import Module, Sections, UnreadableLog
from forebay.model.arrays import Floats

COLUMNS, ROWS = 120, 48
MOST_TRACED = 20_000_000
"""The most traced requests that are read."""
_MOST_BINS = 1 << 20
_CALLS_OF_MPIIO = 3668870418325792824  # the heat map of MPI-IO calls, which are not requests to the file system
_COUNTED_TWICE = (_CALLS_OF_MPIIO, 4131494093108637317)  # and that of DAOS objects, which DFS calls use
_SEGMENT = [("offset", "i8"), ("length", "i8"), ("begin", "f8"), ("end", "f8")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Bytes by time. The first dimension of both arrays is the operation: reads, then writes.

    `moved` has a row for each group of processes and a column for each part of `duration`, in seconds; `by_process`
    has a column for each process. `module` is the source, which shows nothing shorter than `resolution`, in seconds.
    `nodes` is None if unknown. `complete` is false if there are more records than were read.
    """

    module: str
    duration: float
    resolution: float
    moved: Floats
    by_process: Floats
    nodes: int | None = None
    complete: bool = True


def active_ranks(sections: Sections, module: Module) -> set[int]:
    """The ranks of the processes that moved any bytes, according to the heat maps."""
    head = _heat_head(sections)
    ranks: set[int] = set()
    for record in sections.records_of_any_length(module, _heat_tail(head)):
        kind, rank, _, _ = head.unpack_from(record)
        if kind != _CALLS_OF_MPIIO and any(record[48:]):
            ranks.add(rank)
    return ranks


def read_activity(sections: Sections, modules: dict[str, Module], job: Job) -> Activity | None:
    """None if the log has neither heat maps nor traces, or if they show no bytes."""
    for name, read in (("HEATMAP", _read_heat), ("DXT_POSIX", _read_traces), ("DXT_MPIIO", _read_traces)):
        if name not in modules:
            continue
        try:
            activity = read(sections, modules[name], job)
        except UnreadableLog:  # the log is readable without them
            continue
        if activity.moved.any():
            return activity
    return None


def combine_activities(parts: Sequence[tuple[float, Activity | None]], duration: float) -> Activity | None:
    """The activity of a run of several processes, from that of each and from when it began, by rank; None if no process
    has any."""
    known = [(rank, begin, activity) for rank, (begin, activity) in enumerate(parts) if activity is not None]
    if not known:
        return None
    grid = _Grid(duration, len(parts))
    for rank, begin, activity in known:
        grid.by_process[:, rank] += activity.by_process.sum(axis=1)
        width = activity.duration / activity.moved.shape[2]
        grid.add_bins(grid.row(rank), width, activity.moved.sum(axis=1), begin)
    sources = {activity.module for _, _, activity in known}
    return Activity(
        module=min(sources, key="HEATMAP".__ne__),
        duration=grid.duration,
        resolution=max([grid.part, *(activity.resolution for _, _, activity in known)]),
        moved=grid.moved,
        by_process=grid.by_process,
        complete=all(activity.complete for _, _, activity in known),
    )


class _Grid:
    """Adds bytes to processes and parts of the run."""

    def __init__(self, duration: float, nprocs: int) -> None:
        self.duration = duration or 1.0
        self.part = self.duration / COLUMNS
        self._nprocs, self._rows = nprocs, min(nprocs, ROWS)
        self.edges = np.linspace(0, self.duration, COLUMNS + 1)
        self.moved = np.zeros((2, self._rows, COLUMNS))
        self.by_process = np.zeros((2, nprocs))

    def row(self, rank: int) -> int:
        return rank * self._rows // self._nprocs

    def has(self, rank: int) -> bool:
        return 0 <= rank < self._nprocs

    def add_bins(self, row: int, width: float, bins: Floats, begin: float = 0.0) -> None:
        """Add bins of `width` seconds, for reads and writes, to a row; the first one begins at `begin`."""
        times = begin + width * np.arange(bins.shape[1] + 1)
        for moved, values in zip(self.moved[:, row], bins, strict=True):
            sums = np.concatenate(([0.0], np.cumsum(values)))
            reached = np.interp(self.edges, times, sums)
            reached[-1] = sums[-1]  # the last part has all that is later
            moved += np.diff(reached)

    def add_requests(self, operation: int, rank: int, requests: NDArray[np.void]) -> None:
        """Add traced requests of one process, each spread evenly over its time."""
        times: tuple[Floats, Floats] = requests["begin"], requests["end"]
        begin, end = (np.clip(np.nan_to_num(time), 0, self.duration) for time in times)
        length = np.maximum(requests["length"], 0).astype(float)
        self.by_process[operation, rank] += length.sum()
        first, last = (np.minimum((time / self.part).astype(np.int64), COLUMNS - 1) for time in (begin, end))
        row = self.moved[operation, self.row(rank)]
        short = last <= first
        np.add.at(row, first[short], length[short])
        for at in range(0, int((~short).sum()), 10_000):
            some = np.flatnonzero(~short)[at : at + 10_000]
            reached = (self.edges - begin[some, None]) / (end - begin)[some, None]
            row += (np.diff(np.clip(reached, 0, 1), axis=1) * length[some, None]).sum(axis=0)


def _heat_head(sections: Sections) -> struct.Struct:
    return struct.Struct(f"{sections.order}Qqdq")


def _heat_tail(head: struct.Struct) -> Callable[[memoryview], int | None]:
    def tail_length(record: memoryview) -> int | None:
        bins = int(head.unpack_from(record)[3])
        return 16 * bins if 0 <= bins <= _MOST_BINS else None

    return tail_length


def _read_heat(sections: Sections, module: Module, job: Job) -> Activity:
    head = _heat_head(sections)
    grids = tuple(_Grid(job.run_time, job.nprocs) for _ in range(2))
    sums: dict[tuple[bool, int, float, int], Floats] = {}
    for record in sections.records_of_any_length(module, _heat_tail(head)):
        kind, rank, width, count = head.unpack_from(record)
        is_call = kind in _COUNTED_TWICE
        grid = grids[is_call]
        if not grid.has(rank) or not 0 < width < 1e9 or not any(record[48:]):
            continue
        written, read = np.frombuffer(bytes(record[48:]), f"{sections.order}i8").reshape(2, count)
        bins = np.maximum((read, written), 0).astype(float)
        grid.by_process[:, rank] += bins.sum(axis=1)
        key = (is_call, grid.row(rank), width, count)
        sums[key] = sums[key] + bins if key in sums else bins
    for (is_call, row, width, _), bins in sums.items():
        grids[is_call].add_bins(row, width, bins)
    grid = grids[not grids[0].moved.any()]
    return Activity(
        module=module.name,
        duration=grid.duration,
        resolution=max([grid.part, *(width for _, _, width, _ in sums)]),
        moved=grid.moved,
        by_process=grid.by_process,
    )


def _read_traces(sections: Sections, module: Module, job: Job) -> Activity:
    head = struct.Struct(f"{sections.order}Qqq64s2q")
    kind = np.dtype([(name, sections.order + type_name) for name, type_name in _SEGMENT])

    def tail_length(record: memoryview) -> int | None:
        *_, writes, reads = head.unpack_from(record)
        return (writes + reads) * kind.itemsize if min(writes, reads) >= 0 and writes + reads < 1 << 24 else None

    grid, traced = _Grid(job.run_time, job.nprocs), 0
    nodes: set[bytes] = set()
    for record in sections.records_of_any_length(module, tail_length):
        _, rank, _, host, writes, reads = head.unpack_from(record)
        nodes.add(host.partition(b"\0")[0])
        traced += writes + reads
        if traced > MOST_TRACED:
            break
        if grid.has(rank):
            requests = np.frombuffer(bytes(record[head.size :]), kind)
            grid.add_requests(1, rank, requests[:writes])
            grid.add_requests(0, rank, requests[writes:])
    return Activity(
        module=module.name,
        duration=grid.duration,
        resolution=grid.part,
        moved=grid.moved,
        by_process=grid.by_process,
        nodes=len(nodes - {b""}) or None,
        complete=traced <= MOST_TRACED,
    )
