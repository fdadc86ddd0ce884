"""One Darshan log: records in chunks through PyDarshan's cffi backend, sums by the library's accumulators.

Never more than a chunk of records is in memory. `sections` reads everything that could crash the library.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from darshan.backend import cffi_backend as backend

from forebay.history.darshan.header import Header, UnreadableLog, read_header
from forebay.history.darshan.mounts import FileSystems, mounts_of
from forebay.history.darshan.sections import FileLayout, Sections
from forebay.history.run_fields import LATEST, MOST_PROCESSES

CHUNK = 2048
"""Records in memory at a time; 1.4 MB of POSIX records."""
AT_ONCE = 500 * CHUNK
"""Records in one accumulator, which stores about 130 bytes for every file."""
SMALL = 1 << 18
"""A log of so few bytes can't hold more: a record has at least 256 bytes, and zlib packs at most 1,030 into one."""
BINS = ("0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M", "1M_4M", "4M_10M", "10M_100M", "100M_1G", "1G_PLUS")
"""Request sizes in the names of counters; see `run_fields.SIZE_BINS`."""
_ffi, _lib = backend.ffi, backend.libdutil


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job of a log; times in whole seconds since 1970, as in `darshan job_stats`."""

    job_id: int
    uid: int
    nprocs: int
    start_time: float
    end_time: float
    run_time: float
    exe: str
    log_ver: str


class Module(NamedTuple):
    number: int
    version: int
    partial: bool


class Sums(NamedTuple):
    """The result of the library's accumulator for one module: `counters` by name without the module's prefix
    (BYTES_READ), and what is derived from them."""

    counters: dict[str, float]
    total_bytes: int
    time_by_slowest: float
    perf_by_slowest: float  # bytes per second
    shared_time_by_slowest: float
    files: int
    shared_files: int
    shared_read: int  # bytes from files that several processes used
    shared_written: int


@contextmanager
def open_log(path: Path) -> Iterator[Log]:
    """An open log; raises `UnreadableLog` if it is not one, or not complete."""
    header = read_header(path)
    handle = _lib.darshan_log_open(str(path).encode(errors="surrogateescape"))
    if handle == _ffi.NULL:
        raise UnreadableLog(str(path), "the Darshan library can't open it")
    try:
        with path.open("rb") as file:
            yield Log(path, header, file, handle)
    finally:
        _lib.darshan_log_close(handle)


class Log:
    def __init__(self, path: Path, header: Header, file: IO[bytes], handle: Any) -> None:
        self._path, self._header, self._handle = path, header, handle
        self._sections = Sections(path, header, file)
        self._size = path.stat().st_size

    def job(self) -> Job:
        numbers, text = self._sections.job()
        if self._header.wide:
            uid, start, start_part, end, end_part, nprocs, job_id = numbers
            seconds = (end + end_part / 1e9) - (start + start_part / 1e9)
        else:
            (uid, start, end, nprocs, job_id), start_part, end_part = numbers, 0, 0
            seconds = float(end - start + 1)
        in_time = all(0 <= s <= LATEST for s in (start, end)) and all(0 <= ns < 1e9 for ns in (start_part, end_part))
        # Above all the number of processes, by which the library allocates memory.
        if not in_time or not 1 <= nprocs <= MOST_PROCESSES:
            raise UnreadableLog(str(self._path), "is damaged: its job section is impossible")
        return Job(
            job_id=job_id,
            uid=uid,
            nprocs=nprocs,
            start_time=float(start),
            # The log of a killed job may have no end, and a clock may have been set back.
            end_time=float(max(end, start)),
            run_time=max(seconds, 0.0),
            exe=text.partition(b"\n")[0].decode("utf-8", "replace"),
            log_ver=self._header.version_text,
        )

    def modules(self) -> tuple[dict[str, Module], list[int]]:
        """The modules by name, and the numbers of those that the library does not know."""
        infos, count = _ffi.new("struct darshan_mod_info **"), _ffi.new("int *")
        _lib.darshan_log_get_modules(self._handle, infos, count)
        every = _ffi.unpack(infos[0], count[0])
        unknown = [int(m.idx) for m in every if m.name == _ffi.NULL]
        named = {
            _text(m.name): Module(m.idx, m.ver & 0xFFFFFFFF, bool(m.partial_flag)) for m in every if m.name != _ffi.NULL
        }
        _lib.darshan_free(infos[0])
        return named, unknown

    def check_records(self, name: str, module: Module) -> None:
        """Check that a module has whole records, before the library sums them up."""
        self._sections.check_records(name, module.number, module.version)

    def file_systems(self) -> FileSystems:
        """The mounted Lustre file systems, and which of them each file is on."""
        mounts = mounts_of(self._sections.job()[1])
        return FileSystems(mounts, self._sections.names)

    def layouts(self, module: Module) -> Iterator[FileLayout]:
        """The layout of each file on Lustre."""
        return self._sections.layouts(module.number, module.version)

    def active_ranks(self, module: Module) -> set[int]:
        """The ranks of the processes that moved any bytes, by the heat maps."""
        return self._sections.active_ranks(module.number, module.version)

    def records(self, name: str, module: Module) -> Iterator[np.ndarray[Any, Any]]:
        """Chunks of a module's records: fields id, rank, counters and fcounters. A chunk is valid until the next."""
        chunk = _chunk(name, CHUNK)
        kind = chunk.dtype
        place = _ffi.cast("char *", _ffi.from_buffer(chunk))
        record = _ffi.new("void **")
        filled = 0
        while True:
            record[0] = place + filled * kind.itemsize
            if not self._next(module, record, name):
                break
            filled += 1
            if filled == CHUNK:
                yield chunk
                filled = 0
        if filled:
            yield chunk[:filled]

    def sums(self, name: str, module: Module, nprocs: int, chunks: Iterator[np.ndarray[Any, Any]]) -> Sums | None:
        """The sums over the chunks, whose ranks must be below `nprocs`; None without records."""
        by_rank = _TimeByRank(name, nprocs)
        watched = by_rank.watch(chunks) if self._size > SMALL else chunks
        sums = [self._accumulate(name, module, nprocs, some) for some in _group(watched)]
        return sums[0] if len(sums) == 1 else _merge(sums, by_rank) if sums else None

    def _accumulate(self, name: str, module: Module, nprocs: int, chunks: Iterator[np.ndarray[Any, Any]]) -> Sums:
        accumulator = _ffi.new("darshan_accumulator *")
        metrics, total = _ffi.new("struct darshan_derived_metrics *"), np.zeros(1, dtype=_record(name))
        self._check(name, _lib.darshan_accumulator_create(module.number, nprocs, accumulator))
        try:
            for chunk in chunks:
                self._check(name, _lib.darshan_accumulator_inject(accumulator[0], _ffi.from_buffer(chunk), len(chunk)))
            self._check(name, _lib.darshan_accumulator_emit(accumulator[0], metrics, _ffi.from_buffer(total)))
        finally:
            _lib.darshan_accumulator_destroy(accumulator[0])
        return _sums(name, metrics, total[0])

    def _check(self, name: str, result: int) -> None:
        if result != 0:
            raise UnreadableLog(str(self._path), f"is damaged: the Darshan library can't sum up its {name} records")

    def _next(self, module: Module, record: Any, name: str) -> bool:
        result = _lib.darshan_log_get_record(self._handle, module.number, record)
        if result < 0:
            raise UnreadableLog(str(self._path), f"is damaged: its {name} records can't all be read")
        return bool(result > 0)


