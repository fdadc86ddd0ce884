"""The connection of a blocking client to an I/O node."""

from __future__ import annotations

import socket
import struct
import zlib
from contextlib import suppress
from time import sleep

from forebay.act.forward.clients.channel import NodeChannel
from forebay.act.forward.clients.requests import Request
from forebay.act.forward.net.address import Address, open_socket
from forebay.act.forward.net.auth import Asker, Credentials, Denied
from forebay.act.forward.net.wire import HEADER, LONGEST, MAGIC, VERSION, BadMessage, Bytes, Flag, Message

_CHUNK = 8192


class NodeSocket(NodeChannel[socket.socket]):
    """A connection for one request of one thread at a time."""

    def interrupt(self) -> None:
        """Close from another thread; a thread that waits for an answer here raises an error."""
        self.closed, sock = True, self._link
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    async def pause(self, seconds: float) -> None:
        sleep(seconds)

    async def _open(self, node: Address, credentials: Credentials, timeout: float) -> socket.socket:
        sock = open_socket(node, timeout)
        self._head, self._scratch = bytearray(HEADER.size), memoryview(bytearray(_CHUNK))
        try:
            # The kernel enforces the timeout: Python's own costs one more system call for each read and write.
            sock.settimeout(None)
            limit = struct.pack("ll", int(self.timeout), int(self.timeout % 1 * 1e6))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            handshake = Asker(*credentials)
            message: Message | None = handshake.first()
            while message is not None:
                sock.sendall(message.header() + bytes(message.payload))
                message = handshake.receive(self._receive(sock, None, 0))
        except BaseException as error:
            sock.close()
            if isinstance(error, Denied):
                raise Denied(f"{node}: {error}") from None
            raise
        return sock

    async def _exchange(self, link: socket.socket, request: Request, session: int) -> Message:
        self._tag += 1
        payload, flags = request.payload, self.flags
        length = len(payload)
        header = HEADER.pack(
            MAGIC, VERSION, request.kind, flags, 0, length, request.size, zlib.crc32(payload) if flags else 0,
            self._tag, request.file, request.offset, session,
        )  # fmt: skip
        try:
            sent = link.sendmsg((header, payload)) if length else link.send(header)
            if sent < len(header):
                link.sendall(header[sent:])
                sent = len(header)
            if sent - len(header) < length:
                link.sendall(memoryview(payload)[sent - len(header) :])
            return self._receive(link, request.into, self._tag)
        except BlockingIOError:
            raise TimeoutError(f"no answer within {self.timeout:g} s") from None
        except BaseException:
            self.lose(link)  # the stream may be in the middle of a message
            raise

    def _receive(self, sock: socket.socket, into: memoryview | None, tag: int) -> Message:
        """Receive the next message; the payload goes to `into`, if given and unless it is an error."""
        head = self._head
        room = self._scratch if into is None else into
        count = sock.recvmsg_into([head, room])[0]
        if count < HEADER.size:
            fill(sock, memoryview(head)[count:])
            count = HEADER.size
        magic, version, kind, flags, status, length, size, crc, tagged, file, offset, session = HEADER.unpack(head)
        if magic != MAGIC or version != VERSION or length > LONGEST or (tag and tagged != tag):
            raise BadMessage("the answer violates the protocol; check the address and the release of the I/O node")
        got = count - HEADER.size
        if status and into is not None:  # the payload is a reason, not the bytes of the file
            if length > _CHUNK:
                raise BadMessage("the answer's error text is too long")
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
            fill(sock, memoryview(payload)[got:])
        if flags & Flag.CHECKED and zlib.crc32(payload) != crc:
            raise BadMessage("wrong checksum of an answer")
        if into is not None:
            size, payload = length, b""
        return Message(kind, flags, status, size, tagged, file, offset, session, bytes(payload))


def fill(sock: socket.socket, room: memoryview) -> None:
    """Read from the socket until the room is full."""
    done = 0
    while done < len(room):
        count = sock.recv_into(room[done:], 0, socket.MSG_WAITALL)
        if not count:
            raise ConnectionError("the I/O node closed the connection")
        done += count
