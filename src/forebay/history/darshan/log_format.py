"""The header of a Darshan log and its sections, checked, decompressed and parsed.

The library does not say why a log is unreadable, so the checks here explain it. It also trusts its input: a wrong
length in a record makes it write beyond its memory, and it silently drops a truncated record. So this module parses
records of varying length itself, and checks all others before the library reads them.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from forebay.history.regular_files import check_regular
from forebay.history.run_fields import MOST_OSTS, MOST_STRIPES
from forebay.model.errors import BadInput, why

MAGIC = 6567223
NEWEST = (3, 41)
"""The newest known log format, that of Darshan 3.4.1 and later."""
_OLDEST = (3, 0)
_KNOWN = (_OLDEST, (3, 10), (3, 20), (3, 21), NEWEST)
_FIRST_WIDE = (3, 41)  # has room for 64 modules; older formats for 16
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2"}
_INSERTED = {6: (3, 41), 4: (3, 20)}  # PNETCDF_VAR and H5D raised all later module numbers in these formats

_READ = 1 << 16
_PIECE = 1 << 20
RECORD_SIZES = {
    "POSIX": {1: 680, 2: 648, 3: 664, 4: 704},
    "MPI-IO": {1: 544, 2: 544, 3: 560},
    "STDIO": {1: 240, 2: 248},
    "DFS": {1: 584},
    "DAOS": {1: 696},
    "LUSTRE": {1: 56, 2: 32},
    "HEATMAP": {1: 48},
    "DXT_POSIX": {1: 104},
    "DXT_MPIIO": {1: 104, 2: 104},
}
"""Bytes of a record, by the version of its module; for LUSTRE, HEATMAP and DXT, of its head."""
_COMPONENT = 72
_MOST_COMPONENTS = 4096
_JOB_BYTES = 4096
_METADATA_BYTES = 1024


class UnreadableLog(BadInput):
    """A log that Forebay cannot read."""


class UnreadableSection(UnreadableLog):
    """A section that Forebay cannot read; other sections of the log may be readable."""


class Place(NamedTuple):
    """The place of a section of a log, in bytes."""

    offset: int
    length: int


class Module(NamedTuple):
    name: str
    number: int
    version: int
    partial: bool


class Component(NamedTuple):
    """A component of a file's layout: stripe size, first byte, end (-1 for none), and number of stripes."""

    size: int
    begin: int
    end: int
    stripes: int


class FileLayout(NamedTuple):
    """The layout of one file; `osts` lists the OSTs of all components in turn, -1 if not chosen yet."""

    file: int
    components: tuple[Component, ...]
    osts: array[int]
    pool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a log. `order` is the byte order in the notation of `struct`. `modules` are the places of the
    modules' sections, by module number in the log's format."""

    version: tuple[int, int]
    version_text: str
    order: str
    job: Place
    names: Place
    modules: tuple[Place, ...]

    @property
    def wide(self) -> bool:
        """Whether the format has room for 64 modules, and times in nanoseconds."""
        return self.version >= _FIRST_WIDE

    def module(self, number: int) -> Place:
        """The place of a module's section, by its number in the current library."""
        for inserted, since in _INSERTED.items():
            number -= self.version < since and number > inserted
        return self.modules[number]


def read_header(path: Path) -> Header:
    """Read the header of a log, and check that the log is complete and of a known format."""
    try:
        check_regular(path)
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(2048)
    except OSError as error:
        raise UnreadableLog(str(path), why(error)) from None
    try:
        return _parse_header(head, size)
    except ValueError as error:
        raise UnreadableLog(str(path), str(error)) from None


def _parse_header(head: bytes, size: int) -> Header:
    """Parse the header of a log of `size` bytes; a ValueError says what is wrong."""
    order = _check_kind(head)
    text = head[:8].split(b"\0")[0].decode("ascii", "replace")
    version = _parse_version(text)
    if head[16:17] == b"\1":
        raise ValueError("is compressed with bzip2; convert it with `darshan-convert`")
    if head[16:17] not in (b"", b"\0"):
        raise ValueError("is damaged: its compression is unknown")
    modules, start = (64, 32) if version >= _FIRST_WIDE else (16, 24)
    count = 2 * (modules + 1)  # offset and length of the names, then of each module
    end = start + 8 * count + 4 * modules
    if len(head) < end:
        raise ValueError(f"is truncated: {size:,} bytes")
    numbers = struct.unpack_from(f"{order}{count}Q", head, start)
    names, *others = places = list(map(Place, numbers[::2], numbers[1::2]))
    announced = max(sum(place) for place in places)
    if announced > size:
        raise ValueError(f"is truncated: {size:,} bytes, but its header announces {announced:,}")
    job = Place(end, next((place.offset for place in places if place.offset), size) - end)
    if job.length <= 0 or any(place.length and place.offset < job.offset for place in places):
        raise ValueError("is damaged: its sections overlap")
    return Header(version=version, version_text=text, order=order, job=job, names=names, modules=tuple(others))