@cache
def _record(name: str) -> np.dtype[Any]:
    """A module's record as a numpy type of exactly the C struct's size."""
    counters, fcounters = backend.counter_names(name), backend.fcounter_names(name)
    struct = _ffi.typeof(backend._structdefs[name].removesuffix("*").strip().removesuffix("*").strip())
    at = dict(struct.fields)
    return np.dtype(
        {
            "names": ["id", "rank", "counters", "fcounters"],
            "formats": ["u8", "i8", ("i8", len(counters)), ("f8", len(fcounters))],
            "offsets": [0, 8, at["counters"].offset, at["fcounters"].offset],
            "itemsize": _ffi.sizeof(struct),
        }
    )


@cache
def _chunk(name: str, records: int) -> np.ndarray[Any, Any]:
    """A buffer for records; one is enough, because one log is read at a time."""
    return np.zeros(records, dtype=_record(name))


def counter_prefix(name: str) -> str:
    """The prefix of the names of a module's counters."""
    return "MPIIO" if name == "MPI-IO" else name


def whole_counters(name: str) -> list[str]:
    """The names of a module's whole-number counters, in their order."""
    return list(backend.counter_names(name))


@cache
def counter_columns(name: str) -> dict[str, int]:
    """The index of each counter of a module in `counters`, and of each float one in `fcounters`."""
    return {n: i for names in (backend.counter_names(name), backend.fcounter_names(name)) for i, n in enumerate(names)}


