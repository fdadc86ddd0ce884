"""Logs as Darshan's runtime writes them for runs whose requests a test makes up.

The counters are kept as the runtime of Darshan 3.5 keeps them (POSIX_RECORD_READ, POSIX_RECORD_WRITE and
`posix_record_reduction_op` in darshan-posix.c): `test_requests.py` compares some with what real runs of IOR left.
"""

import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.history.darshan.log import BINS, _record, counter_names
from forebay.history.darshan.request_statistics import _BOUNDS, STREAMS
from support.darshan_logs import LUSTRE, MPIIO, POSIX, Parts, wheel_log

STDIO = 8  # in format 3.21
STDOUT = STREAMS[1]
_DONE = {"READ": "READ", "WRITE": "WRITTEN"}
_LOG = "pq_app_readAB_writeC_id71326_7-31-5658-2037904274838284930_55623.darshan"


@dataclass(slots=True)
class Handle:
    """What one process does with one file; every method is one call."""

    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    strides: Counter[int] = field(default_factory=Counter)
    last: dict[str, int] = field(default_factory=lambda: {"READ": 0, "WRITE": 0})
    alignment: int = 0
    """Of the file system; unknown if 0."""
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By the names of Darshan's times; none: all records have the same."""

    def open(self) -> None:
        self.counts["OPENS"] += 1
        self.last = {"READ": 0, "WRITE": 0}

    def stat(self) -> None:
        self.counts["STATS"] += 1

    def read(self, offset: int, size: int) -> None:
        self.move("READ", np.array([offset]), size)

    def write(self, offset: int, size: int) -> None:
        self.move("WRITE", np.array([offset]), size)

    def move(self, verb: str, offsets: NDArray[np.int64], size: int) -> None:
        """Many calls of the same size, one after the other; `verb` is READ or WRITE."""
        if not offsets.size:
            return
        calls, done = offsets.size, _DONE[verb]
        last = np.concatenate([[self.last[verb]], offsets[:-1] + (size - 1)])
        jumps = offsets - last - 1
        self.last[verb] = int(offsets[-1]) + size - 1
        self.counts[f"SEQ_{verb}S"] += int(np.count_nonzero(jumps >= 0))
        self.counts[f"CONSEC_{verb}S"] += int(np.count_nonzero(jumps == 0))
        self.counts[f"MAX_BYTE_{done}"] = max(self.counts[f"MAX_BYTE_{done}"], int(offsets.max()) + size - 1)
        self.counts[f"BYTES_{done}"] += calls * size
        self.counts[f"{verb}S"] += calls
        self.counts["FILE_NOT_ALIGNED"] += int(np.count_nonzero(offsets % self.alignment)) if self.alignment else 0
        self.counts[f"SIZE_{verb}_{BINS[int(np.searchsorted(_BOUNDS, size))]}"] += calls
        strides = Counter(jumps[(last > 0) & (jumps > 0)].tolist())
        for seen, values in ((self.sizes, {size: calls} if size else {}), (self.strides, strides)):
            for value, count in values.items():  # in the order in which they first occur
                if value in seen or len(seen) < 32:
                    seen[value] += count


Files = Mapping[tuple[int, int], Handle]
"""By file and process."""


def posix_records(files: Files, nprocs: int) -> np.ndarray[Any, Any]:
    """A record for each file and process, or for each file if all processes used it."""
    by_file: dict[int, dict[int, Handle]] = {}
    for (file, rank), handle in files.items():
        by_file.setdefault(file, {})[rank] = handle
    made = []
    for file, handles in by_file.items():
        if len(handles) == nprocs:
            made.append(_posix_record(file, -1, handles))
        else:
            made += [_posix_record(file, rank, {rank: handle}) for rank, handle in handles.items()]
    return np.array(made, dtype=_record("POSIX"))


