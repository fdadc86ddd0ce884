"""Statistics of a run's reads and writes: their sizes, their order, and the files they go to.

For every process and file, Darshan counts the requests, how many began behind the end of the previous one
("sequential") or right there ("consecutive"), the four commonest strides and the four commonest sizes. They are added
up here record by record, because the library's own sums of strides and sizes are wrong: they can contain a size that
never occurred.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.history.darshan.log import BINS, Sums, counter_columns
from forebay.history.run_fields import OPERATIONS, ORDERS, Row

Ints = NDArray[np.int64]
STREAMS = (14734109647742566553, 15920181672442173319, 7238257241479193519)
"""The records of <STDIN>, <STDOUT> and <STDERR>, whose requests don't go to a file system."""
MOST_SIZES = 20_000
"""Different request sizes that are counted at a time; the rarest are dropped first."""
_BOUNDS = np.array([100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30])
_MODULES = ("POSIX", "MPI-IO", "STDIO", "DFS", "DAOS")
_VERBS = {"read": ("READ", "READS", "READ"), "write": ("WRITTEN", "WRITES", "WRITE")}  # of bytes, requests, sizes
_ByOperation = Mapping[str, Ints]
_Get = Callable[[str], Ints]
_ENOUGH = 16  # jumps ahead; only in a regular access are the four commonest strides most of so many


@dataclass(slots=True)
class _Tally:
    """The reads or the writes of one module."""

    requests: int = 0
    moved: int = 0
    order: Ints = field(default_factory=lambda: np.zeros(4, dtype=np.int64))
    sizes: Counter[int] = field(default_factory=Counter)
    smallest: int = 0  # requests of up to 100 bytes


