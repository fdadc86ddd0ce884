"""How much an I/O node passes through: against a bare relay, clients without any hop, and the machine's own copy.

    .venv/bin/python benchmarks/forward_speed.py [--rounds N] [--volume MIB] [--only relay|cost|windows]

Goals: through one I/O node to four servers with 8 clients, at least 80 % of a bare relay (`forward_relay.py`) at
256 KiB and 1 MiB, writes and reads; at 32 KiB at least 15,000 requests a second (shown with one request in flight at
each client, where the machine's wake-ups count most, and with four). A scheduler and a council cost less
than 2 % (median) of `fifo` without one. Windows from 0.125 to 8 ms are held to within 10 %
in the mean; single ones are shown beside those of a process that does nothing but wait for them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from bench import verdict
from control_load import cpu
from forward_relay import greeted

from forebay.act.command import Child
from forebay.act.forward.net.loop import new_loop
from forebay.act.forward.net.timer import Alarm
from forebay.act.forward.net.wire import HEADER, MAGIC, VERSION, Kind, pack
from forebay.act.forward.striping import Piece, parts_of, pieces
from forebay.model.layout import Layout

CLIENTS, SERVERS, STRIPE = 8, 4, 64 << 10
FILE = 64 << 20
"""Bytes of the shared file; clients go round in it, so that all of it stays in memory."""
LAYOUT = Layout(count=SERVERS, size=STRIPE, start=0)
HERE = Path(__file__).parent
READ, WRITE = int(Kind.READ), int(Kind.WRITE)


class Layer:
    """The servers' and the key's places, and what was started."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.key = folder, folder / "key"
        self.secret = os.urandom(16).hex().encode()
        self.key.touch(0o600)
        self.key.write_bytes(self.secret)
        self.servers = [f"unix:{folder}/server{i}" for i in range(SERVERS)]
        self.children: list[Child] = []
        self.said: dict[int, dict[str, object]] = {}

    def forebay(self, *words: str) -> Child:
        return self.started(sys.executable, "-m", "forebay", "forward", *words, "--key", str(self.key))

    def started(self, *argv: str) -> Child:
        child = Child(argv)
        self.children.append(child)
        while b"ready" not in (line := os.read(child.out, 4096)):
            assert line, argv
        if line.startswith(b"{"):
            self.said[child.pid] = json.loads(line)
        return child

    def serve(self) -> None:
        for i, address in enumerate(self.servers):
            self.forebay(
                "server", "--folder", f"{self.folder}/data{i}", "--listen", address, "--index", str(i), "--of",
                str(SERVERS), "--stripe-size", "64 KiB",
            )  # fmt: skip

    def node(self, *options: str, name: str = "ion0") -> tuple[str, Child]:
        address = f"unix:{self.folder}/{name}"
        servers = [word for server in self.servers for word in ("--server", server)]
        return address, self.forebay("ion", "--listen", address, "--name", name, *servers, *options)

    def relay(self) -> tuple[str, Child]:
        address = f"unix:{self.folder}/relay"
        words = (str(self.key), str(STRIPE), "0", *self.servers)
        return address, self.started(sys.executable, str(HERE / "forward_relay.py"), address, *words)

    def close(self) -> None:
        for child in self.children:
            child.stop(5.0)


def fill(sock: socket.socket, room: memoryview) -> None:
    got = 0
    while got < len(room):
        count = sock.recv_into(room[got:])
        if not count:
            raise EOFError
        got += count


def header(kind: int, length: int, size: int, tag: int, file: int, offset: int) -> bytes:
    return HEADER.pack(MAGIC, VERSION, kind, 0, 0, length, size, 0, tag, file, offset, 1)


