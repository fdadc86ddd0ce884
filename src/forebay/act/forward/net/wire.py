"""What goes over the wire between clients, I/O nodes, data servers and the council: bytes in, messages out, no sockets.

Every message is a header of fixed length and a payload. Numbers are little-endian:

    magic 2s | version u8 | kind u8 | flags u16 | status u16 | length u32 | size u32 | crc u32
    tag u64 | file u64 | offset u64 | session u64

`length` is that of the payload. The asker chooses `tag`, and the answer repeats it. The `status` of an answer is 0
or an errno. `size` is how many bytes a read wants, or a write wrote. `session` identifies the client: a data server
refuses every session that it was asked to `FENCE`, so that a request which an I/O node sends late can't overwrite what
its client has since written through another node. With the flag CHECKED, `crc` is the payload's CRC-32, and the answer
must be CHECKED too.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

import msgspec

from forebay.act.forward.net.buffers import SMALL, Buffers
from forebay.model.errors import ForebayError

MAGIC = b"FB"
VERSION = 1
HEADER = struct.Struct("<2sBBHHIIIQQQQ")
LONGEST = 16 << 20
"""The most bytes of payload of a message."""
SHORT = 2048
"""The most bytes of payload from a peer that has not proved who it is."""
LAST_OFFSET = (1 << 63) - 1
AGAIN = errno.EAGAIN
"""The status when a process is away; nobody knows whether it carried out the request. Ask again."""

_INLINE = 1024
"""Bytes of payload up to which a copy is cheaper than a separate buffer."""

Bytes: TypeAlias = bytes | bytearray | memoryview
T = TypeVar("T")


class Kind(IntEnum):
    """What a message asks for; the comments say which header fields and payloads (see payloads.py) go both ways."""

    HELLO = 1  # who is there, and a challenge (see auth.py)
    PROOF = 2
    WELCOME = 3
    READ = 16  # file, offset, size -> the bytes, fewer at the end of what there is
    WRITE = 17  # file, offset, the bytes -> size
    FSYNC = 18  # file
    OPEN = 32  # OpenRequest -> FileStatus; file is its id
    ATTACH = 33  # file -> FileStatus; ESTALE if the file no longer exists
    STAT = 34  # PathRequest, or file -> FileStatus; an I/O node adds the size
    TRUNCATE = 35  # file, offset: the new length of the file (client) or of the object (data server)
    UNLINK = 36  # RemoveRequest -> ForgetList from the server of the names, nothing from an I/O node
    READDIR = 37  # ListRequest -> ListPage
    MKDIR = 38  # MkdirRequest
    RMDIR = 39  # RemoveRequest
    RENAME = 40  # RenameRequest -> as UNLINK
    LAYOUT = 41  # LayoutRequest -> LayoutAnswer
    FENCE = 42  # file: the session to refuse from now on
    STATFS = 43  # -> Space
    CLOSE = 44  # file
    FORGET = 45  # file: remove its object from one data server
    SIZE = 46  # file -> ObjectSize on one data server
    SETATTR = 47  # AttributesRequest, or with file instead of a path
    PENDING = 48  # -> ForgetList: unlinked files whose objects may still exist
    FORGOTTEN = 49  # file: the objects of an unlinked file are gone from all servers
    ANNOUNCE = 64  # I/O node to council, each second: Announcement
    DECIDE = 65  # council to I/O node: Decision
    JOB = 66  # I/O node to council: JobReport, once a job is gone


_KINDS = frozenset(int(kind) for kind in Kind)


class Flag:
    """Bits of `flags`; plain numbers, since every message tests them."""

    REPLY = 1
    CHECKED = 2


class BadMessage(ForebayError):
    """The peer violates the protocol; nothing that it sends afterwards can be trusted."""


class WrongFields(BadMessage):
    """A payload that misses a field, or has one of the wrong type."""


class Message(msgspec.Struct, eq=False):
    """One message. If it has a `buffer`, its payload is valid until `release` returns the buffer."""

    kind: int
    flags: int = 0
    status: int = 0
    size: int = 0
    tag: int = 0
    file: int = 0
    offset: int = 0
    session: int = 0
    payload: Bytes = b""
    buffer: memoryview | None = None
    buffers: Buffers | None = None

    def release(self) -> None:
        """Give the payload up; a second call does nothing."""
        if self.buffer is not None and self.buffers is not None:
            self.payload = b""
            self.buffers.give(self.buffer)
            self.buffer = None

    def detach(self) -> Message:
        """Copy the payload so that it outlives its buffer, and return the buffer."""
        if self.buffer is not None:
            payload = bytes(self.payload)
            self.release()
            self.payload = payload
        return self

    def error_text(self) -> str:
        """The reason in an answer that is an error."""
        return bytes(self.payload).decode(errors="replace") or os.strerror(self.status).lower()

    def header(self, length: int | None = None, crc: int | None = None) -> bytes:
        """The message's header; pass `length` and `crc` if the payload goes out in pieces."""
        if crc is None:
            crc = zlib.crc32(self.payload) if self.flags & Flag.CHECKED else 0
        return HEADER.pack(
            MAGIC, VERSION, self.kind, self.flags, self.status, len(self.payload) if length is None else length,
            self.size, crc, self.tag, self.file, self.offset, self.session,
        )  # fmt: skip

    def __repr__(self) -> str:
        name = Kind(self.kind).name if self.kind in _KINDS else self.kind
        values = ((n, getattr(self, n)) for n in ("flags", "status", "size", "tag", "file", "offset", "session"))
        fields = ", ".join(f"{n}={value}" for n, value in values if value)
        return f"<{name} {fields} +{len(self.payload)} bytes>"