class RequestStatistics:
    """Sums over a stream of the records of all modules. MPI-IO's must come before POSIX's."""

    def __init__(self, nprocs: int) -> None:
        self._nprocs = nprocs
        self._tallies = {name: {o: _Tally() for o in OPERATIONS} for name in _MODULES}
        self._sizes: dict[str, Counter[int]] = {name: Counter() for name in _MODULES}
        self._extents = {o: np.zeros((2, 65), dtype=np.int64) for o in OPERATIONS}  # bytes and largest, by doubling
        self._streams: dict[int, list[int]] = {}
        self._called, self._called_by_all = array("Q"), array("Q")
        self._shared_calls: NDArray[np.uint64] | None = None
        self._once: dict[int, list[int]] = {}

    def watch(self, name: str, chunks: Iterator[Any]) -> Iterator[Any]:
        """The same chunks, each added to the sums."""
        for chunk in chunks:
            self._add(name, chunk)
            yield chunk

    def _add(self, name: str, chunk: Any) -> None:
        at = counter_columns(name)
        if name == "STDIO":
            self._note_streams(chunk, at)
            chunk = chunk[~np.isin(chunk["id"], STREAMS)]
        counters = np.maximum(chunk["counters"], 0)  # -1 stands for unknown

        def get(counter: str) -> Ints:
            place = at.get(counter)
            return np.zeros(len(counters), dtype=np.int64) if place is None else counters[:, place]

        moved = {o: get(f"BYTES_{_VERBS[o][0]}") for o in OPERATIONS}
        aggregate = "AGG_" if name == "MPI-IO" else ""
        bins = {o: np.stack([get(f"SIZE_{_VERBS[o][2]}_{aggregate}{b}") for b in BINS]) for o in OPERATIONS}
        counted = name in ("POSIX", "STDIO")  # in others, requests of many kinds are in the same bins
        requests = {o: get(_VERBS[o][1]) if counted else bins[o].sum(axis=0) for o in OPERATIONS}
        for operation in OPERATIONS:
            tally = self._tallies[name][operation]
            tally.moved += int(moved[operation].sum())
            tally.requests += int(requests[operation].sum())
            tally.smallest += int(bins[operation][0].sum())
            if counted:
                self._note_extent(operation, get(f"MAX_BYTE_{_VERBS[operation][0]}") + 1, moved[operation])
        if name == "MPI-IO":
            self._note_callers(chunk)
        if name == "POSIX":
            self._note_order(chunk, requests, get)
            self._note_private(chunk, moved)
        if name != "STDIO":
            self._note_sizes(name, moved, requests, bins, get)

    def _note_order(self, chunk: Any, requests: _ByOperation, get: _Get) -> None:
        opens = np.maximum(np.where(chunk["rank"] < 0, self._nprocs, 1), get("OPENS"))
        firsts = {o: np.minimum(opens, requests[o]) for o in OPERATIONS}
        in_order = {o: np.minimum(get(f"SEQ_{_VERBS[o][1]}"), requests[o]) for o in OPERATIONS}
        consecutive = {o: np.minimum(get(f"CONSEC_{_VERBS[o][1]}"), in_order[o]) for o in OPERATIONS}
        strides = np.stack([get(f"STRIDE{i}_COUNT") for i in range(1, 5)])
        ordered = count_orders(requests, in_order, consecutive, firsts, strides)
        for operation, kinds in ordered.items():
            self._tallies["POSIX"][operation].order += kinds.sum(axis=1)

    def _note_sizes(
        self, name: str, moved: _ByOperation, requests: _ByOperation, bins: _ByOperation, get: _Get
    ) -> None:
        """Count the sizes that occurred, and those that certainly were reads or writes."""
        records = np.arange(len(next(iter(moved.values()))))
        for i in range(1, 5):
            size, count = get(f"ACCESS{i}_ACCESS"), get(f"ACCESS{i}_COUNT")
            _count(self._sizes[name], size, count)
            which = np.searchsorted(_BOUNDS, size)
            for operation, other in (("read", "write"), ("write", "read")):
                same, others = (bins[o][which, records] for o in (operation, other))
                sure = np.clip(count - others, 0, same)  # the others may all have this size
                mean = (size * requests[operation] == moved[operation]) & (same > 0)
                _count(self._tallies[name][operation].sizes, size, np.where(mean, np.minimum(count, same), sure))

    def _note_extent(self, operation: str, extent: Ints, moved: Ints) -> None:
        doubling = np.frexp(extent.astype(float))[1]
        used = moved > 0
        np.add.at(self._extents[operation][0], doubling[used], moved[used])
        np.maximum.at(self._extents[operation][1], doubling[used], extent[used])

    def _note_streams(self, chunk: Any, at: Mapping[str, int]) -> None:
        for record in chunk[np.isin(chunk["id"], STREAMS)]:
            counts = self._streams.setdefault(int(record["id"]), [0, 0, 0])
            counts[0] += 2 if record["rank"] < 0 else 1
            for place, counter in enumerate(("BYTES_READ", "BYTES_WRITTEN"), 1):
                counts[place] += max(int(record["counters"][at[counter]]), 0)

    def _note_callers(self, chunk: Any) -> None:
        by_all = chunk["rank"] < 0
        self._called_by_all.extend(chunk["id"][by_all].tolist())
        self._called.extend(chunk["id"][~by_all].tolist())

    def _note_private(self, chunk: Any, moved: _ByOperation) -> None:
        """Note files for which several processes called MPI-IO, but one moved the data for all."""
        if self._shared_calls is None:
            ids, callers = np.unique(np.array(self._called, dtype=np.uint64), return_counts=True)
            by_all = np.array(self._called_by_all, dtype=np.uint64)
            self._shared_calls = np.union1d(ids[callers > 1], by_all)
        for i in np.flatnonzero(np.isin(chunk["id"], self._shared_calls)).tolist():
            counts = self._once.setdefault(int(chunk["id"][i]), [0, 0, 0])
            counts[0] += 2 if chunk["rank"][i] < 0 else 1
            counts[1] += int(moved["read"][i])
            counts[2] += int(moved["write"][i])

    def common_size(self, counted: list[str]) -> int:
        """The request size that came most often in the module that moved most; 0 where none tells."""
        most = max(
            (n for n in counted if self._sizes[n]),
            key=lambda n: sum(t.moved for t in self._tallies[n].values()),
            default="",
        )
        return _commonest(self._sizes[most]) if most else 0

    def shared_bytes(self, sums: Mapping[str, Sums], counted: list[str]) -> dict[str, int]:
        """The bytes moved to or from shared files, by operation, without standard output and the like."""
        shared = {"read": 0, "write": 0}
        if self._nprocs == 1:
            return shared
        for place, operation in enumerate(OPERATIONS, 1):
            shared[operation] += sum((sums[n].shared_read, sums[n].shared_written)[place - 1] for n in counted)
            shared[operation] -= sum(counts[place] for counts in self._streams.values() if counts[0] > 1)
            shared[operation] += sum(counts[place] for counts in self._once.values() if counts[0] == 1)
        return {operation: max(amount, 0) for operation, amount in shared.items()}

    def rows(self, sums: Mapping[str, Sums], counted: list[str]) -> list[Row]:
        """The rows of `run_requests` without the run's id."""
        shared = self.shared_bytes(sums, counted)
        called = sums["MPI-IO"].counters if "MPI-IO" in sums else {}
        return [self._row(operation, counted, shared[operation], called) for operation in OPERATIONS]

    def _row(self, operation: str, counted: list[str], shared: int, called: Mapping[str, float]) -> Row:
        tallies = {name: self._tallies[name][operation] for name in counted}
        # Lines that a program writes into a log file besides its data don't describe its requests.
        main = max(tallies, key=lambda n: (tallies[n].moved, n == "POSIX"), default=None)
        tally = tallies[main] if main else _Tally()
        calls = self._tallies["MPI-IO"][operation]
        total = sum(tally.moved for tally in tallies.values())
        order = tally.order.tolist() if main == "POSIX" else [None] * 4
        verb = _VERBS[operation][1]
        return {
            "operation": operation,
            "total_bytes": total,
            "shared_bytes": min(shared, total),
            "file_size": self._file_size(operation),
            "requests": tally.requests,
            "request_bytes": tally.moved,
            "common_size": _commonest(tally.sizes, tally.smallest),
            **dict(zip(ORDERS, order, strict=True)),
            "collective_calls": sum(max(int(called.get(f"{kind}_{verb}", 0)), 0) for kind in ("COLL", "SPLIT")),
            "independent_calls": sum(max(int(called.get(f"{kind}_{verb}", 0)), 0) for kind in ("INDEP", "NB")),
            "call_bytes": calls.moved,
            "common_call_size": _commonest(calls.sizes, calls.smallest),
        }

    def _file_size(self, operation: str) -> int | None:
        """Half of the bytes or more are in files that were used up to here or further."""
        weights, largest = self._extents[operation]
        if not weights.any():
            return None
        from_top = np.cumsum(weights[::-1])
        return int(largest[::-1][np.argmax(2 * from_top >= from_top[-1])])


