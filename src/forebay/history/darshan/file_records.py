"""The records of one Darshan log, file by file and process by process, reduced to what findings need.

A record of Darshan's POSIX module has 704 bytes, one of `USE` has 196.
"""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.history.darshan.file_systems import FileSystems, Names, mounts_of
from forebay.history.darshan.log import BINS, Chunk, Job, counter_columns, describe_unknown, open_log
from forebay.history.darshan.log_format import FileLayout, Module, UnreadableSection
from forebay.history.darshan.ost_usage import OstUsage
from forebay.history.darshan.plausibility import check_chunk
from forebay.history.darshan.request_statistics import SMALL, STREAMS, count_orders, count_sizes

Uses = NDArray[np.void]
_MOST_SECONDS = 1e12
# Fields with two elements have one for reads and one for writes.
USE = np.dtype(
    [
        ("id", "u8"),
        ("rank", "i4"),  # -1 if Darshan merged the records of all processes
        ("opens", "i4"),
        ("stats", "i4"),
        ("syncs", "i4"),
        ("alignment", "i4"),  # of the file system, in bytes
        ("unaligned", "i8"),  # requests that don't begin at a multiple of it
        ("requests", "i8", 2),
        ("small", "i8", 2),
        ("common_size", "i8"),  # of most requests; 0 if unknown
        ("bytes", "i8", 2),
        ("extent", "i8", 2),  # the file was used up to here
        ("contiguous", "i8", 2),  # requests that begin where the last one ended
        ("jumps", "i8", 2),  # requests that begin elsewhere, without a stride that recurs
        ("seconds", "f4", 2),  # summed over processes, like the next
        ("meta_seconds", "f4"),
        ("begin", "f4", 2),  # seconds of the run when the first one began
        ("end", "f4", 2),  # when the last one ended
        # Of merged records, the fastest and the slowest process.
        ("ranks", "i4", 2),
        ("rank_bytes", "i8", 2),
        ("slowest_seconds", "f4"),
    ]
)
CALL = np.dtype([("id", "u8"), ("rank", "i4"), ("collective", "i8", 2), ("independent", "i8", 2), ("bytes", "i8", 2)])
"""Calls of MPI-IO."""
_FEW = 256
KINDS = {"POSIX": USE, "STDIO": USE, "DFS": USE, "MPI-IO": CALL}
"""The modules with a table."""
_FIELDS = {"POSIX": "posix", "STDIO": "stdio", "DFS": "dfs", "MPI-IO": "calls"}  # of FileRecords


CALL_KINDS = {
    "opens": ("OPENS", "INDEP_OPENS", "COLL_OPENS", "FDOPENS"),
    "lookups": ("STATS", "LOOKUPS", "GET_SIZES"),
    "seeks": ("SEEKS",),
    "memory maps": ("MMAPS",),
    "syncs": ("FSYNCS", "FDSYNCS", "FLUSHES", "SYNCS"),
    "reads": ("READS", "READXS", "INDEP_READS", "COLL_READS", "SPLIT_READS", "NB_READS"),
    "writes": ("WRITES", "WRITEXS", "INDEP_WRITES", "COLL_WRITES", "SPLIT_WRITES", "NB_WRITES"),
}
"""The counters of each kind of call, in all modules."""