class Through:
    """One client of an I/O node or of the relay."""

    def __init__(self, address: str, secret: bytes, node: bool, me: int) -> None:
        from forebay.act.forward.net.address import open_socket, parse_address

        self.sock = (
            greeted(address, secret, "client", str(me), "node") if node else open_socket(parse_address(address), 9)
        )
        self.sock.settimeout(None)
        self.head = memoryview(bytearray(HEADER.size))

    def put(self, kind: int, length: int, size: int, file: int, offset: int, data: memoryview) -> None:
        asked = header(kind, length, size, 1, file, offset)
        sent = self.sock.sendmsg((asked, data) if length else (asked,))
        if sent < HEADER.size + length:
            self.sock.sendall(data[sent - HEADER.size :])

    def take(self, data: memoryview) -> None:
        fill(self.sock, self.head)
        fields = HEADER.unpack(self.head)
        assert not fields[4], os.strerror(fields[4])
        if fields[5]:
            fill(self.sock, data[: fields[5]])

    def open(self) -> int:
        words = {"path": b"bench", "create": True, "exclusive": False, "mode": 0o600, "layout": [SERVERS, STRIPE, 0]}
        asked = pack(words | {"key": 0, "again": False})
        room = memoryview(bytearray(4096))
        room[: len(asked)] = asked
        self.sock.sendall(header(int(Kind.OPEN), len(asked), 0, 1, 0, 0) + asked)
        fill(self.sock, self.head)
        fields = HEADER.unpack(self.head)
        assert not fields[4], os.strerror(fields[4])
        fill(self.sock, room[: fields[5]])
        return int(fields[9])


class Directly:
    """One client that does the striping itself."""

    def __init__(self, layer: Layer, me: int) -> None:
        self.socks = [greeted(a, layer.secret, "node", f"direct{me}", "server") for a in layer.servers]
        self.head = memoryview(bytearray(HEADER.size))
        self.asked: deque[tuple[int, Sequence[Piece]]] = deque()

    def put(self, kind: int, length: int, size: int, file: int, offset: int, data: memoryview) -> None:
        cut = pieces(LAYOUT, SERVERS, offset, length or size)
        self.asked.append((kind, cut))
        for piece in cut:
            if kind == WRITE:
                asked = header(kind, piece.length, 0, 1, file, piece.offset)
                sent = self.socks[piece.server].sendmsg((asked, *parts_of(piece, data)))
                assert sent == HEADER.size + piece.length
            else:
                self.socks[piece.server].sendall(header(kind, 0, piece.length, 1, file, piece.offset))

    def take(self, data: memoryview) -> None:
        kind, cut = self.asked.popleft()
        for piece in cut:
            fill(self.socks[piece.server], self.head)
            if kind == READ:
                for part in parts_of(piece, data):
                    fill(self.socks[piece.server], part)


def client(
    make: Callable[[int], Any], me: int, kind: int, request: int, count: int, file: int, depth: int, start: Any
) -> None:
    peer = make(me)
    if isinstance(peer, Through) and file < 0:
        file = peer.open()
    data = memoryview(bytearray(os.urandom(request)))
    length, size = (request, 0) if kind == WRITE else (0, request)
    own = FILE // CLIENTS
    start.wait()
    for i in range(count + depth):
        if i >= depth:
            peer.take(data)
        if i < count:
            peer.put(kind, length, size, file, me * own + i * request % own, data)
    start.wait()


def bandwidth(
    make: Callable[[int], Any], kind: int, request: int, count: int, file: int, clients: int = CLIENTS, depth: int = 1
) -> float:
    """Bytes a second of all clients together, each with `depth` requests in flight."""
    context = multiprocessing.get_context("fork")
    start = context.Barrier(clients + 1)
    work = [
        context.Process(target=client, args=(make, me, kind, request, count, file, depth, start), daemon=True)
        for me in range(clients)
    ]
    for process in work:
        process.start()
    start.wait()
    begin = time.perf_counter()
    start.wait()
    taken = time.perf_counter() - begin
    for process in work:
        process.join()
    return clients * count * request / taken