def _check_kind(head: bytes) -> str:
    """Check that this is a log, and return its byte order; the library converts that of another machine."""
    if not head:
        raise ValueError("is empty (0 bytes)")
    for start, kind in _COMPRESSED.items():
        if head.startswith(start):
            raise ValueError(f"is {kind}-compressed, from before Darshan 3.0; only newer logs are readable")
    if len(head) < 16 and head[:2] in (b"3.", b"4."):
        raise ValueError(f"is truncated: {len(head)} bytes")
    for order in "<>":
        if head[8:16] == struct.pack(f"{order}q", MAGIC):
            return order
    raise ValueError("is not a Darshan log")


def _parse_version(text: str) -> tuple[int, int]:
    try:
        major, minor = (int(part) for part in text.split("."))
    except ValueError:
        raise ValueError(f"has no valid format version ({text!r})") from None
    if (major, minor) > NEWEST:
        raise ValueError(f"has log format {text}; the newest readable one is {NEWEST[0]}.{NEWEST[1]}")
    if (major, minor) < _OLDEST:
        raise ValueError(f"has log format {text}; the oldest readable one is 3.00")
    if (major, minor) not in _KNOWN:
        raise ValueError(f"has log format {text}, which no Darshan release writes")
    return major, minor


class Sections:
    """The sections of one log."""

    def __init__(self, path: Path, header: Header, file: IO[bytes]) -> None:
        self._path, self._header, self._file = path, header, file

    def damage(self, what: str, kind: type[UnreadableLog] = UnreadableLog) -> UnreadableLog:
        return kind(str(self._path), f"is damaged: {what}")

    def job(self) -> tuple[tuple[int, ...], bytes]:
        """The job's numbers (user, start, end, processes, job id; from format 3.41 on also nanoseconds), and its text:
        the command line, then a line for each mount."""
        numbers, text = self._job_numbers, self._job_numbers * 8 + _METADATA_BYTES
        whole = self._read_job()
        return struct.unpack_from(f"{self._header.order}{numbers}q", whole), whole[text:_JOB_BYTES].partition(b"\0")[0]

    def release(self) -> str:
        """The release of Darshan that recorded the job; "" if unknown."""
        begin = self._job_numbers * 8
        # Its hints are not of interest: they are those with which Darshan writes the log.
        text = self._read_job()[begin : begin + _METADATA_BYTES].partition(b"\0")[0].decode("utf-8", "replace")
        return next((line.removeprefix("lib_ver=") for line in text.splitlines() if line.startswith("lib_ver=")), "")

    @property
    def _job_numbers(self) -> int:
        return 7 if self._header.wide else 5

    def _read_job(self) -> bytes:
        whole, place = b"", self._header.job
        self._file.seek(place.offset)
        lead = self._file.read(min(place.length, _READ))
        gap = len(lead) - len(lead.lstrip(b"\0"))  # some builds of Darshan leave room after the header
        for piece in self._pieces(Place(place.offset + gap, place.length - gap), "job"):
            whole += piece
            if len(whole) >= _JOB_BYTES:
                break
        if len(whole) < self._job_numbers * 8 + _METADATA_BYTES:
            raise self.damage("its job section is too short", UnreadableSection)
        return whole

    def names(self) -> Iterator[tuple[int, bytes]]:
        """The id and name of each file."""
        buffer = bytearray()
        for piece in self._pieces(self._header.names, "names"):
            buffer += piece
            at = 0
            while (entry := self._parse_name(buffer, at)) is not None:
                file, name, at = entry
                yield file, name
            del buffer[:at]

    def _parse_name(self, buffer: bytearray, at: int) -> tuple[int, bytes, int] | None:
        """The file's id, its name, and the offset of the next entry; None if the entry is incomplete."""
        has_length = self._header.version == (3, 0)  # later formats end a name with a zero
        begin = at + (12 if has_length else 8)
        if len(buffer) < begin:
            return None
        if has_length:
            end = after = begin + struct.unpack_from(f"{self._header.order}I", buffer, at + 8)[0]
        else:
            end = buffer.find(0, begin)
            after = end + 1
        if not begin <= end <= len(buffer) or after > len(buffer):
            return None
        [file] = struct.unpack_from(f"{self._header.order}Q", buffer, at)
        return file, bytes(buffer[begin:end]), after

    def check_records(self, module: Module) -> int:
        """Check that a module's section holds whole records of the right size, before the library reads them; return
        their number."""
        size = self._record_size(module)
        length = sum(map(len, self._pieces(self._header.module(module.number), module.name)))
        if length % size:
            what = f"its {module.name} section has {length:,} bytes, not a multiple of the record size {size}"
            raise self.damage(what)
        return length // size

    def layouts(self, module: Module) -> Iterator[FileLayout]:
        tail_length, parse = (self._tail_1, self._layout_1) if module.version == 1 else (self._tail_2, self._layout_2)
        for record in self.records_of_any_length(module, tail_length):
            layout = parse(record)
            if layout is None:
                raise self.damage("a file has an impossible layout")
            yield layout

    def _tail_1(self, head: memoryview) -> int | None:
        [count] = struct.unpack_from(f"{self._header.order}q", head, 48)
        return 8 * count if 0 <= count <= MOST_STRIPES else None

    def _layout_1(self, record: memoryview) -> FileLayout | None:
        file, _, _, _, _, size, count, *osts = struct.unpack(f"{self._header.order}Q{len(record) // 8 - 1}q", record)
        return _check_layout(file, [Component(size, 0, -1, count)], osts, "")

    def _tail_2(self, head: memoryview) -> int | None:
        components, stripes = struct.unpack_from(f"{self._header.order}2q", head, 16)
        if not 0 <= components <= _MOST_COMPONENTS or not 0 <= stripes <= MOST_STRIPES * max(components, 1):
            return None
        return _COMPONENT * components + 8 * stripes if components else 0

    def _layout_2(self, record: memoryview) -> FileLayout | None:
        order = self._header.order
        file, _, count, _ = struct.unpack_from(f"{order}Qqqq", record)
        osts = struct.unpack_from(f"{order}{(len(record) - 32 - _COMPONENT * count) // 8}q", record, 32 + 72 * count)
        components, pool = [], ""
        for i in range(count):
            size, stripes, _, _, begin, end, _, name = struct.unpack_from(f"{order}7q16s", record, 32 + _COMPONENT * i)
            if size == -1:  # unused by Darshan's runtime
                break
            components.append(Component(size, begin, end, max(stripes, 0)))
            pool = pool or name.partition(b"\0")[0].decode("utf-8", "replace")
        used = sum(component.stripes for component in components)
        return _check_layout(file, components, osts[:used], pool)

    def _record_size(self, module: Module) -> int:
        sizes = RECORD_SIZES[module.name]
        if module.version not in sizes:
            reason = f"has {module.name} records of version {module.version}; the newest readable one is {max(sizes)}"
            raise UnreadableSection(str(self._path), reason)
        return sizes[module.version]

    @property
    def order(self) -> str:
        """The byte order of the log, in the notation of `struct`."""
        return self._header.order

    def records_of_any_length(
        self, module: Module, tail_length: Callable[[memoryview], int | None]
    ) -> Iterator[memoryview]:
        """Yield records: a head, then as many bytes as `tail_length(head)` says. A record is valid until the next."""
        head = self._record_size(module)
        buffer = bytearray()
        for piece in self._pieces(self._header.module(module.number), module.name):
            buffer += piece
            at = 0
            with memoryview(buffer) as view:
                while len(view) - at >= head:
                    more = tail_length(view[at : at + head])
                    if more is None:
                        raise self.damage(f"its {module.name} records have an impossible length")
                    if len(view) - at < head + more:
                        break
                    with view[at : at + head + more] as record:
                        yield record
                    at += head + more
            del buffer[:at]
        if buffer:
            raise self.damage(f"its last {module.name} record is truncated")

    def _pieces(self, place: Place, name: str) -> Iterator[bytes]:
        """Yield a section decompressed; each process may have compressed its records separately."""
        stream: Any = None
        at, end = place.offset, place.offset + place.length
        while at < end:
            self._file.seek(at)  # the caller may have read another section meanwhile
            packed = self._file.read(min(end - at, _READ))
            if not packed:
                break
            at += len(packed)
            while packed:
                stream = stream or zlib.decompressobj()
                try:
                    yield from _decompress(stream, packed)
                except zlib.error:
                    raise self.damage(f"its {name} section cannot be decompressed", UnreadableSection) from None
                packed, stream = (stream.unused_data, None) if stream.eof else (b"", stream)
        if stream is not None:
            raise self.damage(f"its {name} section is truncated", UnreadableSection)


def _decompress(stream: Any, packed: bytes) -> Iterator[bytes]:
    """Yield the decompressed bytes, in pieces of limited size."""
    while True:
        piece = stream.decompress(packed, _PIECE)
        if piece:
            yield piece
        packed = stream.unconsumed_tail
        if stream.eof or (not packed and len(piece) < _PIECE):
            return


def _check_layout(file: int, components: list[Component], osts: Sequence[int], pool: str) -> FileLayout | None:
    """The layout; None if its numbers are impossible."""
    if sum(c.stripes for c in components) > len(osts) or any(c.size < 0 or c.begin < 0 for c in components):
        return None
    if osts and not -1 <= min(osts) <= max(osts) < MOST_OSTS:
        return None
    return FileLayout(file, tuple(components), array("q", osts), pool)