def count_orders(
    requests: _ByOperation, in_order: _ByOperation, consecutive: _ByOperation, firsts: _ByOperation, strides: Ints
) -> dict[str, Ints]:
    """The requests that follow another one of their process, by operation, with a row for each of `ORDERS`.

    `firsts` are the requests that may have been the first after an open, `strides` the counts of the four commonest
    strides, of reads and writes together.

    Darshan counts a first request as in order unless it is at the beginning of the file. It has no stride, so it is
    one of the jumps ahead without a known stride, or one of those that don't go ahead.
    """
    ahead = {o: in_order[o] - consecutive[o] for o in OPERATIONS}
    back = {o: requests[o] - in_order[o] for o in OPERATIONS}
    jumps = ahead["read"] + ahead["write"]
    unknown = np.maximum(jumps - strides.sum(axis=0), 0)
    of_reads = np.minimum(-(-unknown * ahead["read"] // np.maximum(jumps, 1)), ahead["read"])
    for o, without_stride in (("read", of_reads), ("write", np.minimum(unknown - of_reads, ahead["write"]))):
        either = np.maximum(without_stride + back[o], 1)
        first_ahead = np.minimum(-(-firsts[o] * without_stride // either), without_stride)
        ahead[o] = ahead[o] - first_ahead
        back[o] = back[o] - np.minimum(firsts[o] - np.minimum(first_ahead, firsts[o]), back[o])
    strided = _share_strides(ahead, back, _recurring(strides, ahead["read"] + ahead["write"]))
    return {o: np.stack((consecutive[o], strided[o], ahead[o] - strided[o], back[o])) for o in OPERATIONS}


def _recurring(strides: Ints, jumps: Ints) -> Ints:
    """The jumps by recurring strides: if one stride has most of them, or a few have nearly all of many."""
    again = np.where(strides > 1, strides, 0).sum(axis=0)
    regular = (2 * strides.max(axis=0) > jumps) | ((jumps >= _ENOUGH) & (10 * again >= 9 * jumps))
    return np.minimum(np.where(regular, again, 0), jumps)


def _share_strides(ahead: _ByOperation, back: _ByOperation, strided: Ints) -> dict[str, Ints]:
    """Divide strides between reads and writes; those that also go back are less likely to be regular."""
    reads_first = back["read"] * ahead["write"] <= back["write"] * ahead["read"]
    read = np.minimum(ahead["read"], np.where(reads_first, strided, strided - np.minimum(ahead["write"], strided)))
    return {"read": read, "write": strided - read}


def _count(sizes: Counter[int], size: Ints, count: Ints) -> None:
    known = (size > 0) & (count > 0)
    different, which = np.unique(size[known], return_inverse=True)
    summed = np.bincount(which.ravel(), weights=count[known], minlength=different.size).astype(np.int64)
    for value, number in zip(different.tolist(), summed.tolist(), strict=True):
        sizes[value] += number
    if len(sizes) > MOST_SIZES:
        kept = sizes.most_common(MOST_SIZES // 2)
        sizes.clear()
        sizes.update(dict(kept))


def _commonest(sizes: Counter[int], smallest: int = 0) -> int:
    """The size that occurred most often; 0 if more requests are among the `smallest`, whose sizes are unknown.

    Darshan keeps no size of 0, and a program that reads up to a file's end can have more of these than of all others.

    >>> _commonest(Counter({5376: 10})), _commonest(Counter({5376: 10, 8: 95}), smallest=100)
    (5376, 8)
    >>> _commonest(Counter({5376: 10, 8: 5}), smallest=100)
    0
    """
    size = max(sizes, key=lambda size: (sizes[size], size), default=0)
    unknown = smallest - sum(count for small, count in sizes.items() if small <= _BOUNDS[0])
    return size if sizes[size] >= unknown else 0
