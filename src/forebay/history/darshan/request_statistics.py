"""What a run's reads and its writes are like: their sizes, their order, and the files they go to.

Darshan counts, for every process and file, the requests, how many of them began behind the end of the one before
("sequential") and how many right there ("consecutive"), the four commonest strides and the four commonest sizes.
They are added up here record by record: the library's own sums over records of strides and sizes are wrong, and
can name a size that never occurred.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.history.darshan.log import BINS, Sums, counter_columns, counter_prefix
from forebay.history.run_fields import OPERATIONS, ORDERS

Ints = NDArray[np.int64]
STREAMS = (14734109647742566553, 15920181672442173319, 7238257241479193519)
"""The records of <STDIN>, <STDOUT> and <STDERR>: lines on a screen are no requests to a file system."""
MOST_SIZES = 20_000
"""Different request sizes that are counted at a time; the rarest are given up first."""
_BOUNDS = np.array([100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30])
_MODULES = ("POSIX", "MPI-IO", "STDIO", "DFS", "DAOS")
_VERBS = {"read": ("READ", "READS", "READ"), "write": ("WRITTEN", "WRITES", "WRITE")}  # of bytes, requests, sizes
_ByOperation = Mapping[str, Ints]
_Get = Callable[[str], Ints]
_ENOUGH = 16  # jumps ahead, of which the four commonest strides are then most only if the access is regular


@dataclass(slots=True)
class _Tally:
    """The reads or the writes of one module."""

    requests: int = 0
    moved: int = 0
    order: Ints = field(default_factory=lambda: np.zeros(4, dtype=np.int64))
    sizes: Counter[int] = field(default_factory=Counter)
    smallest: int = 0  # requests of up to 100 bytes


class RequestStatistics:
    """What is added up while the records of all modules stream by. MPI-IO's have to come before POSIX's."""

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
        """The chunks again, each added up."""
        for chunk in chunks:
            self._add(name, chunk)
            yield chunk

    def _add(self, name: str, chunk: Any) -> None:
        at = counter_columns(name)
        if name == "STDIO":
            self._note_streams(chunk, at)
            chunk = chunk[~np.isin(chunk["id"], STREAMS)]
        counters = np.maximum(chunk["counters"], 0)  # -1 says that it is not known

        def get(counter: str) -> Ints:
            place = at.get(f"{counter_prefix(name)}_{counter}")
            return np.zeros(len(counters), dtype=np.int64) if place is None else counters[:, place]

        moved = {o: get(f"BYTES_{_VERBS[o][0]}") for o in OPERATIONS}
        aggregate = "AGG_" if name == "MPI-IO" else ""
        bins = {o: np.stack([get(f"SIZE_{_VERBS[o][2]}_{aggregate}{b}") for b in BINS]) for o in OPERATIONS}
        counted = name in ("POSIX", "STDIO")  # of the others, requests of many kinds fall into the same bins
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
        """Which sizes occurred, and which of them as a read or as a write for sure."""
        records = np.arange(len(next(iter(moved.values()))))
        for i in range(1, 5):
            size, count = get(f"ACCESS{i}_ACCESS"), get(f"ACCESS{i}_COUNT")
            _count(self._sizes[name], size, count)
            which = np.searchsorted(_BOUNDS, size)
            for operation, other in (("read", "write"), ("write", "read")):
                own, rest = (bins[o][which, records] for o in (operation, other))
                sure = np.clip(count - rest, 0, own)  # the rest may all have been of this size
                mean = (size * requests[operation] == moved[operation]) & (own > 0)
                _count(self._tallies[name][operation].sizes, size, np.where(mean, np.minimum(count, own), sure))

    def _note_extent(self, operation: str, extent: Ints, moved: Ints) -> None:
        doubling = np.frexp(extent.astype(float))[1]
        used = moved > 0
        np.add.at(self._extents[operation][0], doubling[used], moved[used])
        np.maximum.at(self._extents[operation][1], doubling[used], extent[used])

    def _note_streams(self, chunk: Any, at: Mapping[str, int]) -> None:
        for record in chunk[np.isin(chunk["id"], STREAMS)]:
            seen = self._streams.setdefault(int(record["id"]), [0, 0, 0])
            seen[0] += 2 if record["rank"] < 0 else 1
            for place, counter in enumerate(("STDIO_BYTES_READ", "STDIO_BYTES_WRITTEN"), 1):
                seen[place] += max(int(record["counters"][at[counter]]), 0)

    def _note_callers(self, chunk: Any) -> None:
        by_all = chunk["rank"] < 0
        self._called_by_all.extend(chunk["id"][by_all].tolist())
        self._called.extend(chunk["id"][~by_all].tolist())

    def _note_private(self, chunk: Any, moved: _ByOperation) -> None:
        """Files that one process moved data of, but that several called MPI-IO for: it did so for the others."""
        if self._shared_calls is None:
            ids, callers = np.unique(np.array(self._called, dtype=np.uint64), return_counts=True)
            by_all = np.array(self._called_by_all, dtype=np.uint64)
            self._shared_calls = np.union1d(ids[callers > 1], by_all)
        for i in np.flatnonzero(np.isin(chunk["id"], self._shared_calls)).tolist():
            seen = self._once.setdefault(int(chunk["id"][i]), [0, 0, 0])
            seen[0] += 2 if chunk["rank"][i] < 0 else 1
            seen[1] += int(moved["read"][i])
            seen[2] += int(moved["write"][i])

    def common_size(self, counted: list[str]) -> int:
        """The request size that came most often in the module that moved most; 0 where none tells."""
        most = max(
            (n for n in counted if self._sizes[n]),
            key=lambda n: sum(t.moved for t in self._tallies[n].values()),
            default="",
        )
        return _commonest(self._sizes[most]) if most else 0

    def shared_bytes(self, sums: Mapping[str, Sums], counted: list[str]) -> dict[str, int]:
        """By operation, what was moved to or from files that several processes used, lines on a screen left out."""
        shared = {"read": 0, "write": 0}
        if self._nprocs == 1:
            return shared
        for place, operation in enumerate(OPERATIONS, 1):
            shared[operation] += sum((sums[n].shared_read, sums[n].shared_written)[place - 1] for n in counted)
            shared[operation] -= sum(seen[place] for seen in self._streams.values() if seen[0] > 1)
            shared[operation] += sum(seen[place] for seen in self._once.values() if seen[0] == 1)
        return {operation: max(amount, 0) for operation, amount in shared.items()}

    def rows(self, sums: Mapping[str, Sums], counted: list[str]) -> list[dict[str, Any]]:
        """The rows of `run_requests`, but for the run."""
        shared = self.shared_bytes(sums, counted)
        called = sums["MPI-IO"].counters if "MPI-IO" in sums else {}
        return [self._row(operation, counted, shared[operation], called) for operation in OPERATIONS]

    def _row(self, operation: str, counted: list[str], shared: int, called: Mapping[str, float]) -> dict[str, Any]:
        tallies = {name: self._tallies[name][operation] for name in counted}
        # Where a program writes lines into a file besides its data, those are not what its requests are like.
        main = max(tallies, key=lambda n: (tallies[n].moved, n == "POSIX"), default=None)
        own = tallies[main] if main else _Tally()
        calls = self._tallies["MPI-IO"][operation]
        total = sum(tally.moved for tally in tallies.values())
        order = own.order.tolist() if main == "POSIX" else [None] * 4
        verb = _VERBS[operation][1]
        return {
            "operation": operation,
            "total_bytes": total,
            "shared_bytes": min(shared, total),
            "file_size": self._file_size(operation),
            "requests": own.requests,
            "request_bytes": own.moved,
            "common_size": _commonest(own.sizes, own.smallest),
            **dict(zip(ORDERS, order, strict=True)),
            "collective_calls": sum(max(int(called.get(f"{kind}_{verb}", 0)), 0) for kind in ("COLL", "SPLIT")),
            "independent_calls": sum(max(int(called.get(f"{kind}_{verb}", 0)), 0) for kind in ("INDEP", "NB")),
            "call_bytes": calls.moved,
            "common_call_size": _commonest(calls.sizes, calls.smallest),
        }

    def _file_size(self, operation: str) -> int | None:
        """Half of the bytes, or more, went to or came from files that were used up to here, or further."""
        weights, largest = self._extents[operation]
        if not weights.any():
            return None
        from_top = np.cumsum(weights[::-1])
        return int(largest[::-1][np.argmax(2 * from_top >= from_top[-1])])


def count_orders(
    requests: _ByOperation, in_order: _ByOperation, consecutive: _ByOperation, firsts: _ByOperation, strides: Ints
) -> dict[str, Ints]:
    """How many requests of records could follow another one of their process, by operation: a row for each of `ORDERS`.

    `firsts` is how many requests may have been the first after an open, `strides` how often the four commonest
    strides came, of reads and writes together.

    A first request follows none, but Darshan counts it as in order unless it is at the beginning of the file. It has
    no stride, so it is one of the jumps ahead without a known stride, or one of those that don't go ahead.
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
    """How many jumps are by strides that recur: most of them by one, or nearly all of many by few."""
    again = np.where(strides > 1, strides, 0).sum(axis=0)
    regular = (2 * strides.max(axis=0) > jumps) | ((jumps >= _ENOUGH) & (10 * again >= 9 * jumps))
    return np.minimum(np.where(regular, again, 0), jumps)


def _share_strides(ahead: _ByOperation, back: _ByOperation, strided: Ints) -> dict[str, Ints]:
    """To reads and writes; those that also go back are the less likely ones to be regular."""
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
    """The size that came most often; 0 where more requests are among the `smallest`, of sizes that nothing tells.

    Darshan keeps no size of 0, and a program that reads up to a file's end can have more of these than of all others.

    >>> _commonest(Counter({5376: 10})), _commonest(Counter({5376: 10, 8: 95}), smallest=100)
    (5376, 8)
    >>> _commonest(Counter({5376: 10, 8: 5}), smallest=100)
    0
    """
    size = max(sizes, key=lambda size: (sizes[size], size), default=0)
    unknown = smallest - sum(count for small, count in sizes.items() if small <= _BOUNDS[0])
    return size if sizes[size] >= unknown else 0
