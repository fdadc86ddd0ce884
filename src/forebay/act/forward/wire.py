"""What goes over the wire between clients, I/O nodes, data servers and the council: bytes in, messages out, no sockets.

Every message is a header of fixed length and a payload. Numbers are little-endian:

    magic 2s | version u8 | kind u8 | flags u16 | status u16 | length u32 | size u32 | crc u32
    tag u64 | file u64 | offset u64 | session u64

`length` is that of the payload. `tag` is the asker's, and comes back with the answer. `status` of an answer is 0
or an errno. `size` is how many bytes a read wants, or a write wrote. `session` is the client's: a data server that
was told to `FENCE` a session takes nothing of it any more, so that a request which an I/O node sends late can't
overwrite what its client has written through another since. With the flag CHECKED, `crc` is the payload's CRC-32.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum, IntFlag
from typing import Any, Protocol

import msgspec

from forebay.model.errors import ForebayError

MAGIC = b"FB"
VERSION = 1
HEADER = struct.Struct("<2sBBHHIIIQQQQ")
LONGEST = 16 << 20
"""Bytes of payload that a message may have."""
LAST_OFFSET = (1 << 63) - 1


class Kind(IntEnum):
    """What a message asks for."""

    HELLO = 1  # who is there, and a challenge (see forward/auth.py)
    PROOF = 2
    WELCOME = 3
    READ = 16
    WRITE = 17
    FSYNC = 18
    OPEN = 32  # the rest have words as payload (`packed`)
    ATTACH = 33
    STAT = 34
    TRUNCATE = 35
    UNLINK = 36
    READDIR = 37
    MKDIR = 38
    RMDIR = 39
    RENAME = 40
    LAYOUT = 41
    FENCE = 42
    STATFS = 43
    CLOSE = 44
    FORGET = 45  # remove a file's object from one data server
    SIZE = 46  # of a file's object on one data server
    ANNOUNCE = 64  # I/O node to council, each second
    DECIDE = 65  # council to I/O node
    JOB = 66  # I/O node to council: what a job did, once it is gone


class Flag(IntFlag):
    REPLY = 1
    CHECKED = 2


class BadMessage(ForebayError):
    """The peer does not keep to the protocol; nothing that it sent afterwards can be trusted."""


class Message:
    """One message. `payload` is valid until `release` is called, which gives its buffer back."""

    __slots__ = ("buffer", "file", "flags", "kind", "offset", "payload", "session", "size", "status", "tag")

    def __init__(
        self,
        kind: int,
        *,
        flags: int = 0,
        status: int = 0,
        size: int = 0,
        tag: int = 0,
        file: int = 0,
        offset: int = 0,
        session: int = 0,
        payload: Any = b"",
        buffer: Any = None,
    ) -> None:
        self.kind = kind
        self.flags = flags
        self.status = status
        self.size = size
        self.tag = tag
        self.file = file
        self.offset = offset
        self.session = session
        self.payload = payload
        self.buffer = buffer

    def header(self, length: int | None = None) -> bytes:
        """The message's header; `length` where the payload goes out in pieces."""
        crc = zlib.crc32(self.payload) if self.flags & Flag.CHECKED else 0
        return HEADER.pack(
            MAGIC,
            VERSION,
            self.kind,
            self.flags,
            self.status,
            len(self.payload) if length is None else length,
            self.size,
            crc,
            self.tag,
            self.file,
            self.offset,
            self.session,
        )


def packed(words: Any) -> bytes:
    """A payload of words and numbers."""
    return msgspec.msgpack.encode(words)


def unpacked(payload: Any) -> Any:
    """The words of a payload.

    >>> unpacked(packed({"path": "/a"}))
    {'path': '/a'}
    """
    try:
        return msgspec.msgpack.decode(payload)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise BadMessage(f"a payload of words can't be read: {error}") from None


class Buffers(Protocol):
    """Where memory for messages comes from."""

    def take(self, length: int) -> memoryview:
        """At least so many bytes."""

    def give(self, buffer: memoryview) -> None:
        """Back, to be used again."""


class Receiver:
    """One direction of a connection: gives room for bytes, and turns those that came into messages.

    The room is as long as the last message was, since the next one is most likely of the same length: then one
    read takes one message whole, straight into the buffer that it stays in, and nothing is copied.
    """

    def __init__(self, buffers: Buffers, longest: int = LONGEST) -> None:
        self._buffers = buffers
        self.longest = longest
        self._buffer = buffers.take(HEADER.size)
        self._filled = 0
        self._wanted = HEADER.size  # bytes of this message, as far as is known
        self._guess = HEADER.size

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return self._buffer[self._filled : max(self._wanted, min(self._guess, len(self._buffer)))]

    def received(self, count: int) -> Iterator[Message]:
        """The messages that are whole now that `count` bytes were put into the room; take them all."""
        self._filled += count
        while self._filled >= HEADER.size:
            fields = HEADER.unpack_from(self._buffer)
            end = HEADER.size + self._checked_length(fields)
            if self._filled < end:
                self._wanted = end
                self._move_if_short(end)
                return
            yield self._message(fields, end)

    def close(self) -> None:
        """Give back what is held."""
        self._buffers.give(self._buffer)

    def _checked_length(self, fields: tuple[Any, ...]) -> int:
        magic, version, length, offset = fields[0], fields[1], fields[5], fields[10]
        if magic != MAGIC:
            raise BadMessage("this is not Forebay's protocol")
        if version != VERSION:
            raise BadMessage(f"protocol version {version}; this side speaks {VERSION}")
        if length > self.longest:
            raise BadMessage(f"a message of {length} bytes; the longest allowed has {self.longest}")
        if offset > LAST_OFFSET:
            raise BadMessage(f"offset {offset} is beyond 2^63")
        return int(length)

    def _move_if_short(self, end: int) -> None:
        if end > len(self._buffer):
            larger = self._buffers.take(end)
            larger[: self._filled] = self._buffer[: self._filled]
            self._buffers.give(self._buffer)
            self._buffer = larger

    def _message(self, fields: tuple[Any, ...], end: int) -> Message:
        _, _, kind, flags, status, _, size, crc, tag, file, offset, session = fields
        buffer, filled = self._buffer, self._filled
        payload = buffer[HEADER.size : end]
        if flags & Flag.CHECKED and zlib.crc32(payload) != crc:
            raise BadMessage("a payload's checksum is wrong")
        rest = filled - end
        self._buffer = self._buffers.take(max(end, rest))
        self._buffer[:rest] = buffer[end:filled]
        self._filled, self._wanted, self._guess = rest, HEADER.size, end
        return Message(
            kind,
            flags=flags,
            status=status,
            size=size,
            tag=tag,
            file=file,
            offset=offset,
            session=session,
            payload=payload,
            buffer=buffer,
        )
