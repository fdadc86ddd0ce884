"""The wire format between clients, I/O nodes, data servers and the council. No code here uses a socket.

Every message is a header of fixed length and a payload. Numbers are little-endian:

    magic 2s | version u8 | kind u8 | flags u16 | status u16 | length u32 | size u32 | crc u32
    tag u64 | file u64 | offset u64 | session u64

`length` is the length of the payload. A request has a `tag`, and its answer repeats it. The `status` of an answer is 0
or an errno. `size` is the number of bytes that a read wants, or that a write wrote. `session` identifies the client. A
data server refuses a session after a `FENCE`, so that a late request from an I/O node can't overwrite bytes that the
client has since written through another node. A `WRITE` with the flag SESSIONS is for several sessions: its `size` is
their number, and its payload begins with them, u64 each. With the flag CHECKED, `crc` is the payload's CRC-32, and the
answer must be CHECKED too.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

import msgspec

from forebay.act.forward.net.buffers import SMALL, Buffers
from forebay.model.errors import ForebayError

MAGIC = b"FB"
VERSION = 4
HEADER = struct.Struct("<2sBBHHIIIQQQQ")
_HEADER_SIZE = HEADER.size
_unpack_header = struct.Struct("<IHHIIIQQQQ").unpack_from  # with magic, version and kind as one number
OBJECT_STATUS = struct.Struct("<QQQ")
"""After a write: an object's size, the time of its last change in ns since 1970, and its bytes on disk."""
LONGEST = 16 << 20
"""The longest payload of a message, in bytes."""
SHORT = 2048
"""The longest payload from a peer that has not proved who it is, in bytes."""
LAST_OFFSET = (1 << 63) - 1
AGAIN = errno.EAGAIN
"""The status if a process cannot be reached: it may have carried out the request or not. Send it again."""
ELSEWHERE = errno.EREMCHG
"""The status if another server has what a request for names is about; the payload is a Detour."""

_MOST_TOGETHER = (256 << 10) + 4096  # bytes of messages that share a buffer
_INLINE = 1024
"""The longest payload that is cheaper to copy than to keep in a separate buffer, in bytes."""

Bytes: TypeAlias = bytes | bytearray | memoryview
T = TypeVar("T")


