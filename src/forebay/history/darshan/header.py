"""The first bytes of a Darshan log: whether it is one, whether it is whole, and where its parts are.

The library says little about a log that it can't read, so what can be told from the header is told here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from forebay.model.errors import BadInput, why

MAGIC = 6567223
NEWEST = (3, 41)
"""The newest log format that is known; 3.41 is that of Darshan 3.4.1 and later."""
_OLDEST = (3, 0)
_KNOWN = (_OLDEST, (3, 10), (3, 20), (3, 21), NEWEST)
_FIRST_WIDE = (3, 41)  # from here on there is room for 64 modules, before for 16
_ENDS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2"}
_INSERTED = {6: (3, 41), 4: (3, 20)}  # PNETCDF_VAR and H5D: the numbers that moved all later ones up, and since when


class UnreadableLog(BadInput):
    """A log that nothing can be had from."""


class Place(NamedTuple):
    """Where a part of a log is, in bytes."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """`order` is that of bytes in numbers, as `struct` writes it. `modules` are the places of the parts of modules,
    by the numbers that the log's own format gives them."""

    version: tuple[int, int]
    version_text: str
    order: str
    job: Place
    names: Place
    modules: tuple[Place, ...]

    @property
    def wide(self) -> bool:
        """Whether it is of the newer kind, with room for 64 modules and with times in nanoseconds."""
        return self.version >= _FIRST_WIDE

    def module(self, number: int) -> Place:
        """The place of a module's part, by the number that today's library gives it."""
        for inserted, since in _INSERTED.items():
            number -= self.version < since and number > inserted
        return self.modules[number]


def read_header(path: Path) -> Header:
    """The header of a whole log of a known format."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(2048)
    except OSError as error:
        raise UnreadableLog(str(path), why(error)) from None
    _check_kind(path, head)
    text, version = _version(path, head)
    _check_compression(path, head)
    found = _header(head, text, version, size)
    if found is None:
        raise UnreadableLog(str(path), f"is truncated: {size:,} bytes")
    end = max(sum(place) for place in (found.names, *found.modules))
    if end > size:
        raise UnreadableLog(str(path), f"is truncated: {size:,} bytes; {end:,} bytes are announced")
    if found.job.length <= 0 or any(p.length and p.offset < found.job.offset for p in (found.names, *found.modules)):
        raise UnreadableLog(str(path), "is damaged: its parts overlap")
    return found


def _check_kind(path: Path, head: bytes) -> None:
    if not head:
        raise UnreadableLog(str(path), "is empty (0 bytes)")
    for start, kind in _ENDS.items():
        if head.startswith(start):
            raise UnreadableLog(str(path), f"is {kind}-compressed, as logs before Darshan 3.0 are; they can't be read")
    magic = head[8:16]
    if len(magic) == 8 and struct.unpack(">q", magic)[0] == MAGIC:
        return  # of a machine with the other byte order; the library turns it round
    if len(magic) < 8 and head[:2] in (b"3.", b"4."):
        raise UnreadableLog(str(path), f"is truncated: {len(head)} bytes")
    if len(magic) < 8 or struct.unpack("<q", magic)[0] != MAGIC:
        raise UnreadableLog(str(path), "is not a Darshan log")


def _version(path: Path, head: bytes) -> tuple[str, tuple[int, int]]:
    text = head[:8].split(b"\0")[0].decode("ascii", "replace")
    try:
        major, minor = (int(part) for part in text.split("."))
    except ValueError:
        raise UnreadableLog(str(path), f"does not say which format it has ({text!r})") from None
    if (major, minor) > NEWEST:
        raise UnreadableLog(str(path), f"has log format {text}, newer than the {NEWEST[0]}.{NEWEST[1]} known here")
    if (major, minor) < _OLDEST:
        raise UnreadableLog(str(path), f"has log format {text}; formats from 3.00 on can be read")
    if (major, minor) not in _KNOWN:
        raise UnreadableLog(str(path), f"has log format {text}, which no Darshan release writes")
    return text, (major, minor)


def _check_compression(path: Path, head: bytes) -> None:
    kind = head[16:17]
    if kind == b"\1":
        raise UnreadableLog(str(path), "is compressed with bzip2; `darshan-convert` makes a log of it that can be read")
    if kind not in (b"", b"\0"):
        raise UnreadableLog(str(path), "is damaged: it is compressed in a way that nobody knows")


def _header(head: bytes, text: str, version: tuple[int, int], size: int) -> Header | None:
    """None if not all of it is there."""
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
