"""The sections of a log, decompressed and parsed.

Darshan's library trusts what it reads: a wrong length in a record makes it write beyond its memory, and it silently
drops a truncated record. So records of varying length are parsed here and never by the library, and the others are
checked before the library reads them.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from forebay.history.darshan.header import Header, Place, UnreadableLog
from forebay.history.run_fields import MOST_OSTS, MOST_STRIPES

_READ = 1 << 16
_PIECE = 1 << 20
RECORD_SIZES = {
    "POSIX": {1: 680, 2: 648, 3: 664, 4: 704},
    "MPI-IO": {1: 544, 2: 544, 3: 560},
    "STDIO": {1: 240, 2: 248},
    "DFS": {1: 584},
    "DAOS": {1: 696},
}
"""Bytes of a record, by the version of its module."""
LUSTRE_VERSIONS = (1, 2)
HEATMAP_VERSIONS = (1,)
_COMPONENT = 72
_MOST_COMPONENTS = 4096
_MOST_BINS = 1 << 20
_MPIIO_HEATMAP = 3668870418325792824  # what processes asked of MPI-IO, not what reached the file system
_JOB_BYTES = 4096
_NUMBER, _NUMBER_AND_LENGTH = struct.Struct("=Q"), struct.Struct("=QI")


class UnreadableSection(UnreadableLog):
    """One section of a log can't be read; others may be readable."""


class Component(NamedTuple):
    """A component of a file's layout: stripe size, first byte, end (-1 for none), and number of stripes."""

    size: int
    begin: int
    end: int
    stripes: int


class FileLayout(NamedTuple):
    """The layout of one file; `osts` are those of all components in turn, -1 if not chosen yet."""

    file: int
    components: tuple[Component, ...]
    osts: array[int]
    pool: str