class Kind(IntEnum):
    """Kinds of messages. Comments list the header fields and payloads (payloads.py) of request -> answer."""

    HELLO = 1  # identity and challenge (see auth.py)
    PROOF = 2
    WELCOME = 3
    READ = 16  # file, offset, size -> the bytes, fewer at the end of the file or object
    WRITE = 17  # file, offset, size: 1 to learn about the object, the bytes -> size, OBJECT_STATUS
    FSYNC = 18  # file
    OPEN = 32  # OpenRequest -> FileStatus; file is its id
    ATTACH = 33  # file, StatusRequest -> FileStatus; ESTALE if the file no longer exists
    STAT = 34  # StatusRequest -> FileStatus; an I/O node adds the size
    TRUNCATE = 35  # file, offset: the new length of the file (client) or of the object (data server)
    UNLINK = 36  # OnceRequest -> ForgetList; to clients, without the files
    READDIR = 37  # ListRequest -> ListPage
    MKDIR = 38  # MkdirRequest -> FileStatus
    RMDIR = 39  # OnceRequest -> as UNLINK
    RENAME = 40  # RenameRequest -> as UNLINK
    LAYOUT = 41  # LayoutRequest -> LayoutAnswer
    FENCE = 42  # file: the session to refuse from now on
    STATFS = 43  # -> Space
    CLOSE = 44  # NodeList
    FORGET = 45  # file, or NodeList: remove their objects from one data server
    SIZE = 46  # file, size: of a content that is wanted too; offset 1: it does not count as read -> ObjectSize
    SETATTR = 47  # AttributesRequest -> FileStatus
    PENDING = 48  # -> ForgetList: unlinked files whose objects may still exist
    FORGOTTEN = 49  # file, or NodeList: the objects of unlinked files are gone from all servers
    MAKE = 50  # MakeRequest -> FileStatus
    LINK = 51  # LinkRequest -> FileStatus
    GETXATTR = 52  # AttributeRequest -> AttributeValues
    SETXATTR = 53  # SetAttributeRequest
    ALLOCATE = 54  # file, AllocateRequest
    OPENED = 55  # OpenFiles: all files that an I/O node has open, when it connects
    CLOSED = 56  # OpenFiles -> as UNLINK: an I/O node has closed them
    WATCH = 70  # file: the mount that asks for leases from now on, and has none so far; offset 1 ends that
    RECALL = 71  # file: the mount, NodeList: a server's or an I/O node's message without an answer
    RECALLED = 72  # file: the mount, NodeList
    LOCK = 57  # file, LockRequest -> LockAnswer
    LEASE = 58  # LeaseRequest -> LeaseAnswer
    APPEND = 59  # file, the bytes -> size; only in front of another file system
    SPREAD = 60  # file: it may have objects on all servers of its layout from now on
    TOUCH = 61  # NodeList: a mount has read these files, whose bytes came with their status
    EXPORT = 73  # ExportRequest -> FolderPage: takes a folder out of use, and reads what it holds
    IMPORT = 74  # FolderPage: the server 0 takes over a folder, page by page
    SETTLE = 75  # EmptyFolder: another server takes over a folder; ESTALE if it has had it before
    DROP = 76  # file: the folder that server 0 has taken over
    PREPARE = 80  # file: a folder that server 0 shall take over; fails if the server cannot write
    ADOPT = 79  # file: a folder that another server has dropped before
    ARRIVED = 77  # NodeList: open files that server 0 has taken over; a message without an answer
    HELD = 78  # OpenFiles: what an I/O node has open of them
    RESERVE = 62  # file: a folder, offset: how many -> NodeList: ids for new files in it; only from I/O nodes
    PLACE = 63  # PlaceRequest -> ForgetList; only from I/O nodes
    ALONE = 81  # AloneRequest -> AloneAnswer; only from mounts
    REMOVE = 82  # RemoveRequest -> as UNLINK
    ADD = 83  # AddRequest -> AddAnswer
    ANNOUNCE = 64  # I/O node to council, each second: Announcement
    DECIDE = 65  # council to I/O node: Decision
    JOB = 66  # I/O node to council: JobReport, when a job has ended


_KINDS = frozenset(int(kind) for kind in Kind)
_KINDS_BY_WORD = {struct.unpack("<I", struct.pack("<2sBB", MAGIC, VERSION, kind))[0]: int(kind) for kind in Kind}
"""By the first four bytes of a valid header."""


class Flag:
    """Bits of `flags`. They are plain numbers for speed: the code tests them for every message."""

    REPLY = 1
    CHECKED = 2
    SESSIONS = 4


_CHECKED = Flag.CHECKED


def pack_sessions(sessions: Collection[int]) -> bytes:
    """Build the beginning of the payload of a write for several sessions."""
    return struct.pack(f"<{len(sessions)}Q", *sessions)


def split_sessions(message: Message) -> tuple[int, ...]:
    """Remove the sessions from the payload of a write for several of them, and return them."""
    length = 8 * message.size
    if message.kind != Kind.WRITE or not 0 < length <= len(message.payload):
        raise BadMessage(f"not a write of {message.size} sessions: {message!r}")
    sessions = struct.unpack(f"<{message.size}Q", message.payload[:length])
    message.payload = message.payload[length:]
    return sessions


class BadMessage(ForebayError):
    """The peer violated the protocol; nothing that it sends afterwards can be trusted."""


