"""A relay that does nothing but pass bytes on: what an I/O node is measured against.

It reads lengths, cuts requests into the same pieces as an I/O node, sends each to its server, and puts the answers
together; the same sockets and the same loop as an I/O node, one process. No queue, no
scheduler, no accounts, no checks, no failures.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from forebay.act.forward.net.address import open_listener, open_socket, parse_address, tune_socket
from forebay.act.forward.net.auth import Asker, Peer
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.loop import run
from forebay.act.forward.net.wire import HEADER, MAGIC, VERSION, Kind, Message, Receiver
from forebay.act.forward.striping import parts_of, pieces, sort_parts
from forebay.model.layout import Layout

LENGTH = HEADER.size
ROOM = (1 << 20) + 4096
READ, WRITE = int(Kind.READ), int(Kind.WRITE)
pool: list[memoryview] = []


class Peerless:
    """One socket: calls `heard(self, fields, payload, buffer)` for each message."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, heard: Callable[..., None]) -> None:
        sock.setblocking(False)
        self.loop, self.sock, self.heard = loop, sock, heard
        self.buffer, self.filled, self.guess = memoryview(bytearray(ROOM)), 0, LENGTH
        self.out: list[memoryview] = []
        loop.add_reader(sock, self.readable)

    def readable(self) -> None:
        try:
            count = self.sock.recv_into(self.buffer[self.filled : self.guess])
        except BlockingIOError:
            return
        if not count:
            self.loop.remove_reader(self.sock)
            return
        self.filled += count
        while self.filled >= LENGTH:
            fields = HEADER.unpack_from(self.buffer)
            end = LENGTH + fields[5]
            if self.filled < end:
                self.guess = end
                return
            buffer, rest = self.buffer, self.filled - end
            self.buffer = pool.pop() if pool else memoryview(bytearray(ROOM))
            if rest:
                self.buffer[:rest] = buffer[end : self.filled]
            self.filled, self.guess = rest, max(end, 4096)
            self.heard(self, fields, buffer[LENGTH:end], buffer)

    def send(self, pieces: list[memoryview | bytes]) -> None:
        if self.out:
            self.out += map(memoryview, pieces)
            return
        try:
            sent = self.sock.sendmsg(pieces)
        except BlockingIOError:
            sent = 0
        if sent < sum(map(len, pieces)):
            self.out = [memoryview(piece) for piece in pieces]
            self.drop(sent)
            self.loop.add_writer(self.sock, self.writable)

    def writable(self) -> None:
        try:
            self.drop(self.sock.sendmsg(self.out[:512]))
        except BlockingIOError:
            return
        if not self.out:
            self.loop.remove_writer(self.sock)

    def drop(self, sent: int) -> None:
        while self.out and sent >= len(self.out[0]):
            sent -= len(self.out.pop(0))
        if sent:
            self.out[0] = self.out[0][sent:]


class Relay:
    def __init__(self, loop: asyncio.AbstractEventLoop, servers: list[socket.socket], stripe: int, first: int) -> None:
        self.servers = [Peerless(loop, sock, self.answered) for sock in servers]
        self.layout = Layout(count=len(servers), size=stripe, start=first)
        self.open: dict[int, tuple[list[object], int]] = {}
        self.tag = 0

    def asked(self, client: Peerless, fields: tuple[int, ...], payload: memoryview, buffer: memoryview) -> None:
        _, _, kind, _, _, length, size, _, tag, file, offset, session = fields
        total = length if kind == WRITE else size
        cut = pieces(self.layout, len(self.servers), offset, total)
        parts: list[object] = [None] * len(cut)
        request: list[object] = [client, tag, file, session, kind, total, 0, parts, [buffer], cut]
        outs: dict[int, list[memoryview | bytes]] = {}
        for i, piece in enumerate(cut):
            self.tag += 1
            self.open[self.tag] = request, i
            out = outs.setdefault(piece.server, [])
            part, at = piece.length, piece.offset
            if kind == WRITE:
                out.append(HEADER.pack(MAGIC, VERSION, WRITE, 0, 0, part, 0, 0, self.tag, file, at, session))
                out += parts_of(piece, payload)
            else:
                out.append(HEADER.pack(MAGIC, VERSION, READ, 0, 0, 0, part, 0, self.tag, file, at, session))
        request[6] = len(parts)
        for server, out in outs.items():
            self.servers[server].send(out)

    def answered(self, _: Peerless, fields: tuple[int, ...], payload: memoryview, buffer: memoryview) -> None:
        request, i = self.open.pop(fields[8])
        client, tag, file, session, kind, total, left, parts, buffers, cut = request
        parts[i] = payload  # type: ignore[index]
        buffers.append(buffer)  # type: ignore[attr-defined]
        request[6] = left - 1  # type: ignore[operator]
        if left == 1:
            length = total if kind == READ else 0
            head = HEADER.pack(MAGIC, VERSION, kind, 1, 0, length, total, 0, tag, file, 0, session)
            data = [part for _, _, part in sort_parts(zip(cut, parts, strict=True))] if kind == READ else []  # type: ignore[call-overload]
            client.send([head, *data])  # type: ignore[attr-defined]
            if not client.out:  # type: ignore[attr-defined]
                pool.extend(buffers)  # type: ignore[arg-type]


def greeted(address: str, key: bytes, role: str, name: str, accepts: str) -> socket.socket:
    """A blocking socket to a part of a layer, after both sides have proved themselves."""
    sock = open_socket(parse_address(address), 30.0)
    handshake, receiver = Asker(key, Peer(role=role, name=name), (accepts,)), Receiver(Buffers())
    asked: Message | None = handshake.first()
    while asked is not None:
        sock.sendall(asked.header() + bytes(asked.payload))
        while (answer := receiver.next()) is None:
            room = receiver.room()
            assert room is not None
            receiver.advance(sock.recv_into(room))
        asked = handshake.receive(answer)
    sock.settimeout(None)
    return sock


def main() -> None:
    """ADDRESS KEY STRIPE FIRST SERVER..."""
    address, key, stripe, first, *addresses = sys.argv[1:]
    secret = Path(key).read_bytes().strip()

    async def relay(end: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        servers = [greeted(a, secret, "node", "relay", "server") for a in addresses]
        made = Relay(loop, servers, int(stripe), int(first))
        listener = open_listener(parse_address(address))

        def accept() -> None:
            sock, _ = listener.accept()
            tune_socket(sock)
            Peerless(loop, sock, made.asked)

        loop.add_reader(listener, accept)
        print("ready", flush=True)
        await end.wait()

    run(relay)


if __name__ == "__main__":
    main()
