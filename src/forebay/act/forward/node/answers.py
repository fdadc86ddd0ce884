"""The answers to reads and writes, put together from what servers sent."""

from forebay.act.forward.net.wire import HEADER, MAGIC, VERSION, Bytes, Flag, Kind, checksum
from forebay.act.forward.node.dispatch import Request
from forebay.act.forward.striping import sort_parts

_READ, _WRITE = int(Kind.READ), int(Kind.WRITE)
_REPLY, _CHECKED = Flag.REPLY, Flag.CHECKED
_ZEROS = memoryview(bytes(1 << 20))
_pack = HEADER.pack


def status_answer(request: Request) -> list[Bytes]:
    """The answer to a write."""
    of, status = request.message, request.object
    if not status:
        return [_pack(MAGIC, VERSION, _WRITE, _REPLY, 0, 0, request.size, 0, of.tag, of.file, 0, of.session)]
    checked = of.flags & _CHECKED
    crc = checksum((status,)) if checked else 0
    size, length, flags = request.size, len(status), _REPLY | checked
    return [_pack(MAGIC, VERSION, _WRITE, flags, 0, length, size, crc, of.tag, of.file, 0, of.session), status]


def data_answer(request: Request, parts: list[Bytes], length: int) -> list[Bytes]:
    """The answer to a read, with parts of this length together."""
    of = request.message
    checked = of.flags & _CHECKED
    crc = checksum(parts) if checked else 0
    header = _pack(MAGIC, VERSION, _READ, _REPLY | checked, 0, length, length, crc, of.tag, of.file, 0, of.session)
    return [header, *parts]


def order_parts(request: Request) -> list[Bytes]:
    """Order the bytes of a read for which every server had all bytes."""
    pieces, parts = request.pieces, request.parts
    if len(pieces) == 1 or not any(piece.cuts for piece in pieces):
        return parts  # type: ignore[return-value]
    return [part for _, _, part in sort_parts(zip(pieces, parts, strict=True))]


def fill_holes(request: Request, size: int) -> list[Bytes]:
    """Order the bytes of a read for which servers had fewer bytes; holes in a file of `size` bytes become zeros.

    Beyond that size, the data ends at the first missing byte: later bytes may be newer than the size.
    """
    end = size - request.message.offset
    data: list[Bytes] = []
    answers = ((piece, part or b"") for piece, part in zip(request.pieces, request.parts, strict=True))
    for at, length, part in sort_parts(answers):
        data.append(part)
        hole = min(length, end - at) - len(part)
        data += (_ZEROS[: hole - begin] for begin in range(0, hole, len(_ZEROS)))
        if max(len(part), end - at) < length:
            break
    return data