class WrongFields(BadMessage):
    """A payload lacks a field, or a field has the wrong type."""


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
        """Return the payload's buffer; a second call does nothing."""
        buffer = self.buffer
        if buffer is not None and self.buffers is not None:
            self.payload, self.buffer = b"", None
            self.buffers.give(buffer)

    def detach(self) -> Message:
        """Copy the payload so that it outlives its buffer, and return the buffer."""
        if self.buffer is not None:
            payload = bytes(self.payload)
            self.release()
            self.payload = payload
        return self

    def error_text(self) -> str:
        """The reason that an error answer gives."""
        return bytes(self.payload).decode(errors="replace") or os.strerror(self.status).lower()

    def header(self, length: int | None = None, crc: int | None = None) -> bytes:
        """Build the message's header; pass `length` and `crc` if the payload goes out in pieces."""
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
    request: Message, *, status: int = 0, size: int = 0, file: int = 0, offset: int = 0, length: int = 0, crc: int = 0
) -> bytes:
    """Build the header of the answer to a request; pass `crc` (see `checksum`) if the request was CHECKED."""
    flags = Flag.REPLY | (request.flags & Flag.CHECKED if length else 0)
    return HEADER.pack(
        MAGIC, VERSION, request.kind, flags, status, length, size, crc, request.tag, file, offset, request.session
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
    """Decode a payload as a value of this type; raises BadMessage if it is malformed.

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

    The room is for whole messages of the last one's length, since the next ones most likely have the same: for twice as
    many as arrived last, if they are short. It is not less than for the message before: a program that writes small
    files creates one and writes to it in turns. So one read usually takes all messages that have arrived into their
    final buffer, which they share, without a copy. Between messages, the receiver holds no large buffer.
    """

    def __init__(self, buffers: Buffers, longest: int = LONGEST) -> None:
        self.longest = longest
        self._buffers = buffers
        self._buffer: memoryview | None = None
        self._shared = False  # messages before the one that is arriving have the buffer, too
        self._start = 0  # of the message that is arriving
        self.filled = 0
        """Bytes in the buffer; 0 if all messages that have arrived were returned."""
        self._wanted = _HEADER_SIZE  # bytes of this message that are known to come
        self._guess = self._last = SMALL
        self._arrived = 0  # bytes that were there of messages not returned when the last ones came
        self._usual = (0, 0)  # a message's length, and what had arrived with it, that do not change the guess
        self._usual_alone = 0  # the same, if that message arrived alone

    @property
    def partial_bytes(self) -> int:
        """Bytes that have arrived of an incomplete message."""
        return self.filled - self._start

    def room(self) -> memoryview | None:
        """Room for the next bytes, never empty; None while no memory is free."""
        buffer, guess = self._buffer, self._guess
        if buffer is None:
            buffer = self._buffer = self._buffers.ask(guess) or self._buffers.take(SMALL)
        if not self.filled:
            return buffer[:guess]
        if self._start + self._wanted > len(buffer):
            moved = self._make_room(buffer)
            if moved is None:
                return None
            buffer = moved
        return buffer[self.filled : self._start + max(self._wanted, guess)]

    def advance(self, count: int) -> None:
        """Take over `count` bytes that were read into the room."""
        self.filled += count
        self._arrived = self.filled - self._start

    def receive(self, count: int) -> Message | None:
        """Take over `count` bytes as `advance` does, and return the next message.

        Most often they are one message, alone and as long as the one before. That takes half the time of `next`.
        """
        buffer = self._buffer
        if count == self._usual_alone and buffer is not None and not self.filled:
            word, flags, status, length, size, _, tag, file, offset, session = _unpack_header(buffer)
            kind = _KINDS_BY_WORD.get(word)
            if length == count - _HEADER_SIZE and kind is not None and offset <= LAST_OFFSET and not flags & _CHECKED:
                if not length:
                    return Message(kind, flags, status, size, tag, file, offset, session)
                if length > _INLINE:
                    data, pool, self._buffer = buffer[_HEADER_SIZE:count], self._buffers, None
                    return Message(kind, flags, status, size, tag, file, offset, session, data, buffer, pool)
        self.advance(count)
        return self.next()

    def next(self) -> Message | None:
        """Return the next message, or None if none is complete."""
        buffer, start, filled = self._buffer, self._start, self.filled
        if buffer is None or filled - start < _HEADER_SIZE:
            self._wanted = _HEADER_SIZE
            return None
        word, flags, status, length, size, crc, tag, file, offset, session = _unpack_header(buffer, start)
        kind = _KINDS_BY_WORD.get(word)
        if kind is None or length > self.longest or offset > LAST_OFFSET:
            raise self._violation(HEADER.unpack_from(buffer, start))
        total = _HEADER_SIZE + length
        end = start + total
        if filled < end:
            self._wanted = total
            return None
        self._wanted = _HEADER_SIZE
        if flags & _CHECKED and zlib.crc32(buffer[start + _HEADER_SIZE : end]) != crc:
            raise BadMessage("wrong checksum of a payload")
        if (total, self._arrived) != self._usual:
            self._guess_room(total)
        if length > _INLINE:
            payload = buffer[start + _HEADER_SIZE : end]
            message = Message(kind, flags, status, size, tag, file, offset, session, payload, buffer, self._buffers)
            if end == filled:  # the message takes over the buffer
                self._buffer, self._shared, self._start, self.filled = None, False, 0, 0
                return message
            self._buffers.share(buffer)
            self._shared = True
        else:
            message = Message(kind, flags, status, size, tag, file, offset, session)
            if length:
                message.payload = bytes(buffer[start + _HEADER_SIZE : end])
            if end == filled:
                if len(buffer) > SMALL or self._shared:  # an idle connection must not hold a large buffer
                    self.close()
                self._start = self.filled = 0
                return message
        self._start = end
        return message

    def _guess_room(self, total: int) -> None:
        """Guess how much room the next messages need, after one of `total` bytes."""
        together = min(2 * self._arrived, _MOST_TOGETHER)
        latest = max(total if together < total else together - together % total, SMALL)
        self._usual = (total, self._arrived) if latest == self._last else (0, 0)
        self._usual_alone = total if self._usual == (total, total) else 0
        self._guess, self._last = max(latest, self._last), latest

    def close(self) -> None:
        """Return the buffer."""
        if self._buffer is not None:
            self._buffers.give(self._buffer)
            self._buffer, self._shared = None, False
        self._start = self.filled = 0

    def _violation(self, fields: tuple[Any, ...]) -> BadMessage:
        magic, version, kind, length, offset = fields[0], fields[1], fields[2], fields[5], fields[10]
        if magic != MAGIC:
            return BadMessage("the peer does not use Forebay's protocol; check the address")
        if version != VERSION:
            return BadMessage(f"protocol version {version} is not {VERSION}; use the same release on both sides")
        if kind not in _KINDS:
            return BadMessage(f"unknown message kind {kind}")
        if length > self.longest:
            return BadMessage(f"payload of {length} bytes exceeds the limit of {self.longest}")
        return BadMessage(f"offset {offset} is beyond 2^63")

    def _make_room(self, buffer: memoryview) -> memoryview | None:
        """Move the beginning of a message to where all of it fits."""
        have = self.filled - self._start
        target: memoryview | None = buffer
        if self._wanted > len(buffer) or self._shared:
            target = self._buffers.ask(max(self._wanted, self._guess)) or self._buffers.ask(self._wanted)
            if target is None and self._shared:  # those messages must not keep memory while this one waits for some
                target = self._buffers.take(max(have, SMALL))
        if target is None:
            return None
        target[:have] = buffer[self._start : self.filled]
        if target is not buffer:
            self._buffers.give(buffer)
        self._buffer, self._shared, self._start, self.filled = target, False, 0, have
        return target if self._wanted <= len(target) else None
