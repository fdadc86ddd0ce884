"""A blocking client's connection to whichever of its I/O nodes is there: one request at a time."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress

from forebay.act.forward.clients.operations import Ask, Lost, attach
from forebay.act.forward.clients.identity import Identity
from forebay.act.forward.net.address import Address, connected
from forebay.act.forward.net.auth import Asker, Denied
from forebay.act.forward.net.wire import HEADER, LONGEST, MAGIC, VERSION, BadMessage, Bytes, Flag, Kind, Message

_CONNECTING = 5.0
_CHUNK = 8192


class Tie:
    """Connects when it has to. Each connection has a session of its own: when it is lost, the next one has the old
    session fenced off before anything else, so that what was under way can't happen later."""

    def __init__(self, nodes: Sequence[Address], key: bytes, who: Identity, *, timeout: float, checked: bool) -> None:
        self._nodes, self._key, self._who = nodes, key, who
        self._timeout, self._flags = timeout, Flag.CHECKED if checked else 0
        self._next = 0
        self._sock: socket.socket | None = None
        self._session = 0
        self._unfenced = 0
        self._tag = 0
        self.attached: set[int] = set()
        self.leaving: set[int] = set()
        self._head = bytearray(HEADER.size)
        self._scratch = memoryview(bytearray(_CHUNK))

    def exchange(self, ask: Ask) -> Message:
        """The answer; raises `Lost`, after which the connection is made anew with the next call."""
        sock = self._sock or self._connect()
        try:
            handle = ask.handle
            if handle is not None and handle.file not in self.attached:
                answer = self._known(self._exchange(sock, attach(handle)), handle.file)
                if answer.status:
                    return answer
            answer = self._exchange(sock, ask)
            return answer if ask.kind not in (Kind.OPEN, Kind.ATTACH) else self._known(answer, answer.file)
        except BlockingIOError:
            self._drop()
            raise Lost(f"{self._node}: no answer within {self._timeout:g} s") from None
        except (OSError, BadMessage) as error:
            self._drop()
            raise Lost(f"{self._node}: {_words(error)}") from None
        except BaseException:
            self._drop()  # interrupted in the middle of a message
            raise

    def tidy(self) -> None:
        """Tell the I/O node of the files that are not needed any more."""
        with suppress(Lost):  # then it has forgotten them all
            while self.leaving:
                file = self.leaving.pop()
                if file in self.attached:
                    self.attached.discard(file)
                    self.exchange(Ask(Kind.CLOSE, file=file))

    def _known(self, answer: Message, file: int) -> Message:
        """The answer; where all is well, the I/O node knows the file now."""
        if not answer.status:
            self.attached.add(file)
            self.leaving.discard(file)
        return answer

    def interrupt(self) -> None:
        """From another thread: whoever waits for an answer here gets `Lost`."""
        sock = self._sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """By whoever uses it."""
        self._drop()

    @property
    def _node(self) -> Address:
        return self._nodes[self._next % len(self._nodes)]

    def _drop(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None
            self.attached.clear()
            self._unfenced = self._unfenced or self._session
            self._next += 1

    def _connect(self) -> socket.socket:
        try:
            sock = connected(self._node, min(_CONNECTING, self._timeout))
        except OSError as error:
            words = f"{self._node}: {_words(error)}"
            self._next += 1
            raise Lost(words) from None
        session = secrets.randbits(63) | 1
        try:
            sock.settimeout(None)
            self._limit(sock)
            self._introduce(sock, session)
            if self._unfenced:
                fenced = self._exchange(sock, Ask(Kind.FENCE, file=self._unfenced), session)
                if fenced.status:
                    raise ConnectionError(os.strerror(fenced.status))
        except Denied as error:
            sock.close()
            raise OSError(errno.EACCES, f"{self._node}: {error}") from None
        except (OSError, BadMessage) as error:
            sock.close()
            words = f"{self._node}: {_words(error)}"
            self._next += 1
            raise Lost(words) from None
        except BaseException:
            sock.close()
            raise
        self._sock, self._session, self._unfenced = sock, session, 0
        return sock

    def _limit(self, sock: socket.socket) -> None:
        # By the kernel, since Python's own timeouts cost a system call more for each read and write.
        limit = struct.pack("ll", int(self._timeout), int(self._timeout % 1 * 1e6))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def _introduce(self, sock: socket.socket, session: int) -> None:
        handshake = Asker(self._key, self._who.peer(session), ("node",))
        message: Message | None = handshake.first()
        while message is not None:
            sock.sendall(message.header() + bytes(message.payload))
            message = handshake.received(self._answer(sock, None, 0))

    def _exchange(self, sock: socket.socket, ask: Ask, session: int = 0) -> Message:
        self._tag += 1
        payload, flags = ask.payload, self._flags
        length = len(payload)
        header = HEADER.pack(
            MAGIC, VERSION, ask.kind, flags, 0, length, ask.size, zlib.crc32(payload) if flags else 0,
            self._tag, ask.file, ask.offset, session or self._session,
        )  # fmt: skip
        if length:
            _send(sock, header, payload)
        else:
            sock.sendall(header)
        return self._answer(sock, ask.into, self._tag)

    def _answer(self, sock: socket.socket, into: memoryview | None, tag: int) -> Message:
        """The next message: its payload in `into`, where that is given, and all is well."""
        head = self._head
        room = self._scratch if into is None else into
        count = sock.recvmsg_into([head, room])[0]
        if count < HEADER.size:
            _fill(sock, memoryview(head)[count:])
            count = HEADER.size
        magic, version, kind, flags, status, length, size, crc, tagged, file, offset, session = HEADER.unpack(head)
        if magic != MAGIC or version != VERSION or length > LONGEST or (tag and tagged != tag):
            raise BadMessage("the answer does not keep to the protocol")
        got = count - HEADER.size
        if status and into is not None:  # what came are words, and not what was asked for
            if length > _CHUNK:
                raise BadMessage("an error with too many words")
            self._scratch[:got] = into[:got]
            room, into = self._scratch, None
        payload: Bytes = room[:length]
        if length > len(room):
            if into is not None:
                raise BadMessage("more bytes than were asked for")
            whole = memoryview(bytearray(length))
            whole[:got] = room[:got]
            payload = whole
        if got > length:
            raise BadMessage("more than one answer")
        if got < length:
            _fill(sock, memoryview(payload)[got:])
        if flags & Flag.CHECKED and zlib.crc32(payload) != crc:
            raise BadMessage("an answer's checksum is wrong")
        if into is not None:
            size, payload = length, b""
        return Message(kind, flags, status, size, tagged, file, offset, session, bytes(payload))


def _send(sock: socket.socket, header: bytes, payload: Bytes) -> None:
    sent = sock.sendmsg([header, payload])
    if sent < len(header):
        sock.sendall(header[sent:])
        sent = len(header)
    if sent - len(header) < len(payload):
        sock.sendall(memoryview(payload)[sent - len(header) :])


def _fill(sock: socket.socket, room: memoryview) -> None:
    """All of it; at the end of what the peer sends it is an error."""
    done = 0
    while done < len(room):
        count = sock.recv_into(room[done:], 0, socket.MSG_WAITALL)
        if not count:
            raise ConnectionError("the I/O node is gone")
        done += count


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)).lower()
