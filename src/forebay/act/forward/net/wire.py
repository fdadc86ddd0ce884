"""What goes over the wire between clients, I/O nodes, data servers and the council: bytes in, messages out, no sockets.

Every message is a header of fixed length and a payload. Numbers are little-endian:

    magic 2s | version u8 | kind u8 | flags u16 | status u16 | length u32 | size u32 | crc u32
    tag u64 | file u64 | offset u64 | session u64

`length` is that of the payload. `tag` is the asker's, and comes back with the answer. `status` of an answer is 0
or an errno. `size` is how many bytes a read wants, or a write wrote. `session` is the client's: a data server that
was told to `FENCE` a session takes nothing of it any more, so that a request which an I/O node sends late can't
overwrite what its client has written through another since. With the flag CHECKED, `crc` is the payload's CRC-32,
and the answer is asked to be CHECKED too.
"""

from __future__ import annotations

import errno
import struct
import zlib
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, TypeAlias

import msgspec

from forebay.act.forward.net.buffers import SMALL, Buffers
from forebay.model.errors import ForebayError

MAGIC = b"FB"
VERSION = 1
HEADER = struct.Struct("<2sBBHHIIIQQQQ")
LONGEST = 16 << 20
"""Bytes of payload that a message may have."""
SHORT = 2048
"""Bytes of payload that a message of a peer may have which has not proved who it is."""
LAST_OFFSET = (1 << 63) - 1
AGAIN = errno.EAGAIN
"""The status of what a part that is gone just now could not do; nobody knows whether it was done. Ask again."""

_INLINE = 1024
"""Bytes of payload up to which a copy is cheaper than a buffer of its own."""

Bytes: TypeAlias = bytes | bytearray | memoryview


class Kind(IntEnum):
    """What a message asks for, and which fields and words (`packed`) it and its answer carry.

    Paths are bytes, without a slash at the front; the root is b"". A layout is [count, size, start]. A record is
    {id, layout, mode, mtime, stamp} of a file, {layout, mode, mtime} of a folder; see forward/data/names.py.
    """

    HELLO = 1  # who is there, and a challenge (see forward/net/auth.py)
    PROOF = 2
    WELCOME = 3
    READ = 16  # file, offset, size -> the bytes, fewer at the end of what there is
    WRITE = 17  # file, offset, the bytes -> size
    FSYNC = 18  # file
    OPEN = 32  # {path, create, exclusive, mode, layout | None, key, again} -> record and {created}; file is its id
    ATTACH = 33  # file, {layout} or nothing -> record; ESTALE where there is no such file any more
    STAT = 34  # {path}, or file -> record and {folder}, from an I/O node also {size}
    TRUNCATE = 35  # file, offset: how long the file (client) or the object (data server) shall be
    UNLINK = 36  # {path, key, again} -> {forget: [[id, layout]]} (the client's answer has no words)
    READDIR = 37  # {path, after} -> {entries: [[name, is folder], ...] in the order of names, more}
    MKDIR = 38  # {path, mode, layout | None, key, again}
    RMDIR = 39  # {path, key, again}
    RENAME = 40  # {path, to, key, again} -> as UNLINK
    LAYOUT = 41  # {path} -> {layout}; {path, layout} of a folder sets what new files in it get
    FENCE = 42  # file: the session to refuse from now on
    STATFS = 43  # -> {total, free, available: bytes; files, free_files}
    CLOSE = 44  # file
    FORGET = 45  # file: remove its object from one data server
    SIZE = 46  # file -> {size, mtime} of its object on one data server, zeros where there is none
    SETATTR = 47  # {path} or file, {mode | None, mtime | None, stamp} -> nothing
    PENDING = 48  # -> {forget: [[id, layout], ...]}: unlinked files whose objects may still be there
    FORGOTTEN = 49  # file: the objects of an unlinked file are gone from all servers
    ANNOUNCE = 64  # I/O node to council, each second
    DECIDE = 65  # council to I/O node
    JOB = 66  # I/O node to council: what a job did, once it is gone


_KINDS = frozenset(int(kind) for kind in Kind)


class Flag:
    """Bits of `flags`; plain numbers, since they are looked at for every message."""

    REPLY = 1
    CHECKED = 2


class BadMessage(ForebayError):
    """The peer does not keep to the protocol; nothing that it sent afterwards can be trusted."""


