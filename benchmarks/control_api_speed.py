"""How fast the control service answers over its socket, with its journal on disk: 1,000 disks, 10,000 live grants.

    .venv/bin/python benchmarks/control_api_speed.py [--seconds 8] [--rate 500] [--db ADDRESS]

Goals: 500 requests a second, each decided, written durably and answered, 99 of 100 within 50 ms of the moment when
they were due; and one request after the other takes no more than 1.5 times as long with 10,000 live grants as with
100. The peer is the rate that the orchestrator of StorAlloc reaches on such a machine without storing anything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench import SEED, verdict

GB = 10**9
GOAL_RATE, GOAL_P99, GOAL_FLAT = 500.0, 0.05, 1.5
STORALLOC = 75.0
_CONNECTIONS = 16


class Connection:
    """Plain HTTP over a UNIX socket, with as little work as can be: it is not what is measured."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def call(self, method: str, path: str, body: object = None) -> Any:
        text = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(text)}"
        self._writer.write(head.encode() + b"\r\n\r\n" + text)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        found = await self._reader.readexactly(length)
        assert answer.startswith(b"HTTP/1.1 20"), found
        return found


async def connect(socket: Path) -> Connection:
    return Connection(*await asyncio.open_unix_connection(str(socket)))


async def hello(connection: Connection, node: int) -> None:
    disks = [
        {"name": name, "capacity": 4000 * GB, "read_bandwidth": 3.13e9, "write_bandwidth": 2.93e9} for name in "ab"
    ]
    await connection.call("POST", f"/v1/nodes/node-{node}/hello", {"disks": disks, "volumes": [], "number": 1})


class Asker:
    """Asks, each time for something else."""

    def __init__(self, connections: list[Connection]) -> None:
        self._connections = asyncio.Queue[Connection]()
        for connection in connections:
            self._connections.put_nowait(connection)
        self._rng = np.random.default_rng(SEED)

    async def ask(self) -> None:
        body = {"size": int(self._rng.integers(1, 150)) * GB, "seconds": float(self._rng.integers(6000, 86_400))}
        connection = await self._connections.get()
        await connection.call("POST", "/v1/grants", body)
        self._connections.put_nowait(connection)

    async def fill(self, count: int) -> float:
        """Asks as fast as they are answered; how many a second."""
        begin = time.perf_counter()
        left = iter(range(count))

        async def worker() -> None:
            for _ in left:
                await self.ask()

        await asyncio.gather(*(worker() for _ in range(_CONNECTIONS)))
        return count / (time.perf_counter() - begin)

    async def one_by_one(self, count: int) -> float:
        """The median seconds of a request that is alone."""
        taken = []
        for _ in range(count):
            begin = time.perf_counter()
            await self.ask()
            taken.append(time.perf_counter() - begin)
        return float(np.median(taken))

    async def at_rate(self, rate: float, seconds: float) -> np.ndarray[Any, Any]:
        """Seconds from the moment when each request was due, by chance, until its answer."""
        due = np.cumsum(self._rng.exponential(1 / rate, int(rate * seconds)))
        begin = time.perf_counter()
        taken = np.zeros(due.size)

        async def one(at: int) -> None:
            await self.ask()
            taken[at] = time.perf_counter() - begin - due[at]

        tasks = []
        for at, moment in enumerate(due):
            wait = begin + moment - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(one(at)))
        await asyncio.gather(*tasks)
        return taken


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(socket: Path, pid: int, rate: float, seconds: float) -> bool:
    connections = [await connect(socket) for _ in range(_CONNECTIONS)]
    for node in range(500):
        await hello(connections[0], node)
    asker = Asker(connections)
    await asker.fill(100)
    few = await asker.one_by_one(200)
    fast = await asker.fill(10_000 - 300)
    many = await asker.one_by_one(200)
    print(
        f"1,000 disks: a request alone takes {many * 1e3:.2f} ms with 10,000 live grants, {few * 1e3:.2f} ms with 100, "
        f"ratio {many / few:.2f}, goal {GOAL_FLAT}, {verdict(many / few <= GOAL_FLAT)}"
    )
    print(f"as many as can be: {fast:.0f} requests a second, {fast / STORALLOC:.1f} times StorAlloc's {STORALLOC:.0f}")
    before = cpu(pid)
    taken = await asker.at_rate(rate, seconds)
    each = (cpu(pid) - before) / taken.size
    p99 = float(np.percentile(taken, 99))
    good = p99 < GOAL_P99
    print(
        f"{rate:.0f} requests a second for {seconds:g} s with 10,000 live grants and more: median "
        f"{float(np.median(taken)) * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, most {taken.max() * 1e3:.1f} ms, "
        f"goal {GOAL_P99 * 1e3:.0f} ms, {verdict(good)}; {each * 1e3:.2f} ms of CPU each"
    )
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast the control service answers.")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rate", type=float, default=GOAL_RATE)
    parser.add_argument("--db", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="forebay-") as folder:
        socket, db = Path(folder) / "socket", given.db or str(Path(folder) / "journal.db")
        forebay = str(Path(sys.executable).with_name("forebay"))
        with (Path(folder) / "log").open("w") as log:
            service = subprocess.Popen(
                [forebay, "serve", "--socket", str(socket), "--db", db, "--silent", "1h"],
                stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
            assert service.stdout is not None
            service.stdout.readline()
            try:
                asyncio.run(measure(socket, service.pid, given.rate, given.seconds))
            finally:
                service.send_signal(signal.SIGTERM)
                service.wait(30)
    return 0


if __name__ == "__main__":
    sys.exit(main())
