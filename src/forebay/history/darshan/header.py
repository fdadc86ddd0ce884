"""The first bytes of a Darshan log: whether it is one, whether it is whole, and whether we can read it.

The library says little about a log that it can't read, so what can be told from the header is told here.
"""

from __future__ import annotations

import struct
from pathlib import Path

from forebay.model.errors import BadInput, why

MAGIC = 6567223
NEWEST = (3, 41)
"""The newest log format that is known; 3.41 is that of Darshan 3.4.1 and later."""
_OLDEST = (3, 0)
_FIRST_WIDE = (3, 41)  # from here on there is room for 64 modules, before for 16
_ENDS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2"}


class UnreadableLog(BadInput):
    """A log that nothing can be had from."""


def check(path: Path) -> bytes:
    """The log's bytes up to the end of its header, if it is a whole log of a known format."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(2048)
    except OSError as error:
        raise UnreadableLog(str(path), why(error)) from None
    _check_kind(path, head)
    end = _end(head, _version(path, head))
    if end is None or end > size:
        wanted = f"; {end:,} bytes are announced" if end else ""
        raise UnreadableLog(str(path), f"is truncated: {size:,} bytes{wanted}")
    return head


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


def _version(path: Path, head: bytes) -> tuple[int, int]:
    text = head[:8].split(b"\0")[0].decode("ascii", "replace")
    try:
        major, minor = (int(part) for part in text.split("."))
    except ValueError:
        raise UnreadableLog(str(path), f"does not say which format it has ({text!r})") from None
    if (major, minor) > NEWEST:
        raise UnreadableLog(str(path), f"has log format {text}, newer than the {NEWEST[0]}.{NEWEST[1]} known here")
    if (major, minor) < _OLDEST:
        raise UnreadableLog(str(path), f"has log format {text}; formats from 3.00 on can be read")
    return major, minor


def _end(head: bytes, version: tuple[int, int]) -> int | None:
    """Where the last part of the log ends; None if not even the header is there."""
    order = "<" if struct.unpack("<q", head[8:16])[0] == MAGIC else ">"
    modules, start = (64, 32) if version >= _FIRST_WIDE else (16, 24)
    count = 2 * (modules + 1)  # offset and length of the names, then of each module
    if len(head) < start + 8 * count + 4 * modules:
        return None
    numbers = struct.unpack_from(f"{order}{count}Q", head, start)
    return max(int(offset + length) for offset, length in zip(numbers[::2], numbers[1::2], strict=True))
