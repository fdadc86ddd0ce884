"""The header of a Darshan log: its format, whether it is complete, and where its sections are.

The library says little about a log that it can't read, so the checks here explain what is wrong.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from forebay.model.errors import BadInput, why

MAGIC = 6567223
NEWEST = (3, 41)
"""The newest known log format, that of Darshan 3.4.1 and later."""
_OLDEST = (3, 0)
_KNOWN = (_OLDEST, (3, 10), (3, 20), (3, 21), NEWEST)
_FIRST_WIDE = (3, 41)  # from here on with room for 64 modules, before for 16
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2"}
_INSERTED = {6: (3, 41), 4: (3, 20)}  # PNETCDF_VAR and H5D moved all later module numbers up, since these formats


class UnreadableLog(BadInput):
    """A log that can't be read."""


class Place(NamedTuple):
    """The place of a section of a log, in bytes."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """`order` is the byte order, as `struct` writes it. `modules` are the places of the modules' sections, by module
    number in the log's own format."""

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
    """The header of a complete log of a known format."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(2048)
    except OSError as error:
        raise UnreadableLog(str(path), why(error)) from None
    _check_kind(path, head)
    text, version = _version(path, head)
    _check_compression(path, head)
    header = _parse_header(head, text, version, size)
    if header is None:
        raise UnreadableLog(str(path), f"is truncated: {size:,} bytes")
    end = max(sum(place) for place in (header.names, *header.modules))
    if end > size:
        raise UnreadableLog(str(path), f"is truncated: {size:,} bytes, but its header announces {end:,}")
    if header.job.length <= 0 or any(
        p.length and p.offset < header.job.offset for p in (header.names, *header.modules)
    ):
        raise UnreadableLog(str(path), "is damaged: its sections overlap")
    return header


def _check_kind(path: Path, head: bytes) -> None:
    if not head:
        raise UnreadableLog(str(path), "is empty (0 bytes)")
    for start, kind in _COMPRESSED.items():
        if head.startswith(start):
            raise UnreadableLog(str(path), f"is {kind}-compressed, like logs before Darshan 3.0, which can't be read")
    magic = head[8:16]
    if len(magic) == 8 and struct.unpack(">q", magic)[0] == MAGIC:
        return  # of a machine with the other byte order; the library converts it
    if len(magic) < 8 and head[:2] in (b"3.", b"4."):
        raise UnreadableLog(str(path), f"is truncated: {len(head)} bytes")
    if len(magic) < 8 or struct.unpack("<q", magic)[0] != MAGIC:
        raise UnreadableLog(str(path), "is not a Darshan log")


def _version(path: Path, head: bytes) -> tuple[str, tuple[int, int]]:
    text = head[:8].split(b"\0")[0].decode("ascii", "replace")
    try:
        major, minor = (int(part) for part in text.split("."))
    except ValueError:
        raise UnreadableLog(str(path), f"has no valid format version ({text!r})") from None
    if (major, minor) > NEWEST:
        raise UnreadableLog(str(path), f"has log format {text}; the newest known one is {NEWEST[0]}.{NEWEST[1]}")
    if (major, minor) < _OLDEST:
        raise UnreadableLog(str(path), f"has log format {text}; the oldest readable one is 3.00")
    if (major, minor) not in _KNOWN:
        raise UnreadableLog(str(path), f"has log format {text}, which no Darshan release writes")
    return text, (major, minor)


def _check_compression(path: Path, head: bytes) -> None:
    kind = head[16:17]
    if kind == b"\1":
        raise UnreadableLog(str(path), "is compressed with bzip2; convert it with `darshan-convert`")
    if kind not in (b"", b"\0"):
        raise UnreadableLog(str(path), "is damaged: its compression is unknown")


def _parse_header(head: bytes, text: str, version: tuple[int, int], size: int) -> Header | None:
    """None if it is incomplete."""
    order = "<" if struct.unpack("<q", head[8:16])[0] == MAGIC else ">"
    modules, start = (64, 32) if version >= _FIRST_WIDE else (16, 24)
    count = 2 * (modules + 1)  # offset and length of the names, then of each module
    end = start + 8 * count + 4 * modules
    if len(head) < end:
        return None
    numbers = struct.unpack_from(f"{order}{count}Q", head, start)
    names, *places = map(Place, numbers[::2], numbers[1::2])
    first = next((place.offset for place in (names, *places) if place.offset), size)
    return Header(
        version=version,
        version_text=text,
        order=order,
        job=Place(end, first - end),
        names=names,
        modules=tuple(places),
    )