class Sections:
    """The sections of one log."""

    def __init__(self, path: Path, header: Header, file: IO[bytes]) -> None:
        self._path, self._header, self._file = path, header, file

    def job(self) -> tuple[tuple[int, ...], bytes]:
        """The job's numbers (user, start, end, processes, job id; from format 3.41 on with nanoseconds), and its text:
        the command line, then a line for each mount."""
        numbers = 7 if self._header.wide else 5
        whole = b""
        for piece in self._pieces(self._header.job, "job"):
            whole += piece
            if len(whole) >= _JOB_BYTES:
                break
        text = 8 * numbers + 1024  # after metadata that is not needed
        if len(whole) < text:
            raise UnreadableSection(str(self._path), "is damaged: its job section can't be read")
        return struct.unpack_from(f"{self._header.order}{numbers}q", whole), whole[text:_JOB_BYTES].partition(b"\0")[0]

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
        """The file id, its name and where the next entry begins; None if the entry is incomplete."""
        head = _NUMBER_AND_LENGTH if self._header.version == (3, 0) else _NUMBER
        if len(buffer) < at + head.size:
            return None
        if head is _NUMBER:
            end = buffer.find(0, at + head.size)
            after = end + 1
        else:
            end = after = at + head.size + struct.unpack_from(f"{self._header.order}I", buffer, at + 8)[0]
        if not at + head.size <= end <= len(buffer) or after > len(buffer):
            return None
        [file] = struct.unpack_from(f"{self._header.order}Q", buffer, at)
        return file, bytes(buffer[at + head.size : end]), after

    def check_records(self, name: str, number: int, version: int) -> None:
        """Check that a module has whole records of the size of its version."""
        size = RECORD_SIZES[name].get(version)
        if size is None:
            raise self._unknown(name, version, max(RECORD_SIZES[name]))
        length = sum(map(len, self._pieces(self._header.module(number), name)))
        if length % size:
            raise UnreadableLog(
                str(self._path),
                f"is damaged: its {name} section has {length:,} bytes, not a multiple of the record size {size}",
            )

    def layouts(self, number: int, version: int) -> Iterator[FileLayout]:
        """The layout of each file on Lustre."""
        if version not in LUSTRE_VERSIONS:
            raise self._unknown("LUSTRE", version, max(LUSTRE_VERSIONS))
        head, rest, parse = (56, self._rest_1, self._layout_1) if version == 1 else (32, self._rest_2, self._layout_2)
        for record in self._records("LUSTRE", number, head, rest):
            layout = parse(record)
            if layout is None:
                raise UnreadableLog(str(self._path), "is damaged: the layout of a file is impossible")
            yield layout

    def active_ranks(self, number: int, version: int) -> set[int]:
        """The ranks of the processes that moved any bytes, by the heat maps."""
        if version not in HEATMAP_VERSIONS:
            raise self._unknown("HEATMAP", version, max(HEATMAP_VERSIONS))
        head = struct.Struct(f"{self._header.order}Qqdq")

        def rest(record: memoryview) -> int | None:
            bins = int(head.unpack_from(record)[3])
            return 16 * bins if 0 <= bins <= _MOST_BINS else None

        ranks: set[int] = set()
        for record in self._records("HEATMAP", number, 48, rest):
            kind, rank, _, _ = head.unpack_from(record)
            if kind != _MPIIO_HEATMAP and any(record[48:]):
                ranks.add(rank)
        return ranks

    def _rest_1(self, head: memoryview) -> int | None:
        [count] = struct.unpack_from(f"{self._header.order}q", head, 48)
        return 8 * count if 0 <= count <= MOST_STRIPES else None

    def _layout_1(self, record: memoryview) -> FileLayout | None:
        file, _, _, _, _, size, count, *osts = struct.unpack(f"{self._header.order}Q{len(record) // 8 - 1}q", record)
        return _checked_layout(file, [Component(size, 0, -1, count)], osts, "")

    def _rest_2(self, head: memoryview) -> int | None:
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
            if size == -1:  # not used by the runtime
                break
            components.append(Component(size, begin, end, max(stripes, 0)))
            pool = pool or name.partition(b"\0")[0].decode("utf-8", "replace")
        used = sum(component.stripes for component in components)
        return _checked_layout(file, components, osts[:used], pool)

    def _records(
        self, name: str, number: int, head: int, rest: Callable[[memoryview], int | None]
    ) -> Iterator[memoryview]:
        """Records of `head` bytes plus as many as `rest` says. Each is valid until the next."""
        buffer = bytearray()
        for piece in self._pieces(self._header.module(number), name):
            buffer += piece
            at = 0
            with memoryview(buffer) as view:
                while len(view) - at >= head:
                    more = rest(view[at : at + head])
                    if more is None:
                        raise UnreadableLog(
                            str(self._path), f"is damaged: the length of its {name} records is impossible"
                        )
                    if len(view) - at < head + more:
                        break
                    with view[at : at + head + more] as record:
                        yield record
                    at += head + more
            del buffer[:at]
        if buffer:
            raise UnreadableLog(str(self._path), f"is damaged: its last {name} record is truncated")

    def _pieces(self, place: Place, name: str) -> Iterator[bytes]:
        """A decompressed section; each process may have compressed its own records."""
        stream: Any = None
        for packed in self._packed(place):
            rest = packed
            while rest:
                stream = stream or zlib.decompressobj()
                try:
                    yield from _decompressed(stream, rest)
                except zlib.error:
                    raise UnreadableSection(
                        str(self._path), f"is damaged: its {name} section can't be decompressed"
                    ) from None
                rest, stream = (stream.unused_data, None) if stream.eof else (b"", stream)
        if stream is not None:
            raise UnreadableSection(str(self._path), f"is damaged: its {name} section is truncated")

    def _packed(self, place: Place) -> Iterator[bytes]:
        at, end = place.offset, place.offset + place.length
        while at < end:
            self._file.seek(at)  # another section may have been read meanwhile
            packed = self._file.read(min(end - at, _READ))
            if not packed:
                return
            at += len(packed)
            yield packed

    def _unknown(self, name: str, version: int, newest: int) -> UnreadableSection:
        return UnreadableSection(
            str(self._path), f"has {name} records of version {version}; the newest known one is {newest}"
        )


def _decompressed(stream: Any, packed: bytes) -> Iterator[bytes]:
    """The decompressed bytes, in pieces of limited size."""
    while True:
        piece = stream.decompress(packed, _PIECE)
        if piece:
            yield piece
        packed = stream.unconsumed_tail
        if stream.eof or (not packed and len(piece) < _PIECE):
            return


def _checked_layout(file: int, components: list[Component], osts: Sequence[int], pool: str) -> FileLayout | None:
    """The layout; None if it is impossible."""
    if sum(c.stripes for c in components) > len(osts) or any(c.size < 0 or c.begin < 0 for c in components):
        return None
    if osts and not -1 <= min(osts) <= max(osts) < MOST_OSTS:
        return None
    return FileLayout(file, tuple(components), array("q", osts), pool)
