"""Statistics of a run's reads and writes: their sizes, their order, and the files they go to.

For every process and file, Darshan counts the requests, how many start at or beyond the end of the previous one
("sequential") or exactly there ("consecutive"), and the four most common strides and sizes. This module adds them up
record by record, because the library's own sums of strides and sizes are wrong: they can contain a size that never
occurred.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.history.darshan.file_sizes import FileSizeCount
from forebay.history.darshan.log import BINS, Sums, counter_columns
from forebay.history.run_fields import OPERATIONS, ORDERS, Row
from forebay.model.arrays import Ints
from forebay.model.file_sizes import format_sizes

STREAMS = (14734109647742566553, 15920181672442173319, 7238257241479193519)
"""The ids of <STDIN>, <STDOUT> and <STDERR>, whose requests do not go to a file system."""
SMALL = 512 << 10
"""Requests of fewer bytes are counted as small."""
_FEW = 50
"""Records that are counted one by one."""
MOST_SIZES = 20_000
"""The most distinct request sizes to count; beyond it, the rarest are dropped."""
_BOUNDS = np.array([100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30])
_MODULES = ("POSIX", "MPI-IO", "STDIO", "DFS", "DAOS")
_ENOUGH = 16  # jumps ahead; of so many, only a regular access has most at its four most common strides


@dataclass(slots=True)
class _Tally:
    """The reads or the writes of one module."""

    requests: int = 0
    moved: int = 0
    order: Ints = field(default_factory=lambda: np.zeros(4, dtype=np.int64))
    sizes: Counter[int] = field(default_factory=Counter)
    smallest: int = 0  # number of requests of up to 100 bytes


class RequestStatistics:
    """Sums over the records of all modules. Add MPI-IO's before POSIX's.

    The first dimension of arrays and lists is the operation: reads, then writes.
    """

    def __init__(self, nprocs: int) -> None:
        self._nprocs = nprocs
        self._tallies = {name: (_Tally(), _Tally()) for name in _MODULES}
        self._sizes: dict[str, Counter[int]] = {name: Counter() for name in _MODULES}
        self._extents = np.zeros((2, 2, 65), dtype=np.int64)  # bytes and largest, by doubling
        self._file_sizes = FileSizeCount(), FileSizeCount()
        self._streams: dict[int, list[int]] = {}
        self._called, self._called_by_all = array("Q"), array("Q")
        self._shared_calls: NDArray[np.uint64] | None = None
        self._once: dict[int, list[int]] = {}

    def add(self, name: str, chunk: Any) -> None:
        at = counter_columns(name)
        if name == "STDIO":
            self._note_streams(chunk, at)
            chunk = chunk[~np.isin(chunk["id"], STREAMS)]
        counters = np.zeros((len(chunk), chunk["counters"].shape[1] + 1), dtype=np.int64)
        np.maximum(chunk["counters"], 0, out=counters[:, :-1])  # -1 stands for unknown

        def get(*names: str) -> Ints:
            """A row for each of these counters; 0 for a counter that the module lacks."""
            rows: Ints = counters[:, [at.get(counter, -1) for counter in names]].T
            return rows

        moved = get("BYTES_READ", "BYTES_WRITTEN")
        aggregate = "AGG_" if name == "MPI-IO" else ""
        bins = np.stack([get(*(f"SIZE_{verb}_{aggregate}{b}" for b in BINS)) for verb in ("READ", "WRITE")])
        counted = name in ("POSIX", "STDIO")  # other modules count many kinds of requests in the same bins
        requests = get("READS", "WRITES") if counted else bins.sum(axis=1)
        for i, tally in enumerate(self._tallies[name]):
            tally.moved += int(moved[i].sum())
            tally.requests += int(requests[i].sum())
            tally.smallest += int(bins[i, 0].sum())
        if counted:
            self._note_extents(chunk, get("MAX_BYTE_READ", "MAX_BYTE_WRITTEN") + 1, moved)
        if name == "MPI-IO":
            by_all = chunk["rank"] < 0
            self._called_by_all.extend(chunk["id"][by_all].tolist())
            self._called.extend(chunk["id"][~by_all].tolist())
        if name == "POSIX":
            self._note_order(chunk, requests, get)
            self._note_private(chunk, moved)
        if name != "STDIO":
            self._note_sizes(name, moved, requests, bins, get)

    def _note_order(self, chunk: Any, requests: Ints, get: Callable[..., Ints]) -> None:
        opens = np.maximum(np.where(chunk["rank"] < 0, self._nprocs, 1), get("OPENS")[0])
        in_order = np.minimum(get("SEQ_READS", "SEQ_WRITES"), requests)
        consecutive = np.minimum(get("CONSEC_READS", "CONSEC_WRITES"), in_order)
        strides = get(*(f"STRIDE{i}_COUNT" for i in range(1, 5)))
        ordered = count_orders(requests, in_order, consecutive, np.minimum(opens, requests), strides)
        for tally, kinds in zip(self._tallies["POSIX"], ordered, strict=True):
            tally.order += kinds.sum(axis=1)

    def _note_sizes(self, name: str, moved: Ints, requests: Ints, bins: Ints, get: Callable[..., Ints]) -> None:
        """Count the sizes, and separately those that are certain to be of reads or of writes."""
        records = np.arange(moved.shape[1])
        for i in range(1, 5):
            size, count = get(f"ACCESS{i}_ACCESS", f"ACCESS{i}_COUNT")
            count_sizes(self._sizes[name], size, count)
            alike = bins[:, np.searchsorted(_BOUNDS, size), records]
            sure = np.clip(count - alike[::-1], 0, alike)  # the other operation may have them all
            is_mean = (size * requests == moved) & (alike > 0)
            certain = np.where(is_mean, np.minimum(count, alike), sure)
            for tally, number in zip(self._tallies[name], certain, strict=True):
                count_sizes(tally.sizes, size, number)

    def _note_extents(self, chunk: Any, extents: Ints, moved: Ints) -> None:
        doublings = np.frexp(extents.astype(float))[1]
        by_all = (chunk["rank"] < 0) & (self._nprocs > 1)
        for i, (weights, largest) in enumerate(self._extents):
            used = moved[i] > 0
            np.add.at(weights, doublings[i][used], moved[i][used])
            np.maximum.at(largest, doublings[i][used], extents[i][used])
            self._file_sizes[i].add(chunk["id"][used], by_all[used], extents[i][used])

    def _note_streams(self, chunk: Any, at: Mapping[str, int]) -> None:
        for record in chunk[np.isin(chunk["id"], STREAMS)]:
            moved = [max(int(record["counters"][at[counter]]), 0) for counter in ("BYTES_READ", "BYTES_WRITTEN")]
            _note_users(self._streams, record, moved)

    def _note_private(self, chunk: Any, moved: Ints) -> None:
        """Note files that several processes accessed through MPI-IO while one process moved all data."""
        for i in np.flatnonzero(np.isin(chunk["id"], self._find_shared_calls())).tolist():
            _note_users(self._once, chunk[i], moved[:, i].tolist())

    def _find_shared_calls(self) -> NDArray[np.uint64]:
        """The files that several processes accessed through MPI-IO."""
        if self._shared_calls is None:
            ids, callers = np.unique(np.array(self._called, dtype=np.uint64), return_counts=True)
            by_all = np.array(self._called_by_all if self._nprocs > 1 else [], dtype=np.uint64)
            self._shared_calls = np.union1d(ids[callers > 1], by_all)
        return self._shared_calls

    def common_size(self, counted: list[str]) -> int:
        """The most common request size in the module that moved most bytes; 0 if unknown."""
        known = [name for name in counted if self._sizes[name]]
        most = max(known, key=lambda name: sum(tally.moved for tally in self._tallies[name]), default="")
        return _commonest_size(self._sizes[most]) if most else 0

    def shared_bytes(self, sums: Mapping[str, Sums], counted: list[str]) -> list[int]:
        """The bytes moved to or from shared files, without standard output and the like."""
        if self._nprocs == 1:
            return [0, 0]
        shared = [sum(sums[n].shared_read for n in counted), sum(sums[n].shared_written for n in counted)]
        for i in (0, 1):
            shared[i] -= sum(counts[i + 1] for counts in self._streams.values() if counts[0] > 1)
            shared[i] += sum(counts[i + 1] for counts in self._once.values() if counts[0] == 1)
        return [max(amount, 0) for amount in shared]

    def rows(self, sums: Mapping[str, Sums], counted: list[str]) -> list[Row]:
        """The rows of `run_requests` without the run's id."""
        shared = self.shared_bytes(sums, counted)
        called = sums["MPI-IO"].counters if "MPI-IO" in sums else {}
        return [self._row(i, counted, shared[i], called) for i in (0, 1)]

    def _row(self, i: int, counted: list[str], shared: int, called: Mapping[str, float]) -> Row:
        tallies = {name: self._tallies[name][i] for name in counted}
        # Only the main module counts: lines that a program writes into its own log file do not describe its I/O.
        main = max(tallies, key=lambda n: (tallies[n].moved, n == "POSIX"), default=None)
        tally = tallies[main] if main else _Tally()
        calls = self._tallies["MPI-IO"][i]
        total = sum(tally.moved for tally in tallies.values())
        order = tally.order.tolist() if main == "POSIX" else [None] * 4

        def count_calls(*kinds: str) -> int:
            return sum(max(int(called.get(f"{kind}_{('READS', 'WRITES')[i]}", 0)), 0) for kind in kinds)

        return {
            "operation": OPERATIONS[i],
            "total_bytes": total,
            "shared_bytes": min(shared, total),
            "file_size": self._file_size(i),
            "file_sizes": format_sizes(self._file_sizes[i].classes(self._find_shared_calls())),
            "requests": tally.requests,
            "request_bytes": tally.moved,
            "common_size": _commonest_size(tally.sizes, tally.smallest),
            **dict(zip(ORDERS, order, strict=True)),
            "collective_calls": count_calls("COLL", "SPLIT"),
            "independent_calls": count_calls("INDEP", "NB"),
            "call_bytes": calls.moved,
            "common_call_size": _commonest_size(calls.sizes, calls.smallest),
        }

    def _file_size(self, i: int) -> int | None:
        """The size such that at least half of the bytes are in files used up to this offset or beyond."""
        weights, largest = self._extents[i]
        if not weights.any():
            return None
        from_top = np.cumsum(weights[::-1])
        return int(largest[::-1][np.argmax(2 * from_top >= from_top[-1])])