def _posix_record(file: int, rank: int, by_rank: Mapping[int, Handle]) -> np.ndarray[Any, Any]:
    counts: Counter[str] = Counter()
    sizes: Counter[int] = Counter()
    strides: Counter[int] = Counter()
    largest: dict[str, int] = {}
    handles = list(by_rank.values())
    for handle in handles:
        for name, value in handle.counts.items():
            if name.startswith("MAX_"):
                largest[name] = max(largest.get(name, 0), value)
            else:
                counts[name] += value
        sizes.update(dict(_four(handle.sizes)))
        strides.update(dict(_four(handle.strides)))
    for kind, seen in (("ACCESS", sizes), ("STRIDE", strides)):
        for i, (value, count) in enumerate(_four(seen), 1):
            counts |= {f"{kind}{i}_{kind}": value, f"{kind}{i}_COUNT": count}
    times: dict[str, float] = defaultdict(float)
    for name, seconds in chain.from_iterable(handle.seconds.items() for handle in handles):
        times[name] += seconds
    if len(handles) > 1 and times:
        spent = {rank: sum(handle.seconds.values()) for rank, handle in by_rank.items()}
        for which, of_all in (("FASTEST", min), ("SLOWEST", max)):
            which_rank = of_all(spent, key=lambda rank: spent[rank])
            chosen = by_rank[which_rank].counts
            counts |= {
                f"{which}_RANK": which_rank,
                f"{which}_RANK_BYTES": chosen["BYTES_READ"] + chosen["BYTES_WRITTEN"],
            }
            times[f"F_{which}_RANK_TIME"] = spent[which_rank]
    counts["FILE_ALIGNMENT"] = max(handle.alignment for handle in handles)
    usual = {"F_READ_TIME": 0.01, "F_WRITE_TIME": 0.02, "F_META_TIME": 0.001}
    return record("POSIX", file, rank, dict(counts) | largest, times or usual)


def _four(seen: Counter[int]) -> list[tuple[int, int]]:
    return sorted(seen.items(), key=lambda known: (-known[1], -known[0]))[:4]


def record(
    module: str, file: int, rank: int, counters: Mapping[str, int], seconds: Mapping[str, float] | None = None
) -> np.ndarray[Any, Any]:
    """One record of a module; counters go by their names without the module's."""
    made = np.zeros((), dtype=_record(module))
    made["id"], made["rank"] = file, rank
    names, reals = counter_names(module)
    for name, value in counters.items():
        made["counters"][names.index(name)] = value
    for name, second in (seconds or {}).items():
        made["fcounters"][reals.index(name)] = second
    return made


def write_log(
    path: Path,
    nprocs: int,
    files: Files,
    calls: Iterable[np.ndarray[Any, Any]] = (),
    streams: Iterable[np.ndarray[Any, Any]] = (),
    layouts: Mapping[int, tuple[int, list[int]]] | None = None,
    run_time: int | None = None,
) -> Path:
    """A log of these requests, calls of MPI-IO and records of STDIO; `layouts` are stripe size and OSTs by file."""
    parts = Parts(wheel_log(_LOG)).with_job(nprocs=nprocs)
    if run_time is not None:
        parts = parts.with_job(start=1_600_000_000).with_job(end=1_600_000_000 + run_time - 1)
    made_layouts = [
        struct.pack(f"<Q{6 + len(osts)}q", file, 0, max(osts) + 1, 1, osts[0], size, len(osts), *osts)
        for file, (size, osts) in (layouts or {}).items()
    ]
    parts = parts.with_module(LUSTRE, made_layouts).with_module_version(LUSTRE, 1) if layouts else parts
    ids: set[int] = set()
    for number, module, records in ((POSIX, "POSIX", posix_records(files, nprocs)), (MPIIO, "MPI-IO", calls),
                                    (STDIO, "STDIO", streams)):  # fmt: skip
        made = np.array(list(records), dtype=_record(module))
        parts = parts.with_module(number, [made.tobytes()]) if made.size else parts.without_module(number)
        ids.update(made["id"].tolist())
    names = [struct.pack("<Q", file) + b"/scratch/file%d\0" % file for file in sorted(ids)]
    return parts.with_names(b"".join(names)).write(path)


def write_processes(folder: Path, processes: int) -> list[Path]:
    """The logs of a job without MPI, whose processes each read all of one file twice and write one of their own."""
    logs = []
    for number in range(1, processes + 1):
        shared, own = Handle(), Handle()
        for handle, mebibytes in ((shared, 64), (shared, 64), (own, 32 * number)):
            handle.open()
            verb = "WRITE" if handle is own else "READ"
            handle.move(verb, np.arange(0, mebibytes << 20, 1 << 20), 1 << 20)
            handle.seconds |= {"F_READ_TIME": 4.0} if handle is shared else {"F_WRITE_TIME": 1.0}
        files = {(5, 0): shared, (10 + number, 0): own}
        path = folder / f"ada_train_id71326-{number}_7-31-5658-{number}_1.darshan"
        layouts = {5: (1 << 20, [3]), 10 + number: (1 << 20, [number])}
        logs.append(write_log(path, 1, files, layouts=layouts, run_time=20))
    return logs