class Message:
    """One message. Where it has a `buffer`, its payload is valid until `release` gives that back."""

    __slots__ = (
        "buffer", "buffers", "file", "flags", "kind", "offset", "payload", "session", "size", "status", "tag",
    )  # fmt: skip

    def __init__(
        self,
        kind: int,
        flags: int = 0,
        status: int = 0,
        size: int = 0,
        tag: int = 0,
        file: int = 0,
        offset: int = 0,
        session: int = 0,
        payload: Bytes = b"",
        buffer: memoryview | None = None,
        buffers: Buffers | None = None,
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
        self.buffers = buffers

    def release(self) -> None:
        """The payload is not needed any more; a second call does nothing."""
        if self.buffer is not None and self.buffers is not None:
            self.payload = b""
            self.buffers.give(self.buffer)
            self.buffer = None

    def header(self, length: int | None = None, crc: int | None = None) -> bytes:
        """The message's header; `length` and `crc` where the payload goes out in pieces."""
        if crc is None:
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

    def __repr__(self) -> str:
        name = Kind(self.kind).name if self.kind in _KINDS else self.kind
        values = ((n, getattr(self, n)) for n in ("flags", "status", "size", "tag", "file", "offset", "session"))
        words = ", ".join(f"{n}={value}" for n, value in values if value)
        return f"<{name} {words} +{len(self.payload)} bytes>"


def answer_header(
    asked: Message, *, status: int = 0, size: int = 0, file: int = 0, offset: int = 0, length: int = 0, crc: int = 0
) -> bytes:
    """The header of the answer to a message; `crc` (of `checksum`) where the message was CHECKED."""
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


def packed(words: Any) -> bytes:
    """A payload of words and numbers."""
    return msgspec.msgpack.encode(words)


def unpacked(payload: Bytes) -> Any:
    """The words of a payload.

    >>> unpacked(packed({"path": b"/a"}))
    {'path': b'/a'}
    """
    try:
        return msgspec.msgpack.decode(payload)
    except (msgspec.DecodeError, RecursionError, ValueError, TypeError) as error:
        raise BadMessage(f"a payload of words can't be read: {error}") from None


class Receiver:
    """One direction of a connection: gives room for bytes, and turns those that came into messages.

    The room is as long as the last message was, since the next one is most likely of the same length: then one
    read takes one message whole, straight into the buffer that it stays in, and nothing is copied. Between messages
    it holds no large buffer.
    """

    def __init__(self, buffers: Buffers, longest: int = LONGEST) -> None:
        self.longest = longest
        self._buffers = buffers
        self._buffer: memoryview | None = None
        self._start = 0  # of the message that is on its way
        self._filled = 0
        self._wanted = HEADER.size  # bytes of this message, as far as is known
        self._guess = SMALL

    @property
    def half(self) -> int:
        """Bytes that have come of the message that is on its way."""
        return self._filled - self._start

    def room(self) -> memoryview | None:
        """Where the next bytes go, never empty; None while there is no memory for them."""
        buffer = self._buffer
        if buffer is None:
            buffer = self._buffer = self._buffers.ask(self._guess) or self._buffers.take(SMALL)
        if self._start + self._wanted > len(buffer):
            moved = self._moved(buffer)
            if moved is None:
                return None
            buffer = moved
        return buffer[self._filled : self._start + max(self._wanted, self._guess)]

    def received(self, count: int) -> None:
        """So many bytes were put into the room."""
        self._filled += count

    def next(self) -> Message | None:
        """The next message that is whole."""
        buffer, start = self._buffer, self._start
        have = self._filled - start
        if buffer is None or have < HEADER.size:
            self._wanted = HEADER.size
            if buffer is not None and have == 0:
                self._emptied(buffer)
            return None
        fields = HEADER.unpack_from(buffer, start)
        magic, version, kind, flags, status, length, size, crc, tag, file, offset, session = fields
        if magic != MAGIC or version != VERSION or kind not in _KINDS or length > self.longest or offset > LAST_OFFSET:
            raise self._wrong(fields)
        end = HEADER.size + length
        if have < end:
            self._wanted = end
            return None
        self._wanted = HEADER.size
        self._guess = end if end > SMALL else SMALL
        if not length and not crc:
            self._start = start + end
            return Message(kind, flags, status, size, tag, file, offset, session)
        message = Message(kind, flags, status, size, tag, file, offset, session)
        self._fill(message, buffer[start + HEADER.size : start + end], buffer, crc)
        return message

    def messages(self, count: int) -> Iterator[Message]:
        """All messages that are whole now that `count` bytes were put into the room."""
        self.received(count)
        while (message := self.next()) is not None:
            yield message

    def close(self) -> None:
        """Give back what is held."""
        if self._buffer is not None:
            self._buffers.give(self._buffer)
            self._buffer = None
        self._start = self._filled = 0

    def _emptied(self, buffer: memoryview) -> None:
        self._start = self._filled = 0
        if len(buffer) > SMALL:  # an idle connection holds none that another could need
            self._buffers.give(buffer)
            self._buffer = None

    def _wrong(self, fields: tuple[Any, ...]) -> BadMessage:
        magic, version, kind, length, offset = fields[0], fields[1], fields[2], fields[5], fields[10]
        if magic != MAGIC:
            return BadMessage("this is not Forebay's protocol")
        if version != VERSION:
            return BadMessage(f"protocol version {version}; this side speaks {VERSION}")
        if kind not in _KINDS:
            return BadMessage(f"a message of unknown kind {kind}")
        if length > self.longest:
            return BadMessage(f"a message of {length} bytes; the longest allowed has {self.longest}")
        return BadMessage(f"offset {offset} is beyond 2^63")

    def _moved(self, buffer: memoryview) -> memoryview | None:
        """The beginning of a message that does not fit where it is, where it does."""
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

    def _fill(self, message: Message, payload: memoryview, buffer: memoryview, crc: int) -> None:
        if message.flags & Flag.CHECKED and zlib.crc32(payload) != crc:
            raise BadMessage("a payload's checksum is wrong")
        end = self._start + HEADER.size + len(payload)
        if len(payload) > _INLINE:
            message.payload, message.buffer, message.buffers = payload, buffer, self._buffers
            self._leave(buffer, end)
        else:
            message.payload = bytes(payload)
            self._start = end

    def _leave(self, buffer: memoryview, end: int) -> None:
        """The buffer goes with its message; what came behind it moves."""
        rest = self._filled - end
        self._buffer = None
        if rest:
            self._buffer = self._buffers.take(max(rest, SMALL))
            self._buffer[:rest] = buffer[end : self._filled]
        self._start, self._filled = 0, rest