def _group(chunks: Iterator[Any]) -> Iterator[Iterator[Any]]:
    """The chunks in groups, each as large as one accumulator takes."""
    for first in chunks:
        yield chain([first], islice(chunks, AT_ONCE // CHUNK - 1))


class _TimeByRank:
    """The seconds that each process spent on its private files."""

    def __init__(self, name: str, nprocs: int) -> None:
        at = counter_columns(name)
        self._at = [at[f"{counter_prefix(name)}_F_{kind}_TIME"] for kind in ("READ", "WRITE", "META")]
        self.seconds = np.zeros(nprocs)

    def watch(self, chunks: Iterator[Any]) -> Iterator[Any]:
        for chunk in chunks:
            alone = (chunk["rank"] >= 0) & (chunk["rank"] < self.seconds.size)
            np.add.at(self.seconds, chunk["rank"][alone], chunk["fcounters"][alone][:, self._at].sum(axis=1))
            yield chunk


def _merge(parts: list[Sums], by_rank: _TimeByRank) -> Sums:
    """One result from several accumulators. A file in two of them counts twice."""
    total = sum(s.total_bytes for s in parts)
    shared = sum(s.shared_time_by_slowest for s in parts)
    seconds = shared + float(by_rank.seconds.max())
    most = max(parts, key=lambda s: s.total_bytes).counters
    kept = {n for n in most if n.startswith(("ACCESS", "STRIDE"))}  # which are not sums
    return Sums(
        counters={n: most[n] if n in kept else sum(s.counters[n] for s in parts) for n in most},
        total_bytes=total,
        time_by_slowest=seconds,
        perf_by_slowest=total / seconds if seconds > 0 else 0.0,
        shared_time_by_slowest=shared,
        files=sum(s.files for s in parts),
        shared_files=sum(s.shared_files for s in parts),
        shared_read=sum(s.shared_read for s in parts),
        shared_written=sum(s.shared_written for s in parts),
    )


@cache
def _short_names(name: str) -> tuple[list[str], list[str]]:
    long = backend.counter_names(name), backend.fcounter_names(name)
    whole, real = ([n.removeprefix(f"{counter_prefix(name)}_") for n in names] for names in long)
    return whole, real


def _sums(name: str, metrics: Any, total: Any) -> Sums:
    whole, real = _short_names(name)
    counters = dict(zip(whole, total["counters"].tolist(), strict=True))
    counters |= zip(real, total["fcounters"].tolist(), strict=True)
    by_kind = metrics.category_counters
    shared, partly = by_kind[5], by_kind[6]  # files of all processes, and of some
    return Sums(
        counters=counters,
        total_bytes=metrics.total_bytes,
        time_by_slowest=metrics.agg_time_by_slowest,
        perf_by_slowest=metrics.agg_perf_by_slowest * 1024**2,
        shared_time_by_slowest=metrics.shared_io_total_time_by_slowest,
        files=by_kind[0].count,
        shared_files=shared.count + partly.count,
        shared_read=shared.total_read_volume_bytes + partly.total_read_volume_bytes,
        shared_written=shared.total_write_volume_bytes + partly.total_write_volume_bytes,
    )


def _text(characters: Any) -> str:
    return bytes(_ffi.string(characters)).decode("utf-8", "replace")