def answer_header(
    asked: Message, *, status: int = 0, size: int = 0, file: int = 0, offset: int = 0, length: int = 0, crc: int = 0
) -> bytes:
    """The header of the answer to a message; pass `crc` (see `checksum`) if the message was CHECKED."""
    flags = Flag.REPLY | (asked.flags & Flag.CHECKED if length else 0)
    return HEADER.pack(
        MAGIC, VERSION, asked.kind, flags, status, length, size, crc, asked.tag, file, offset, asked.session
    )


def checksum(pieces: Iterable[Bytes]) -> int:
    """The CRC-32 of pieces that go out one after the other."""
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    return crc


pack = msgspec.msgpack.encode
"""Encode a value as a payload."""


def unpack_as(shape: type[T], payload: Bytes) -> T:
    """Decode a payload as a value of this type; BadMessage if it is not one.

    >>> unpack_as(dict[str, bytes], pack({"path": b"/a"}))
    {'path': b'/a'}
    """
    try:
        return msgspec.msgpack.decode(payload, type=shape)
    except msgspec.ValidationError as error:
        raise WrongFields(f"malformed payload: {error}") from None
    except (msgspec.DecodeError, RecursionError, ValueError, TypeError) as error:
        raise BadMessage(f"malformed payload: {error}") from None


class Receiver:
    """One direction of a connection: provides room for bytes, and turns received bytes into messages.

    The room is as long as the last message, since the next one most likely has the same length. Then one read takes a
    whole message into its final buffer, and nothing is copied. Between messages it holds no large buffer.
    """

    def __init__(self, buffers: Buffers, longest: int = LONGEST) -> None:
        self.longest = longest
        self._buffers = buffers
        self._buffer: memoryview | None = None
        self._start = 0  # of the message that is arriving
        self._filled = 0
        self._wanted = HEADER.size  # bytes of this message, as far as known
        self._guess = SMALL

    @property
    def partial_bytes(self) -> int:
        """Bytes that have arrived of an incomplete message."""
        return self._filled - self._start

    def room(self) -> memoryview | None:
        """Where the next bytes go, never empty; None while there is no memory for them."""
        buffer = self._buffer
        if buffer is None:
            buffer = self._buffer = self._buffers.ask(self._guess) or self._buffers.take(SMALL)
        if self._start + self._wanted > len(buffer):
            moved = self._make_room(buffer)
            if moved is None:
                return None
            buffer = moved
        return buffer[self._filled : self._start + max(self._wanted, self._guess)]

    def advance(self, count: int) -> None:
        """`count` bytes were put into the room."""
        self._filled += count

    def next(self) -> Message | None:
        """The next complete message."""
        buffer, start = self._buffer, self._start
        have = self._filled - start
        if buffer is None or have < HEADER.size:
            self._wanted = HEADER.size
            if buffer is not None and have == 0:
                self._start = self._filled = 0
                if len(buffer) > SMALL:  # an idle connection must not hold one that another needs
                    self._buffers.give(buffer)
                    self._buffer = None
            return None
        fields = HEADER.unpack_from(buffer, start)
        magic, version, kind, flags, status, length, size, crc, tag, file, offset, session = fields
        if magic != MAGIC or version != VERSION or kind not in _KINDS or length > self.longest or offset > LAST_OFFSET:
            raise self._violation(fields)
        end = HEADER.size + length
        if have < end:
            self._wanted = end
            return None
        self._wanted = HEADER.size
        self._guess = end if end > SMALL else SMALL
        message = Message(kind, flags, status, size, tag, file, offset, session)
        if not length and not crc:
            self._start = start + end
            return message
        payload, end = buffer[start + HEADER.size : start + end], start + end
        if flags & Flag.CHECKED and zlib.crc32(payload) != crc:
            raise BadMessage("the checksum of a payload is wrong")
        if length <= _INLINE:
            message.payload, self._start = bytes(payload), end
            return message
        # The buffer goes with its message; what came behind it moves to a new one.
        message.payload, message.buffer, message.buffers = payload, buffer, self._buffers
        rest = self._filled - end
        self._buffer = None
        if rest:
            self._buffer = self._buffers.take(max(rest, SMALL))
            self._buffer[:rest] = buffer[end : self._filled]
        self._start, self._filled = 0, rest
        return message

    def close(self) -> None:
        """Return the buffer."""
        if self._buffer is not None:
            self._buffers.give(self._buffer)
            self._buffer = None
        self._start = self._filled = 0

    def _violation(self, fields: tuple[Any, ...]) -> BadMessage:
        magic, version, kind, length, offset = fields[0], fields[1], fields[2], fields[5], fields[10]
        if magic != MAGIC:
            return BadMessage("this is not Forebay's protocol")
        if version != VERSION:
            return BadMessage(f"protocol version {version} is not supported; this side uses version {VERSION}")
        if kind not in _KINDS:
            return BadMessage(f"unknown kind of message: {kind}")
        if length > self.longest:
            return BadMessage(f"message of {length} bytes exceeds the limit of {self.longest}")
        return BadMessage(f"offset {offset} is beyond 2^63")

    def _make_room(self, buffer: memoryview) -> memoryview | None:
        """Move the beginning of a message that does not fit to where it does."""
        have = self._filled - self._start
        target = buffer
        if self._wanted > len(buffer):
            larger = self._buffers.ask(self._wanted)
            if larger is None:
                return None
            target = larger
        target[:have] = buffer[self._start : self._filled]
        if target is not buffer:
            self._buffers.give(buffer)
        self._buffer, self._start, self._filled = target, 0, have
        return target
