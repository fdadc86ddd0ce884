"""A blocking client's connection to the first of its I/O nodes that answers: one request at a time."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress

from forebay.act.forward.clients.identity import Identity
from forebay.act.forward.clients.operations import Handle, Lost, Request, attach_request
from forebay.act.forward.net.address import Address, open_socket
from forebay.act.forward.net.auth import Asker, Denied
from forebay.act.forward.net.wire import HEADER, LONGEST, MAGIC, VERSION, BadMessage, Bytes, Flag, Kind, Message

CONNECT_TIMEOUT = 5.0
_CHUNK = 8192


class NodeRoute:
    """Which I/O node is next, and what the next connection must know about the last one.

    Each connection has its own session. When it is lost, the next connection first fences the old session, so that
    nothing that was in progress can happen later.
    """

    def __init__(self, nodes: Sequence[Address], key: bytes, who: Identity, *, timeout: float, checked: bool) -> None:
        if not nodes:
            raise ValueError("a client needs at least one I/O node")
        self.nodes, self.key, self.who = tuple(nodes), key, who
        self.timeout, self.flags = timeout, Flag.CHECKED if checked else 0
        self.session = self.unfenced = 0
        self.attached: set[int] = set()
        self._next = 0

    @property
    def node(self) -> Address:
        return self.nodes[self._next % len(self.nodes)]

    def skip(self) -> None:
        """Try the next node."""
        self._next += 1

    def lose(self) -> None:
        """The connection is lost: its files are not attached any more, and its session must be fenced."""
        self.attached.clear()
        self.unfenced = self.unfenced or self.session
        self.skip()


class NodeSocket:
    """Connects when it must; after `Lost` the next call connects again."""

    def __init__(self, nodes: Sequence[Address], key: bytes, who: Identity, *, timeout: float, checked: bool) -> None:
        self._route = NodeRoute(nodes, key, who, timeout=timeout, checked=checked)
        self._sock: socket.socket | None = None
        self._tag = 0
        self.attached = self._route.attached
        self.leaving: set[int] = set()
        self._head = bytearray(HEADER.size)
        self._scratch = memoryview(bytearray(_CHUNK))

    def exchange(self, request: Request) -> Message:
        """The answer to a request; raises `Lost`."""
        sock = self._sock or self._connect()
        try:
            handle = request.handle
            if handle is not None and handle.file not in self.attached:
                answer = self._attach(sock, handle)
                if answer.status:
                    return answer
            answer = self._exchange(sock, request)
            if request.kind in (Kind.OPEN, Kind.ATTACH):
                self._note_attached(answer, answer.file)
            return answer
        except BlockingIOError:
            raise self._lose(f"no answer within {self._route.timeout:g} s") from None
        except (OSError, BadMessage) as error:
            raise self._lose(_reason(error)) from None
        except BaseException:
            self.close()  # interrupted in the middle of a message
            raise

    def close_left_files(self) -> None:
        """Tell the I/O node which files are not needed any more."""
        with suppress(Lost):  # then the node has forgotten them all
            while self.leaving:
                file = self.leaving.pop()
                if file in self.attached:
                    self.attached.discard(file)
                    self.exchange(Request(Kind.CLOSE, file=file))

    def interrupt(self) -> None:
        """From another thread: whoever waits for an answer here gets `Lost`."""
        sock = self._sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Only the thread that uses it may call this."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None
            self._route.lose()

    def _lose(self, reason: str) -> Lost:
        lost = Lost(f"{self._route.node}: {reason}")
        self.close()
        return lost

    def _attach(self, sock: socket.socket, handle: Handle) -> Message:
        answer = self._exchange(sock, attach_request(handle))
        self._note_attached(answer, handle.file)
        return answer

    def _note_attached(self, answer: Message, file: int) -> None:
        if not answer.status:
            self.attached.add(file)
            self.leaving.discard(file)

    def _connect(self) -> socket.socket:
        route = self._route
        sock = None
        session = secrets.randbits(63) | 1
        try:
            sock = open_socket(route.node, min(CONNECT_TIMEOUT, route.timeout))
            sock.settimeout(None)
            _limit(sock, route.timeout)
            self._introduce(sock, session)
            if route.unfenced:
                fenced = self._exchange(sock, Request(Kind.FENCE, file=route.unfenced), session)
                if fenced.status:
                    raise ConnectionError(os.strerror(fenced.status))
        except BaseException as error:
            if sock is not None:
                sock.close()
            if isinstance(error, Denied):
                raise OSError(errno.EACCES, f"{route.node}: {error}") from None
            if isinstance(error, OSError | BadMessage):
                lost = Lost(f"{route.node}: {_reason(error)}")
                route.skip()
                raise lost from None
            raise
        self._sock, route.session, route.unfenced = sock, session, 0
        return sock

    def _introduce(self, sock: socket.socket, session: int) -> None:
        handshake = Asker(self._route.key, self._route.who.peer(session), ("node",))
        message: Message | None = handshake.first()
        while message is not None:
            sock.sendall(message.header() + bytes(message.payload))
            message = handshake.received(self._receive(sock, None, 0))

    def _exchange(self, sock: socket.socket, request: Request, session: int = 0) -> Message:
        self._tag += 1
        payload, flags = request.payload, self._route.flags
        length = len(payload)
        header = HEADER.pack(
            MAGIC, VERSION, request.kind, flags, 0, length, request.size, zlib.crc32(payload) if flags else 0,
            self._tag, request.file, request.offset, session or self._route.session,
        )  # fmt: skip
        if length:
            _send(sock, header, payload)
        else:
            sock.sendall(header)
        return self._receive(sock, request.into, self._tag)

    def _receive(self, sock: socket.socket, into: memoryview | None, tag: int) -> Message:
        """The next message; its payload goes to `into`, if that is given and there is no error."""
        head = self._head
        room = self._scratch if into is None else into
        count = sock.recvmsg_into([head, room])[0]
        if count < HEADER.size:
            _fill(sock, memoryview(head)[count:])
            count = HEADER.size
        magic, version, kind, flags, status, length, size, crc, tagged, file, offset, session = HEADER.unpack(head)
        if magic != MAGIC or version != VERSION or length > LONGEST or (tag and tagged != tag):
            raise BadMessage("the answer violates the protocol")
        got = count - HEADER.size
        if status and into is not None:  # the payload is a reason, not the bytes of the file
            if length > _CHUNK:
                raise BadMessage("the text of an error is too long")
            self._scratch[:got] = into[:got]
            room, into = self._scratch, None
        payload: Bytes = room[:length]
        if length > len(room):
            if into is not None:
                raise BadMessage("received more bytes than requested")
            whole = memoryview(bytearray(length))
            whole[:got] = room[:got]
            payload = whole
        if got > length:
            raise BadMessage("received more than one answer")
        if got < length:
            _fill(sock, memoryview(payload)[got:])
        if flags & Flag.CHECKED and zlib.crc32(payload) != crc:
            raise BadMessage("the checksum of an answer is wrong")
        if into is not None:
            size, payload = length, b""
        return Message(kind, flags, status, size, tagged, file, offset, session, bytes(payload))


def _limit(sock: socket.socket, seconds: float) -> None:
    # In the kernel, since Python's own timeouts cost one more system call for each read and write.
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _send(sock: socket.socket, header: bytes, payload: Bytes) -> None:
    sent = sock.sendmsg([header, payload])
    if sent < len(header):
        sock.sendall(header[sent:])
        sent = len(header)
    if sent - len(header) < len(payload):
        sock.sendall(memoryview(payload)[sent - len(header) :])


def _fill(sock: socket.socket, room: memoryview) -> None:
    """Read until the room is full."""
    done = 0
    while done < len(room):
        count = sock.recv_into(room[done:], 0, socket.MSG_WAITALL)
        if not count:
            raise ConnectionError("the I/O node is gone")
        done += count


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)).lower()
