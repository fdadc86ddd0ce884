"""How fast the control service answers over its socket, with its journal on disk: 1,000 disks, 10,000 live grants.

    .venv/bin/python benchmarks/control_api_speed.py [--seconds 20] [--rate 500] [--db ADDRESS] [--levels 100,1000]

Goals: 500 requests a second, each decided, written durably and answered, 99 of 100 decided within 50 ms, and answered
within 50 ms of the moment when they were due; and no more CPU for a request with 10,000 live grants than 1.2 times that
with 100. The peer, under the same load in the same run, is a program that writes one row durably for each request and
answers a constant: what it takes is the machine's, not the service's. Another is the rate that the orchestrator of
StorAlloc reaches on such a machine without storing anything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import uvloop
from bench import SEED, verdict
from control_load import Load, by_chance, cpu, get, post

GB = 10**9
GOAL_RATE, GOAL_P99, GOAL_FLAT, GOAL_CPU = 500.0, 0.05, 1.2, 0.6e-3
STORALLOC = 75.0
_SLICE = 50  # requests that are asked for before as many are given back: the number of live grants stays about the same
_SLICES = 30
_PROBES = 20.0  # questions a second whether it is alive, beside the load
Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """Seconds that requests took, and seconds of CPU for each: of the service, and of this program."""

    taken: Times
    service: float
    generator: float

    def told(self) -> str:
        p50, p99, p999 = (float(np.percentile(self.taken, part)) * 1e3 for part in (50, 99, 99.9))
        return (
            f"median {p50:.1f} ms, p99 {p99:.1f}, p99.9 {p999:.1f}, most {self.taken.max() * 1e3:.1f}; "
            f"CPU a request: service {self.service * 1e3:.2f} ms, generator {self.generator * 1e3:.2f}"
        )

    @property
    def p99(self) -> float:
        return float(np.percentile(self.taken, 99))


class Bench:
    """A service with 1,000 disks, and somebody who asks it for space, each time for something else."""

    def __init__(self, load: Load, pid: int, rate: float) -> None:
        self._load, self._pid, self._rate = load, pid, rate
        self._rng = np.random.default_rng(SEED)
        self._reports: dict[str, int] = {}
        self.live: list[str] = []

    async def register(self, nodes: int = 500) -> None:
        speeds = {"read_bandwidth": 3.13e9, "write_bandwidth": 2.93e9}
        disks = [{"name": name, "capacity": 4000 * GB, **speeds} for name in "ab"]
        hello = {"disks": disks, "volumes": [], "number": 1}
        await self._load.all_of([post(f"/v1/nodes/node-{node}/hello", hello) for node in range(nodes)])

    def asks(self, count: int) -> list[bytes]:
        sizes = self._rng.integers(1, 150, count).tolist()
        seconds = self._rng.integers(6000, 86_400, count).tolist()
        return [
            post("/v1/grants", {"size": size * GB, "seconds": float(time)})
            for size, time in zip(sizes, seconds, strict=True)
        ]

    async def fill(self, live: int) -> float:
        """Until there are so many; how many a second."""
        asks = self.asks(live - len(self.live))
        begin = time.perf_counter()
        answers = await self._load.all_of(asks)
        self.live += [json.loads(body)["id"] for body in answers]
        return len(asks) / (time.perf_counter() - begin)

    async def asked(self, count: int) -> tuple[list[bytes], Seen]:
        asks, due = self.asks(count), by_chance(self._rng, self._rate, count)
        before, own = cpu(self._pid), time.process_time()
        answers, taken = await self._load.when_due(asks, due)
        return answers, Seen(taken, (cpu(self._pid) - before) / count, (time.process_time() - own) / count)

    async def give_back(self, answers: list[bytes]) -> None:
        """The whole life of these grants to its end, as their owner and the agents have it."""
        grants = [json.loads(body) for body in answers]
        await self._load.all_of([post(f"/v1/grants/{grant['id']}/release", {}) for grant in grants])
        await self._load.all_of([self._gone(volume) for grant in grants for volume in grant["volumes"]])

    def _gone(self, volume: dict[str, Any]) -> bytes:
        number = self._reports[volume["node"]] = self._reports.get(volume["node"], 1) + 1
        report = {"kind": "gone", "volume": volume["name"], "disk": volume["disk"], "number": number}
        return post(f"/v1/nodes/{volume['node']}/reports", [report])

    async def at(self) -> Seen:
        """With the grants that are live now, and never many more."""
        found = []
        for turn in range(_SLICES + 2):
            answers, seen = await self.asked(_SLICE)
            await self.give_back(answers)
            if turn >= 2:  # the first ones warm up
                found.append(seen)
        taken = np.concatenate([seen.taken for seen in found])
        # The machine has other work too, which comes and goes: the median slice is the service's.
        return Seen(taken, *(float(np.median([getattr(s, who) for s in found])) for who in ("service", "generator")))

    async def for_long(self, seconds: float) -> tuple[Seen, Times, Times]:
        """At the rate for so long; also how long it took to hear that it is alive, and the service's own counts."""
        before = await self.counts()
        probes = asyncio.create_task(self._probe(seconds))
        _, seen = await self.asked(int(self._rate * seconds))
        return seen, await probes, await self.counts() - before

    async def _probe(self, seconds: float) -> Times:
        due = np.arange(int(seconds * _PROBES)) / _PROBES
        return (await self._load.when_due([get("/v1/health")] * due.size, due))[1]

    async def counts(self) -> Times:
        """How many commands were decided and written within each of the histogram's bounds, cumulative."""
        (body,) = await self._load.all_of([get("/metrics")])
        found = re.findall(rb'forebay_decision_seconds_bucket\{le="([^"]+)"\} ([0-9.e+]+)', body)
        self.bounds = [float(bound) for bound, _ in found]
        return np.array([float(count) for _, count in found])

    def decided_within(self, counts: Times, part: float) -> float:
        """The bound that this part of the decisions did not exceed."""
        return self.bounds[int(np.argmax(counts >= part * counts[-1]))]