@dataclass(slots=True)
class ModuleTotals:
    """Sums over the records of one module, by operation (reads, then writes): the number of requests by size, in
    `SIZE_BINS`, bytes, and seconds of all processes (then also of metadata). `common` has how often the commonest sizes
    occur, `calls` the number of calls by kind."""

    sizes: NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, len(BINS)), dtype=np.int64))
    moved: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, dtype=np.int64))
    seconds: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    common: Counter[int] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, chunk: Chunk) -> None:
        get = _Counters(name, chunk)
        self.moved += get("BYTES_READ", "BYTES_WRITTEN").sum(axis=0)
        self.seconds += get("F_READ_TIME", "F_WRITE_TIME", "F_META_TIME").sum(axis=0)
        infix = "AGG_" if name == "MPI-IO" else ""
        for operation, verb in enumerate(("READ", "WRITE")):
            self.sizes[operation] += get(*(f"SIZE_{verb}_{infix}{size}" for size in BINS)).sum(axis=0)
        for i in range(1, 5):
            count_sizes(self.common, get(f"ACCESS{i}_ACCESS"), get(f"ACCESS{i}_COUNT"))
        for kind, names in CALL_KINDS.items():
            self.calls[kind] += int(get(*names).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLog:
    """One of the logs of a run; `begin` is when its process began, in seconds of the run."""

    path: Path
    job: Job
    modules: dict[str, Module]
    begin: float


@dataclass(slots=True, kw_only=True)
class FileRecords:
    """One log, or the logs of one run (`process_records`). `posix`, `stdio` and `dfs` are arrays of `USE`, `calls` is
    one of `CALL`; `totals` are by module. Of standard streams, only the totals know."""

    path: Path
    job: Job
    modules: dict[str, Module]
    posix: Uses = field(default_factory=lambda: np.zeros(0, dtype=USE))
    stdio: Uses = field(default_factory=lambda: np.zeros(0, dtype=USE))
    dfs: Uses = field(default_factory=lambda: np.zeros(0, dtype=USE))
    calls: Uses = field(default_factory=lambda: np.zeros(0, dtype=CALL))
    totals: dict[str, ModuleTotals] = field(default_factory=dict)
    mounts: dict[str, str] = field(default_factory=dict)
    layouts: list[FileLayout] = field(default_factory=list)
    usage: OstUsage | None = None
    """Sums by OST; None if the log does not say where files are."""
    read_names: Names | None = None
    """Reads the names of all files, while the log is open."""
    unreadable: list[str] = field(default_factory=list)
    """What could not be read, in words."""
    processes: tuple[ProcessLog, ...] = ()
    """The logs of a run of several, by rank; empty if there is only one."""

    @property
    def partial(self) -> bool:
        """Whether Darshan ran out of memory and left records out."""
        return any(self.modules[name].partial for name in ("POSIX", "MPI-IO", "STDIO") if name in self.modules)

    def names(self, ids: set[int]) -> dict[int, str]:
        """The names of these files, as far as the log has them."""
        named = ((file, name) for file, name in self.iterate_names() if file in ids)
        return {file: name.decode("utf-8", "backslashreplace") for file, name in named}

    def iterate_names(self) -> Iterator[tuple[int, bytes]]:
        """The id and name of each file, until a part that is unreadable."""
        if self.read_names is not None:
            with suppress(UnreadableSection):
                yield from self.read_names()
            return
        for path in [process.path for process in self.processes] or [self.path]:
            with suppress(UnreadableSection), open_log(path) as log:
                yield from log.sections.names()


def read_file_records(path: Path) -> FileRecords:
    """Read one log; raises `UnreadableLog` if that is not possible."""
    with open_log(path) as log:
        modules, unknown = log.modules()
        records = FileRecords(path=path, job=log.job(), modules=modules)
        records.unreadable += map(describe_unknown, unknown)
        records.mounts = mounts_of(log.sections.job()[1])
        if "LUSTRE" in modules:
            try:
                records.layouts = list(log.sections.layouts(modules["LUSTRE"]))
                records.usage = OstUsage(records.layouts, FileSystems(records.mounts, log.sections.names))
            except UnreadableSection as error:
                records.unreadable.append(error.reason)
        tables = Tables(records)
        for name in (name for name in KINDS if name in modules):
            try:
                tables.begin(name, log.sections.check_records(modules[name]))
                for chunk in log.records(modules[name]):
                    check_chunk(str(path), name, records.job, chunk)
                    tables.add(name, chunk)
                    records.totals.setdefault(name, ModuleTotals()).add(name, chunk)
                    if records.usage is not None and (name != "MPI-IO" or "POSIX" not in modules):
                        records.usage.add_records(name, chunk)
            except UnreadableSection as error:
                records.unreadable.append(error.reason)
                tables.drop(name)
    tables.finish()
    return records


class Tables:
    """Fills the tables of `records` with the chunks of a log, which may be read for something else as well. Modules
    with more than `most` records are left out."""

    def __init__(self, records: FileRecords, most: float = math.inf) -> None:
        self._records, self._most = records, most
        self.are_whole = True
        self._tables: dict[str, Uses] = {}
        self._waiting: list[tuple[str, Chunk]] = []
        self._ends: dict[str, int] = {}

    def begin(self, name: str, count: int) -> None:
        """Make room for the records of a module."""
        if name not in KINDS:
            return
        if count > self._most:
            self.are_whole = False
        else:
            self._tables[name], self._ends[name] = np.zeros(count, dtype=KINDS[name]), 0

    def add(self, name: str, chunk: Chunk) -> None:
        """Add a chunk; a small one waits for `finish`, which is not called for logs without notable I/O."""
        if name not in self._tables:
            return
        if len(chunk) <= _FEW:
            self._waiting.append((name, chunk.copy()))
        else:
            self._fill(name, chunk)

    def _fill(self, name: str, chunk: Chunk) -> None:
        if name not in self._tables:
            return
        first = self._ends[name]
        self._ends[name] = first + len(chunk)
        rows = self._tables[name][first : self._ends[name]]
        rows["id"], rows["rank"] = chunk["id"], chunk["rank"]
        (_fill_calls if KINDS[name] is CALL else _fill_uses)(rows, name, self._records.job.nprocs, chunk)
        if KINDS[name] is USE:
            used = (rows["opens"] > 0) | (rows["stats"] > 0) | (rows["requests"].sum(axis=1) > 0)
            if not used.all():  # leave them out at once: a copy of millions of records would not fit into memory
                self._ends[name] = first + int(used.sum())
                rows[: self._ends[name] - first] = rows[used]

    def drop(self, name: str) -> None:
        """Forget a module with an unreadable section."""
        self._tables.pop(name, None)

    def finish(self) -> None:
        """Move the tables to the records."""
        for name, chunk in self._waiting:
            self._fill(name, chunk)
        self._waiting.clear()
        for name, table in self._tables.items():
            setattr(self._records, _FIELDS[name], table[: self._ends[name]])
        stdio = self._records.stdio
        if stdio.size:
            self._records.stdio = stdio[~np.isin(stdio["id"], STREAMS)]


def count_strided(uses: Uses, nprocs: int) -> NDArray[np.int64]:
    """How many reads and writes of each record go ahead by a stride that recurs; those after an open follow none."""
    first = np.maximum(np.where(uses["rank"] < 0, nprocs, 1), uses["opens"])[:, None]
    strided: NDArray[np.int64] = np.maximum(uses["requests"] - uses["contiguous"] - uses["jumps"] - first, 0)
    return strided


class _Counters:
    """Counters of a chunk by name: a column for each, 0 if unknown."""

    def __init__(self, name: str, chunk: Chunk) -> None:
        self._columns, self._chunk = counter_columns(name), chunk

    def __call__(self, *names: str) -> Any:
        kind = "fcounters" if names[0].startswith("F_") else "counters"
        at = [self._columns.get(name) for name in names]
        table = self._chunk[kind]
        columns = [np.zeros(len(table), table.dtype) if i is None else np.maximum(table[:, i], 0) for i in at]
        if kind == "fcounters":  # a damaged log can have any
            columns = [np.minimum(np.nan_to_num(column), _MOST_SECONDS) for column in columns]
        return np.column_stack(columns) if len(columns) > 1 else columns[0]


def _fill_uses(rows: Uses, name: str, nprocs: int, chunk: Chunk) -> None:
    get = _Counters(name, chunk)
    rows["opens"], rows["stats"] = get("OPENS"), get("STATS")
    rows["syncs"] = get("FSYNCS") + get("FDSYNCS")
    rows["alignment"], rows["unaligned"] = get("FILE_ALIGNMENT"), get("FILE_NOT_ALIGNED")
    rows["requests"] = get("READS", "WRITES")
    rows["bytes"] = get("BYTES_READ", "BYTES_WRITTEN")
    if name == "DFS":  # its vectored and asynchronous calls are counted apart, and it does not say how far they reach
        rows["requests"] += get("READXS", "WRITEXS") + get("NB_READS", "NB_WRITES")
    else:
        used = rows["bytes"] > 0
        rows["extent"] = np.where(used, get("MAX_BYTE_READ", "MAX_BYTE_WRITTEN") + 1, 0)
    rows["seconds"], rows["meta_seconds"] = get("F_READ_TIME", "F_WRITE_TIME"), get("F_META_TIME")
    rows["begin"] = get("F_READ_START_TIMESTAMP", "F_WRITE_START_TIMESTAMP")
    rows["end"] = get("F_READ_END_TIMESTAMP", "F_WRITE_END_TIMESTAMP")
    rows["ranks"] = np.minimum(get("FASTEST_RANK", "SLOWEST_RANK"), nprocs - 1)
    rows["rank_bytes"] = get("FASTEST_RANK_BYTES", "SLOWEST_RANK_BYTES")
    rows["slowest_seconds"] = get("F_SLOWEST_RANK_TIME")
    if name == "POSIX":
        _fill_sizes_and_order(rows, nprocs, get)
    else:  # the C library's buffer hides the order, and its mean request is all that is known of sizes
        mean = rows["bytes"] // np.maximum(rows["requests"], 1)
        rows["small"] = np.where(mean < SMALL, rows["requests"], 0)


def _fill_sizes_and_order(rows: Uses, nprocs: int, get: _Counters) -> None:
    # Darshan counts all from 100 KiB to exactly 1 MiB together; the commonest sizes and the mean show large ones.
    sizes, counts = (get(*(f"ACCESS{i}_{what}" for i in range(1, 5))) for what in ("ACCESS", "COUNT"))
    large = np.where((sizes >= SMALL) & (sizes <= 1 << 20), counts, 0).sum(axis=1)
    for i, verb in enumerate(("READ", "WRITE")):
        bins = get(*(f"SIZE_{verb}_{bin}" for bin in BINS[:5]))
        between = np.where(rows["bytes"][:, i] < SMALL * rows["requests"][:, i], np.maximum(bins[:, 4] - large, 0), 0)
        rows["small"][:, i] = bins[:, :4].sum(axis=1) + between
    rows["common_size"] = np.take_along_axis(sizes, counts.argmax(axis=1)[:, None], axis=1)[:, 0]
    requests = rows["requests"].T.copy()
    in_order = np.minimum(get("SEQ_READS", "SEQ_WRITES").T, requests)
    consecutive = np.minimum(get("CONSEC_READS", "CONSEC_WRITES").T, in_order)
    rank: NDArray[np.int32] = rows["rank"]
    opened: NDArray[np.int32] = rows["opens"]
    opens = np.maximum(np.where(rank < 0, nprocs, 1), opened)
    strides = get(*(f"STRIDE{i}_COUNT" for i in range(1, 5))).T
    kinds = count_orders(requests, in_order, consecutive, np.minimum(opens, requests), strides)
    rows["contiguous"], rows["jumps"] = kinds[:, 0].T, kinds[:, 2:].sum(axis=1).T


def _fill_calls(rows: Uses, name: str, _: int, chunk: Chunk) -> None:
    get = _Counters(name, chunk)
    rows["bytes"] = get("BYTES_READ", "BYTES_WRITTEN")
    for field_name, kinds in (("collective", ("COLL", "SPLIT")), ("independent", ("INDEP", "NB"))):
        rows[field_name] = sum(get(f"{kind}_READS", f"{kind}_WRITES") for kind in kinds)