def count_orders(requests: Ints, in_order: Ints, consecutive: Ints, firsts: Ints, strides: Ints) -> Ints:
    """Count the requests that follow another one of their process: for each operation, a row for each of `ORDERS`.

    `firsts` are the requests that may be the first after an open, `strides` the counts of the four most common strides,
    of reads and writes together.

    Darshan counts a first request as in order unless it is at the start of the file. It has no stride, so it is either
    a jump ahead without a known stride, or a request that does not go ahead.
    """
    ahead, back = in_order - consecutive, requests - in_order
    jumps = ahead.sum(axis=0)
    unknown = np.maximum(jumps - strides.sum(axis=0), 0)
    of_reads = np.minimum(-(-unknown * ahead[0] // np.maximum(jumps, 1)), ahead[0])
    without_stride = np.stack((of_reads, np.minimum(unknown - of_reads, ahead[1])))
    either = np.maximum(without_stride + back, 1)
    first_ahead = np.minimum(-(-firsts * without_stride // either), without_stride)
    ahead -= first_ahead
    back -= np.minimum(firsts - np.minimum(first_ahead, firsts), back)
    # Strides are regular if one has most of the jumps, or a few have nearly all of many jumps.
    jumps = ahead.sum(axis=0)
    again = np.where(strides > 1, strides, 0).sum(axis=0)
    regular = (2 * strides.max(axis=0) > jumps) | ((jumps >= _ENOUGH) & (10 * again >= 9 * jumps))
    recurring = np.minimum(np.where(regular, again, 0), jumps)
    # Of reads and writes, the operation that also goes back is less likely to be regular.
    reads_first = back[0] * ahead[1] <= back[1] * ahead[0]
    reads = np.minimum(ahead[0], np.where(reads_first, recurring, recurring - np.minimum(ahead[1], recurring)))
    strided = np.stack((reads, recurring - reads))
    return np.stack((consecutive, strided, ahead - strided, back), axis=1)


def _note_users(counts_of_files: dict[int, list[int]], record: Any, moved: list[int]) -> None:
    """Add a record to the counts of its file: processes (2 stands for many), bytes read, bytes written."""
    counts = counts_of_files.setdefault(int(record["id"]), [0, 0, 0])
    for place, amount in enumerate((2 if record["rank"] < 0 else 1, *moved)):
        counts[place] += amount


def count_sizes(sizes: Counter[int], size: Ints, count: Ints) -> None:
    """Add the `count` of each `size`; of many different sizes, the most common are kept."""
    known = (size > 0) & (count > 0)
    if size.size <= _FEW:  # numpy's calls would take longer than these steps
        for value, number in zip(size[known].tolist(), count[known].tolist(), strict=True):
            sizes[value] += number
        return
    different, which = np.unique(size[known], return_inverse=True)
    summed = np.bincount(which.ravel(), weights=count[known], minlength=different.size).astype(np.int64)
    for value, number in zip(different.tolist(), summed.tolist(), strict=True):
        sizes[value] += number
    if len(sizes) > MOST_SIZES:
        kept = sizes.most_common(MOST_SIZES // 2)
        sizes.clear()
        sizes.update(dict(kept))


def _commonest_size(sizes: Counter[int], smallest: int = 0) -> int:
    """The most common size; 0 if the `smallest` requests, whose sizes are unknown, are more.

    Darshan does not record size 0, which can be the most common one if a program reads to the end of files.

    >>> _commonest_size(Counter({5376: 10})), _commonest_size(Counter({5376: 10, 8: 95}), smallest=100)
    (5376, 8)
    >>> _commonest_size(Counter({5376: 10, 8: 5}), smallest=100)
    0
    """
    size = max(sizes, key=lambda size: (sizes[size], size), default=0)
    unknown = smallest - sum(count for small, count in sizes.items() if small <= _BOUNDS[0])
    return size if sizes[size] >= unknown else 0