@contextmanager
def running(*words: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that says in one line that it is ready."""
    with log.open("w") as file:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=file)
        assert process.stdout is not None
        assert b"ready" in process.stdout.readline(), log.read_text()
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


async def measure(socket: Path, pid: int, given: argparse.Namespace) -> Seen:
    bench = Bench(await Load.on(socket), pid, given.rate)
    await bench.register()
    levels: dict[int, Seen] = {}
    fast = 0.0
    for live in (*map(int, given.levels.split(",")), 10_000):
        fast = max(fast, await bench.fill(live))
        levels[live] = await bench.at()
        print(f"{live:,} live grants, {given.rate:.0f} requests a second: {levels[live].told()}", flush=True)
    print(f"as many as can be: {fast:.0f} requests a second, {fast / STORALLOC:.1f} times StorAlloc's {STORALLOC:.0f}")
    few, many = levels[min(levels)].service, levels[max(levels)].service
    print(
        f"CPU of the service for a request: {many * 1e3:.2f} ms with {max(levels):,} live grants, goal "
        f"{GOAL_CPU * 1e3:.1f}, {verdict(many <= GOAL_CPU)}; {few * 1e3:.2f} with {min(levels):,}, "
        f"ratio {many / few:.2f}, goal {GOAL_FLAT}, {verdict(many / few <= GOAL_FLAT)}"
    )
    seen, alive, counts = await bench.for_long(given.seconds)
    decided = bench.decided_within(counts, 0.99)
    print(
        f"{given.rate:.0f} requests a second for {given.seconds:g} s from 10,000 live grants on: {seen.told()}\n"
        f"  99 of 100 answered within {seen.p99 * 1e3:.1f} ms, goal {GOAL_P99 * 1e3:.0f}, "
        f"{verdict(seen.p99 < GOAL_P99)}; decided and written within {decided * 1e3:g} ms, "
        f"{verdict(decided <= GOAL_P99)}; 99.9 within {bench.decided_within(counts, 0.999) * 1e3:g} ms; "
        f"the longest silence {alive.max() * 1e3:.0f} ms"
    )
    return seen


async def compare(socket: Path, pid: int, given: argparse.Namespace, own: Seen) -> None:
    bench = Bench(await Load.on(socket), pid, given.rate)
    await bench.asked(200)
    _, peer = await bench.asked(int(given.rate * min(given.seconds, 8.0)))
    print(f"peer, one row written durably for each request: {peer.told()}")
    print(f"the service takes {own.p99 / peer.p99:.1f} times the peer's p99, {own.service / peer.service:.1f} its CPU")


async def peer(socket: str, file: str) -> None:
    """What the least service could do: the same server, one commit for each request, always the same answer."""
    import uvicorn

    rows = sqlite3.connect(file, isolation_level=None)
    for words in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE journal (line TEXT)"):
        rows.execute(words)
    body = json.dumps({"id": "0" * 32, "state": "granted", "more": "x" * 700}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]

    async def app(_: Any, receive: Any, send: Any) -> None:
        sent = await receive()
        rows.execute("INSERT INTO journal VALUES (?)", (sent["body"].decode() * 10,))
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    config = uvicorn.Config(app, uds=socket, ws="none", lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    print("ready", flush=True)
    await task


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast the control service answers.")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=GOAL_RATE)
    parser.add_argument("--levels", default="100,1000")
    parser.add_argument("--db", default="")
    parser.add_argument("--peer", nargs=2, metavar=("SOCKET", "FILE"), help="be the peer")
    given = parser.parse_args()
    if given.peer:
        uvloop.run(peer(*given.peer))
        return 0
    with tempfile.TemporaryDirectory(prefix="forebay-") as name:
        folder = Path(name)
        forebay, db = str(Path(sys.executable).with_name("forebay")), given.db or str(folder / "journal.db")
        serve = (forebay, "serve", "--socket", str(folder / "s"), "--db", db, "--silent", "1h")
        with running(*serve, log=folder / "log") as service:
            own = uvloop.run(measure(folder / "s", service.pid, given))
        words = (sys.executable, __file__, "--peer", str(folder / "p"), str(folder / "peer.db"))
        with running(*words, log=folder / "peer.log") as other:
            uvloop.run(compare(folder / "p", other.pid, given, own))
    return 0


if __name__ == "__main__":
    sys.exit(main())
