"""What the Python code of an I/O node does for one request, counted: no sockets, no kernel, no other process.

    .venv/bin/python benchmarks/forward_path.py [--request KIB] [--functions]

Eight clients send requests, of 32 KiB by default, alone or four at once, through an I/O node to four servers that
answer at once; all sockets only hand over bytes. Prints the instructions of the interpreter and the calls of functions
for a request, which are the same in every run, however busy the machine is; and the processor time without the harness,
the least of several turns, which includes the compiled kernels. The peer is the relay of `forward_speed.py`, in the
same run. `--functions` adds the instructions of each function.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from forward_relay import Peerless, Relay

from forebay.act.forward.net.address import parse_address
from forebay.act.forward.net.auth import Peer
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.loop import new_loop
from forebay.act.forward.net.wire import HEADER, MAGIC, VERSION, Kind
from forebay.act.forward.node.data_servers import DataServers
from forebay.act.forward.node.io_node import IoNode, NodeSettings, compile_kernels
from forebay.model.layout import Layout

CLIENTS, SERVERS, STRIPE, FILE = 8, 4, 64 << 10, 77
WARM_UP, COUNTED, TIMED, TURNS = 400, 64, 1000, 15
KEY = b"k" * 16
Ends = tuple[list["Wire"], list["Wire"]]
"""The sockets to clients, and those to servers."""


class Wire:
    """A socket whose other end is the benchmark: `readable` is called when it has bytes, `sent` is what it was sent."""

    family = socket.AF_INET

    def __init__(self) -> None:
        self._pair = socket.socketpair()  # for its descriptors, which event loops want
        self.readable: Callable[[], object] = lambda: None
        self.sent: list[Any] = []
        self._bytes = memoryview(b"")

    def deliver(self, raw: bytes) -> None:
        self._bytes = memoryview(raw)
        while self._bytes:
            self.readable()

    def recv_into(self, room: memoryview) -> int:
        count = min(len(room), len(self._bytes))
        room[:count] = self._bytes[:count]
        self._bytes = self._bytes[count:]
        return count

    def send(self, data: Any) -> int:
        self.sent.append(data)
        return len(data)

    def sendmsg(self, pieces: list[Any]) -> int:
        self.sent += pieces
        return sum(map(len, pieces))

    def fileno(self) -> int:
        return self._pair[0].fileno()

    def setblocking(self, _: bool) -> None:
        pass


def node_ends(loop: asyncio.AbstractEventLoop) -> Ends:
    """An I/O node with connections that have proved themselves, and a file that all clients have open."""
    me = NodeSettings(name="node", address=(), key=KEY, queue={"in_flight": 32})
    servers = DataServers([parse_address(f"unix:/{i}") for i in range(SERVERS)], KEY, me.me, patience=1)
    node = IoNode(me, servers)
    compile_kernels()
    clients, links = [Wire() for _ in range(CLIENTS)], [Wire() for _ in range(SERVERS)]
    for link, wire in zip(servers.links, links, strict=True):
        link.dispatch, link.changed = node.dispatch, servers.up.__setitem__
        link.connection = connection(loop, wire, link._buffers, link._receive, link._lose)
        link._on_connect()
    for number, wire in enumerate(clients):
        made = connection(loop, wire, node.buffers, None, None)
        made.peer = Peer(role="client", name=str(number))
        node._admit(made)
        (session,) = (each for each in node.sessions if each._connection is made)
        session._add_file(FILE, Layout(count=SERVERS, size=STRIPE, start=0), 6)
        session._readable[FILE].reach = 1 << 62
    return clients, links


def connection(loop: asyncio.AbstractEventLoop, wire: Wire, buffers: Any, received: Any, lost: Any) -> Connection:
    made = Connection(loop, wire, buffers, received, lost, patient=True)  # type: ignore[arg-type]
    made.peer = Peer(role="server", name="server")
    made._reading, wire.readable = True, made._readable
    return made


def relay_ends(loop: asyncio.AbstractEventLoop) -> Ends:
    clients, links = [Wire() for _ in range(CLIENTS)], [Wire() for _ in range(SERVERS)]
    relay = Relay(loop, links, STRIPE, 0)  # type: ignore[arg-type]
    peers = [*relay.servers, *(Peerless(loop, wire, relay.asked) for wire in clients)]  # type: ignore[arg-type]
    for peer in peers:
        peer.sock.readable = peer.readable  # type: ignore[attr-defined]
    return clients, links


def no_ends(_: asyncio.AbstractEventLoop) -> Ends:
    """What the harness itself costs: nothing is between the ends."""
    clients, links = [Wire() for _ in range(CLIENTS)], [Wire() for _ in range(SERVERS)]
    room = memoryview(bytearray(8 << 20))
    for wire in (*clients, *links):
        wire.readable = lambda wire=wire: wire.recv_into(room)  # type: ignore[misc]
    return clients, links


def drive(ends: Ends, kind: int, request: int, depth: int, turns: int) -> None:
    """Let clients in turn send `depth` requests of so many bytes at once, and let the servers answer them."""
    clients, links = ends
    length, wanted = (request, 0) if kind == Kind.WRITE else (0, request)
    offset = 0
    for turn in range(turns):
        raw = b""
        for tag in range(depth):
            raw += HEADER.pack(MAGIC, VERSION, kind, 0, 0, length, wanted, 0, tag, FILE, offset, 1) + bytes(length)
            offset += request
        client = clients[turn % CLIENTS]
        client.deliver(raw)
        for link in links:
            headers = [HEADER.unpack(part) for part in link.sent if len(part) == HEADER.size]
            link.sent.clear()
            if headers:
                link.deliver(b"".join(map(answer, headers)))
        client.sent.clear()


def answer(asked: tuple[Any, ...]) -> bytes:
    _, _, kind, _, _, written, wanted, _, tag, *_ = asked
    length = wanted if kind == Kind.READ else 0
    return HEADER.pack(MAGIC, VERSION, kind, 1, 0, length, written or wanted, 0, tag, FILE, 0, 1) + bytes(length)


def count(ends: Ends, kind: int, request: int, depth: int) -> tuple[Counter[CodeType], Counter[CodeType]]:
    """Instructions and calls of each function of a side, for all COUNTED requests."""
    instructions: Counter[CodeType] = Counter()
    calls: Counter[CodeType] = Counter()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename == __file__:
            return trace
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        calls[frame.f_code] += event == "call"
        instructions[frame.f_code] += event == "opcode"
        return trace

    sys.settrace(trace)
    drive(ends, kind, request, depth, COUNTED // depth)
    sys.settrace(None)
    return instructions, calls


def main() -> int:
    parser = argparse.ArgumentParser(description="What an I/O node's Python code does for a request.")
    parser.add_argument("--functions", action="store_true", help="the instructions of each function")
    parser.add_argument("--request", type=int, default=32, metavar="KIB", help="the size of a request in KiB")
    options = parser.parse_args()
    request = options.request << 10
    loop = new_loop()
    asyncio.set_event_loop(loop)

    async def measure() -> None:
        sides = {"I/O node": node_ends(loop), "relay": relay_ends(loop), "harness": no_ends(loop)}
        for depth in (1, 4):
            for kind in (Kind.WRITE, Kind.READ):
                times: dict[str, list[float]] = {name: [] for name in sides}
                for ends in sides.values():
                    drive(ends, kind, request, depth, WARM_UP)
                gc.collect()
                for _ in range(TURNS):
                    for name, ends in sides.items():
                        begin = time.process_time_ns()
                        drive(ends, kind, request, depth, TIMED // depth)
                        times[name].append((time.process_time_ns() - begin) / TIMED / 1000)
                for name, ends in list(sides.items())[:2]:
                    instructions, calls = count(ends, kind, request, depth)
                    each, called = instructions.total() / COUNTED, calls.total() / COUNTED
                    spent = min(times[name]) - min(times["harness"])
                    words = f"{each:,.0f} instructions in {called:.1f} functions, {spent:.1f} µs"
                    print(f"{kind.name.lower()}, {depth} at once, {name}: {words}", flush=True)
                    for code, number in instructions.most_common() if options.functions else ():
                        where = f"{Path(code.co_filename).name} {code.co_qualname}"
                        print(f"    {number / COUNTED:6.1f} {calls[code] / COUNTED:5.2f}  {where}")

    loop.run_until_complete(measure())
    return 0


if __name__ == "__main__":
    sys.exit(main())
