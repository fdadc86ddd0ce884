"""Reads one Darshan log: records in chunks through PyDarshan's cffi backend, sums by the library's accumulators.

Only one chunk of records is in memory at a time. `sections` reads all data that could crash the library.
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
from numpy.typing import NDArray

from forebay.history.darshan.library import backend
from forebay.history.darshan.log_format import Header, Module, Sections, UnreadableLog, read_header
from forebay.history.run_fields import LATEST, MOST_PROCESSES, SIZE_BINS
from forebay.model.arrays import Floats

CHUNK = 2048
"""Records in memory at a time; 1.4 MB of POSIX records."""
AT_ONCE = 500 * CHUNK
"""Records in one accumulator, which stores about 130 bytes for every file."""
SMALL = 1 << 18
"""A log of at most this size fits into one accumulator: a record has at least 256 bytes, zlib packs 1,030 to one."""
BINS = [size.replace("-", "_").replace("+", "_PLUS") for size in SIZE_BINS]
"""Request sizes in the names of counters, like 1K_10K and 1G_PLUS."""
Chunk = NDArray[Any]
"""Records of a module."""
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


class Sums(NamedTuple):
    """The result of the library's accumulator for one module: `counters` by name without the module's prefix
    (BYTES_READ), and values derived from them."""

    counters: dict[str, float]
    total_bytes: int
    time_by_slowest: float
    perf_by_slowest: float  # bytes per second
    shared_time_by_slowest: float
    shared_read: int  # bytes from files that several processes used
    shared_written: int


def describe_unknown(number: int) -> str:
    """What is wrong with a log that has records of a module that the library does not know."""
    return (
        f"has records of module number {number}, which this Forebay does not know: a newer Darshan wrote the log; "
        "everything else was read"
    )


@contextmanager
def open_log(path: Path) -> Iterator[Log]:
    """Open a log; raises `UnreadableLog` if the file is not a complete Darshan log."""
    header = read_header(path)
    handle = _lib.darshan_log_open(str(path).encode(errors="surrogateescape"))
    if handle == _ffi.NULL:
        raise UnreadableLog(str(path), "the Darshan library cannot open it")
    try:
        with path.open("rb") as file:
            yield Log(path, header, file, handle)
    finally:
        _lib.darshan_log_close(handle)


class Log:
    """An open log: its job, its modules, and their records."""

    def __init__(self, path: Path, header: Header, file: IO[bytes], handle: Any) -> None:
        self._header, self._handle = header, handle
        self.sections = Sections(path, header, file)
        self._is_small = path.stat().st_size <= SMALL

    def job(self) -> Job:
        numbers, text = self.sections.job()
        if self._header.wide:
            uid, start, start_part, end, end_part, nprocs, job_id = numbers
            seconds = (end + end_part / 1e9) - (start + start_part / 1e9)
        else:
            (uid, start, end, nprocs, job_id), start_part, end_part = numbers, 0, 0
            seconds = float(end - start + 1)
        in_time = all(0 <= s <= LATEST for s in (start, end)) and all(0 <= ns < 1e9 for ns in (start_part, end_part))
        # The number of processes matters most: the library allocates memory by it.
        if not in_time or not 1 <= nprocs <= MOST_PROCESSES:
            raise self.sections.damage("its job section has impossible values")
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
        """The modules by name, and the numbers of modules that the library does not know."""
        infos, count = _ffi.new("struct darshan_mod_info **"), _ffi.new("int *")
        _lib.darshan_log_get_modules(self._handle, infos, count)
        every = _ffi.unpack(infos[0], count[0])
        unknown = [int(m.idx) for m in every if m.name == _ffi.NULL]
        named = [
            Module(_ffi.string(m.name).decode("utf-8", "replace"), m.idx, m.ver & 0xFFFFFFFF, bool(m.partial_flag))
            for m in every
            if m.name != _ffi.NULL
        ]
        _lib.darshan_free(infos[0])
        return {module.name: module for module in named}, unknown

    def records(self, module: Module) -> Iterator[Chunk]:
        """Yield chunks of a module's records: fields id, rank, counters and fcounters. Each is valid until the next."""
        chunk = _chunk(module.name, CHUNK)
        place = _ffi.cast("char *", _ffi.from_buffer(chunk))
        record = _ffi.new("void **")
        filled = 0
        while True:
            record[0] = place + filled * chunk.dtype.itemsize
            result = _lib.darshan_log_get_record(self._handle, module.number, record)
            if result < 0:
                raise self.sections.damage(f"some of its {module.name} records are unreadable")
            if result == 0:
                break
            filled += 1
            if filled == CHUNK:
                yield chunk
                filled = 0
        if filled:
            yield chunk[:filled]

    def sums(self, module: Module, nprocs: int, chunks: Iterator[Chunk]) -> Sums | None:
        """The sums over the chunks, whose ranks must be below `nprocs`; None without records."""
        seconds = np.zeros(nprocs)  # the time of each process on its private files
        if not self._is_small:
            chunks = _add_seconds(module.name, seconds, chunks)
        # Each group fills one accumulator.
        groups = (chain([first], islice(chunks, AT_ONCE // CHUNK - 1)) for first in chunks)
        sums = [self._accumulate(module, nprocs, group) for group in groups]
        return sums[0] if len(sums) == 1 else _merge(sums, float(seconds.max())) if sums else None

    def _accumulate(self, module: Module, nprocs: int, chunks: Iterator[Chunk]) -> Sums:
        def check(result: int) -> None:
            if result != 0:
                raise self.sections.damage(f"the Darshan library cannot sum up its {module.name} records")

        accumulator = _ffi.new("darshan_accumulator *")
        metrics, total = _ffi.new("struct darshan_derived_metrics *"), np.zeros(1, dtype=_record(module.name))
        check(_lib.darshan_accumulator_create(module.number, nprocs, accumulator))
        try:
            for chunk in chunks:
                check(_lib.darshan_accumulator_inject(accumulator[0], _ffi.from_buffer(chunk), len(chunk)))
            check(_lib.darshan_accumulator_emit(accumulator[0], metrics, _ffi.from_buffer(total)))
        finally:
            _lib.darshan_accumulator_destroy(accumulator[0])
        return _sums(module.name, metrics, total[0])


@cache
def _record(name: str) -> np.dtype[Any]:
    """The numpy type of a module's record, of exactly the size of the C struct."""
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
def _chunk(name: str, records: int) -> Chunk:
    """A buffer for records; one is enough, because one log is read at a time."""
    return np.zeros(records, dtype=_record(name))


@cache
def counter_names(name: str) -> tuple[list[str], list[str]]:
    """The names of a module's counters and of its float counters, in order, without the module's prefix."""
    prefix = "MPIIO_" if name == "MPI-IO" else f"{name}_"
    long = backend.counter_names(name), backend.fcounter_names(name)
    whole, real = ([counter.removeprefix(prefix) for counter in names] for names in long)
    return whole, real


@cache
def counter_columns(name: str) -> dict[str, int]:
    """The index of each counter of a module in `counters`, and of each float one in `fcounters`."""
    return {counter: index for names in counter_names(name) for index, counter in enumerate(names)}


def _add_seconds(name: str, seconds: Floats, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Pass chunks through, and add the time of each process on its private files to `seconds`."""
    at = [counter_columns(name)[f"F_{kind}_TIME"] for kind in ("READ", "WRITE", "META")]
    for chunk in chunks:
        alone = (chunk["rank"] >= 0) & (chunk["rank"] < seconds.size)
        np.add.at(seconds, chunk["rank"][alone], chunk["fcounters"][alone][:, at].sum(axis=1))
        yield chunk


def _merge(parts: list[Sums], private_seconds: float) -> Sums:
    """Merge the results of several accumulators."""
    most = max(parts, key=lambda s: s.total_bytes).counters
    kept = {n for n in most if n.startswith(("ACCESS", "STRIDE"))}  # these are not sums
    merged = Sums({}, *(sum(values) for values in zip(*(part[1:] for part in parts), strict=True)))
    seconds = merged.shared_time_by_slowest + private_seconds
    return merged._replace(
        counters={n: most[n] if n in kept else sum(s.counters[n] for s in parts) for n in most},
        time_by_slowest=seconds,
        perf_by_slowest=merged.total_bytes / seconds if seconds > 0 else 0.0,
    )


def _sums(name: str, metrics: Any, total: Any) -> Sums:
    whole, real = counter_names(name)
    by_kind = metrics.category_counters
    shared, partly = by_kind[5], by_kind[6]  # files of all processes, and of some
    return Sums(
        counters=dict(zip(whole + real, total["counters"].tolist() + total["fcounters"].tolist(), strict=True)),
        total_bytes=metrics.total_bytes,
        time_by_slowest=metrics.agg_time_by_slowest,
        perf_by_slowest=metrics.agg_perf_by_slowest * 1024**2,
        shared_time_by_slowest=metrics.shared_io_total_time_by_slowest,
        shared_read=shared.total_read_volume_bytes + partly.total_read_volume_bytes,
        shared_written=shared.total_write_volume_bytes + partly.total_write_volume_bytes,
    )