def copied(request: int, seconds: float) -> float:
    """Bytes a second from one process to another through a UNIX socket: the machine's loopback copy."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    if not os.fork():
        room = memoryview(bytearray(1 << 20))
        ours.close()
        while theirs.recv_into(room):
            pass
        os._exit(0)
    theirs.close()
    data, total, begin = bytes(request), 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        ours.sendall(data)
        total += request
    taken = time.perf_counter() - begin
    ours.close()
    os.wait()
    return total / taken


@contextmanager
def layer() -> Iterator[Layer]:
    where = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=where, ignore_cleanup_errors=True) as folder:
        made = Layer(Path(folder))
        try:
            made.serve()
            yield made
        finally:
            made.close()


def against_the_relay(made: Layer, rounds: int, volume: int) -> None:
    node, node_child = made.node()
    relay, relay_child = made.relay()
    pids = {"I/O node": node_child.pid, "relay": relay_child.pid}
    first = Through(node, made.secret, True, 99)
    file = first.open()
    ways: dict[str, Callable[[int], Any]] = {
        "I/O node": lambda me: Through(node, made.secret, True, me),
        "relay": lambda me: Through(relay, made.secret, False, me),
        "directly": lambda me: Directly(made, me),
    }
    for request, depth in ((32 << 10, 1), (32 << 10, 4), (256 << 10, 1), (1 << 20, 1)):
        for kind, name in ((WRITE, "write"), (READ, "read")):
            count = max(volume // request // CLIENTS, 8)
            found: dict[str, list[float]] = {way: [] for way in ways}
            used: dict[str, list[float]] = {way: [] for way in pids}
            for _ in range(rounds):
                for way, make in ways.items():
                    own = -1 if way == "I/O node" else file
                    before = cpu(pids[way]) if way in pids else 0.0
                    found[way].append(bandwidth(make, kind, request, count, own, depth=depth))
                    if way in pids:
                        used[way].append((cpu(pids[way]) - before) / (CLIENTS * count))
            report(f"{name} {request >> 10} KiB, {depth} in flight", request, found)
            ours, theirs = (1e6 * statistics.median(used[way]) for way in pids)
            ratio = statistics.median(b / a for a, b in zip(*used.values(), strict=True))
            words = f"I/O node {ours:.1f} µs, relay {theirs:.1f} µs: {100 * ratio:.0f} %"
            print(f"    processor time of a request: {words}", flush=True)
    print(f"copy through one UNIX socket: {copied(1 << 20, 0.5) / 1e6:,.0f} MB/s")


def cost_of_scheduling(made: Layer, rounds: int, volume: int) -> None:
    """Bandwidth of a scheduler with windows and a council whose decisions are ignored, over fifo without either.

    Bandwidths differ by more than the goal from one round to the next, so CPU seconds are counted, too: what I/O node
    and council take more than the plain I/O node, of what the machine has in that time.
    """
    council = f"unix:{made.folder}/council"
    advisor = made.forebay("council", "--listen", council, "--ignore", "--every", "1 s")
    plain, plain_node = made.node("--in-flight", "32", name="plain")
    tuned, tuned_node = made.node(
        "--scheduler", "twins-work-conserving", "--in-flight", "32", "--council", council, name="tuned"
    )
    who = {plain: (plain_node.pid,), tuned: (tuned_node.pid, advisor.pid)}
    ratios, shares = [], []
    for request in (32 << 10, 256 << 10, 1 << 20):
        for kind in (WRITE, READ):
            count = max(volume // request // CLIENTS, 8)
            for turn in range(rounds):
                found, used = {}, {}
                for address in (plain, tuned) if turn % 2 else (tuned, plain):
                    before = sum(map(cpu, who[address]))
                    found[address] = bandwidth(partial(Through, address, made.secret, True), kind, request, count, -1)
                    used[address] = sum(map(cpu, who[address])) - before
                ratios.append(found[tuned] / found[plain])
                taken = CLIENTS * count * request / found[plain]
                shares.append((used[tuned] - used[plain]) / (taken * (os.cpu_count() or 1)))
    say_cost("of bandwidth", [1 - ratio for ratio in ratios])
    say_cost("of the machine's CPU time", shares)


def say_cost(of: str, costs: list[float]) -> None:
    low, middle, high = (100 * cost for cost in statistics.quantiles(costs, n=4))
    words = f"{middle:.1f} % {of} (quartiles {low:.1f} to {high:.1f} %)"
    print(f"scheduler and council: {words}; goal 2 %, {verdict(middle < 2)}", flush=True)


def windows(made: Layer) -> None:
    """How long windows really are, as the I/O node measured them, with one client and with all of them.

    The peer is a process with the same loop and timer that does nothing else, at the same time.
    """
    for window in (0.125, 0.25, 0.5, 1, 2, 4, 8):
        for clients in (1, CLIENTS):
            name = f"window{window}-{clients}"
            options = ("--scheduler", "twins", "--window", f"{window} ms", "--metrics", "127.0.0.1:0", "--json")
            address, child = made.node(*options, name=name)
            count = max(int(200 / window / clients), 20)
            with bare_timer(int(window * 1e6)) as peer:
                bandwidth(partial(Through, address, made.secret, True), WRITE, 256 << 10, count, -1, clients)
            share, mean, seen = held(str(made.said[child.pid]["metrics"]))
            theirs = sum(0.9 < length <= 1.1 for length in peer) / len(peer)
            who = "one client" if clients == 1 else f"{clients} clients"
            words = f"mean {mean:.3f} of {seen} windows, goal 0.9 to 1.1, {verdict(0.9 <= mean <= 1.1)}"
            single = f"{100 * share:.0f} % of single ones within 10 %, a bare timer {100 * theirs:.0f} %"
            print(f"window {window:g} ms, {who}: {words}; {single}", flush=True)
            child.stop(5.0)


@contextmanager
def bare_timer(window: int) -> Iterator[list[float]]:
    """Real lengths of windows over what was set, once it has ended."""
    mine, its = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=keep_time, args=(its, window), daemon=True)
    process.start()
    mine.recv()
    lengths: list[float] = []
    yield lengths
    mine.send("end")
    lengths += mine.recv()
    process.join()


def keep_time(pipe: Connection, window: int) -> None:
    """Be woken at each window's end until told to end, and say how far apart that was."""
    loop, entered = new_loop(), [time.time_ns()]

    def ring() -> None:
        now = time.time_ns()
        entered.append(now)
        alarm.at((now // window + 1) * window)

    alarm = Alarm(loop, ring)
    loop.add_reader(pipe.fileno(), loop.stop)
    pipe.send("ready")
    ring()
    loop.run_forever()
    pipe.send([(after - before) / window for before, after in pairwise(entered)])


def held(address: str) -> tuple[float, float, int]:
    """The share of windows within 10 % of what was set, the mean of real over set length, and how many."""
    with urlopen(f"http://{address}/metrics", timeout=30) as answer:
        lines = [
            line.split() for line in answer.read().decode().splitlines() if line.startswith("forebay_ion_window_r")
        ]
    found = {name: float(value) for name, value in lines}
    prefix = "forebay_ion_window_ratio"
    total = found[f"{prefix}_count"]
    inside = found[f'{prefix}_bucket{{le="1.1"}}'] - found[f'{prefix}_bucket{{le="0.9"}}']
    return inside / max(total, 1), found[f"{prefix}_sum"] / max(total, 1), int(total)


def report(name: str, request: int, found: dict[str, list[float]]) -> None:
    middle = {way: statistics.median(values) for way, values in found.items()}
    ratio = statistics.median(a / b for a, b in zip(found["I/O node"], found["relay"], strict=True))
    rate = middle["I/O node"] / request
    words = ", ".join(f"{way} {value / 1e6:,.0f} MB/s" for way, value in middle.items())
    goal = f"{rate:,.0f} requests/s, goal 15,000, {verdict(rate >= 15_000)}"
    if request > 32 << 10:
        goal = f"goal 80 %, {verdict(ratio >= 0.8)}"
    print(f"{name}: {100 * ratio:.0f} % of the relay ({words}); {goal}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="How much an I/O node passes through.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--volume", type=int, default=512, help="MiB in each run")
    parser.add_argument("--only", choices=("relay", "cost", "windows"))
    options = parser.parse_args()
    with layer() as made:
        if options.only in (None, "relay"):
            against_the_relay(made, options.rounds, options.volume << 20)
        if options.only in (None, "cost"):
            cost_of_scheduling(made, options.rounds, options.volume << 20)
        if options.only in (None, "windows"):
            windows(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
