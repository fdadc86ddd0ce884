"""The compiled simulation against one that keeps everything in lists and dictionaries, to the nanosecond."""

import heapq
from collections import defaultdict
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.model.layout import MOST_PIECE
from forebay.model.process_mapping import MAPPINGS
from forebay.model.service_time import ServiceTime
from forebay.model.situation import OPERATIONS, PATTERNS
from forebay.simulate.requests.run import Forwarding, simulate_requests
from forebay.simulate.requests.servers import ServerModel, contended_servers, flash
from forebay.simulate.requests.workload import Workload
from support.examples import examples

QUIET = ServiceTime(sigma=0.0)
CROWDED = replace(QUIET, write_crowd=0.1)
FLASH = {"reading": 80e-6, "writing": 30e-6, "bandwidth": 400e6, "bus": 3.2e9}
NUMBERS: dict[ServerModel, ServiceTime | dict[str, float]] = {
    contended_servers(QUIET): QUIET,
    contended_servers(CROWDED): CROWDED,
    flash(noise=0.0, channels=2, **FLASH): FLASH,
}
# What happens first of what happens at the same time.
SENT, BACK, CLIENT, ENTER, WAKE, SERVED = 0, 1, 2, 4, 5, 6


def nano(seconds: float) -> int:
    return round(seconds * 1e9)


class Naive:
    """Clients, I/O nodes and servers; a request is (process, number), a part a dictionary."""

    def __init__(self, layer: Forwarding, workload: Workload, starts: list[int]) -> None:
        self.layer, self.workload = layer, workload
        self.events: list[tuple[int, int, int, int, Any]] = []
        self.serial = count()
        self.entrance: dict[int, list[int]] = defaultdict(list)
        self.waiting: dict[int, list[dict[str, int]]] = defaultdict(list)
        self.in_flight: dict[int, int] = defaultdict(int)
        self.wakes: dict[int, int] = {}
        self.at_server: dict[int, list[dict[str, int]]] = defaultdict(list)
        self.serving: dict[int, list[dict[str, int]]] = defaultdict(list)
        self.memory: dict[int, dict[str, int]] = defaultdict(dict)
        self.bus: dict[int, int] = defaultdict(lambda: -1)
        self.answered, self.missing = [0] * workload.processes, [0] * workload.processes
        self.end, self.served = 0, 0
        for process in sorted(range(workload.processes), key=lambda p: starts[p]):
            self.later(starts[process] + nano(layer.to_client), CLIENT, 0, process)

    def later(self, time: int, source: int, which: int, thing: Any) -> None:
        heapq.heappush(self.events, (time, source, which, next(self.serial), thing))

    def run(self) -> None:
        while self.events:
            now, source, which, _, thing = heapq.heappop(self.events)
            if source == CLIENT:
                self.reach_node(now, thing)
            elif source == ENTER:
                self.enter(now, which)
            elif source == SENT:
                self.reach_server(now, thing)
            elif source == SERVED:
                self.leave_server(now, thing)
            elif source == BACK:
                self.come_back(now, thing)
            elif self.wakes.get(which) == now:
                self.pump(now, which)

    def reach_node(self, now: int, process: int) -> None:
        node = process % self.layer.nodes
        if self.layer.mapping == "block":
            node = process * self.layer.nodes // self.workload.processes
        self.entrance[node].append(process)
        if len(self.entrance[node]) == 1:
            self.take_in(now, node)

    def take_in(self, now: int, node: int) -> None:
        seconds = self.layer.writing if self.workload.operation == "write" else self.layer.reading
        self.later(now + nano(seconds), ENTER, node, None)

    def enter(self, now: int, node: int) -> None:
        process = self.entrance[node].pop(0)
        if self.entrance[node]:
            self.take_in(now, node)
        w, layer = self.workload, self.layer
        file, number = 0, self.answered[process]
        if w.pattern == "file-per-process":
            file, begin = process, number * w.request
        elif w.pattern == "shared-contiguous":
            begin = (process * w.requests + number) * w.request
        else:
            begin = (number * w.processes + process) * w.request
        parts: dict[int, list[dict[str, int]]] = {}
        offset = begin
        while offset < begin + w.request:
            stripe = offset // layer.stripe
            size = min((stripe + 1) * layer.stripe, begin + w.request) - offset
            at = stripe // layer.servers * layer.stripe + offset % layer.stripe
            server = (file % layer.servers + stripe) % layer.servers
            part = {"node": node, "process": process, "server": server, "file": file, "offset": at, "size": size}
            here = parts.setdefault(server, [])
            if here and here[-1]["size"] + size <= MOST_PIECE:
                here[-1]["size"] += size
            else:
                here.append(part)
            offset += size
        for part in (part for here in parts.values() for part in here):
            self.waiting[node].append(part)
            self.missing[process] += 1
        self.pump(now, node)

    def pump(self, now: int, node: int) -> None:
        self.wakes[node] = -1
        most = self.layer.in_flight or 0
        while self.waiting[node] and self.in_flight[node] < most:
            part = self.choose(now, node)
            if part is None:
                return
            self.waiting[node].remove(part)
            self.in_flight[node] += 1
            self.later(now + nano(self.layer.to_server), SENT, 0, part)

    def choose(self, now: int, node: int) -> dict[str, int] | None:
        layer, waiting = self.layer, self.waiting[node]
        assert layer.window is not None
        if layer.scheduler == "fifo" or layer.window == 0:
            return waiting[0]
        current = (now // layer.window + node) % layer.servers
        for ahead in range(layer.servers):
            own = [part for part in waiting if part["server"] == (current + ahead) % layer.servers]
            if own and (ahead == 0 or layer.scheduler == "twins-work-conserving"):
                return own[0]
        end = (now // layer.window + 1) * layer.window
        self.wakes[node] = end
        self.later(end, WAKE, node, None)
        return None

    def reach_server(self, now: int, part: dict[str, int]) -> None:
        self.at_server[part["server"]].append(part)
        if len(self.serving[part["server"]]) < self.layer.server.lanes:
            self.begin(now, part)

    def begin(self, now: int, part: dict[str, int]) -> None:
        self.serving[part["server"]].append(part)
        taken = max(int(self.time(now, part) + 0.5), 1)
        self.later(now + taken, SERVED, part["server"], part)

    def time(self, now: int, part: dict[str, int]) -> float:
        times, size, last = NUMBERS[self.layer.server], part["size"], self.memory[part["server"]]
        write = self.workload.operation == "write"
        if not isinstance(times, ServiceTime):
            free = max(now, self.bus[part["server"]]) + size * (1e9 / times["bus"])
            self.bus[part["server"]] = int(free)
            own = 1e9 * times["writing" if write else "reading"] + size * (1e9 / times["bandwidth"])
            return max(own, free - now)
        time = 1e9 * times.start + size * (1e9 / times.bandwidth)
        if last.get("node") != part["node"]:
            time += 1e9 * (times.switch * times.write_switch if write else times.switch)
        if last.get("file") != part["file"]:
            time += 1e9 * times.file
        elif last["offset"] + last["size"] != part["offset"]:
            time += 1e9 * times.gap
        self.memory[part["server"]] = part
        others = len({p["node"] for p in self.at_server[part["server"]]}) - 1
        return time * (1.0 + (times.write_crowd if write else times.crowd) * others)

    def leave_server(self, now: int, part: dict[str, int]) -> None:
        server = part["server"]
        self.serving[server].remove(part)
        self.at_server[server].remove(part)
        self.served += 1
        self.later(now + nano(self.layer.to_server), BACK, 0, part)
        left = [p for p in self.at_server[server] if not any(p is q for q in self.serving[server])]
        if left:
            self.begin(now, left[0])

    def come_back(self, now: int, part: dict[str, int]) -> None:
        process = part["process"]
        self.missing[process] -= 1
        if not self.missing[process]:
            self.answered[process] += 1
            self.end = now + nano(self.layer.to_client)
            if self.answered[process] < self.workload.requests:
                self.later(self.end + nano(self.layer.to_client), CLIENT, 0, process)
        self.in_flight[part["node"]] -= 1
        self.pump(now, part["node"])


LAYERS = st.builds(
    Forwarding,
    nodes=st.integers(1, 3),
    mapping=st.sampled_from(MAPPINGS),
    servers=st.integers(1, 4),
    server=st.sampled_from(list(NUMBERS)),
    stripe=st.sampled_from([4096, 65536]),
    scheduler=st.sampled_from(["fifo", "twins", "twins-work-conserving"]),
    window=st.sampled_from([0, 50_000, 125_000, 1_000_000]),
    in_flight=st.integers(1, 4),
)
WORKLOADS = st.builds(
    lambda rounds, **rest: Workload(total=rounds * rest["processes"] * rest["request"], **rest),
    rounds=st.integers(1, 4),
    processes=st.integers(1, 7),
    pattern=st.sampled_from(PATTERNS),
    operation=st.sampled_from(OPERATIONS),
    request=st.sampled_from([1, 1000, 4096, 32768, 100_000]),
    spread=st.sampled_from([0.0, 1e-4]),
)


@given(LAYERS, WORKLOADS, st.integers(0, 99))
@settings(max_examples=examples(200), deadline=None)
def test_every_run_ends_when_the_naive_one_does(layer: Forwarding, workload: Workload, seed: int) -> None:
    starts = workload.starts(np.random.default_rng([seed, 0])).tolist()
    naive = Naive(layer, workload, starts)
    naive.run()
    found = simulate_requests(layer, workload, seed=seed)
    assert nano(found.seconds) == naive.end
    assert found.messages == naive.served
    assert naive.answered == [workload.requests] * workload.processes


@pytest.mark.parametrize("scheduler", ["fifo", "twins", "twins-work-conserving"])
def test_more_processes_than_may_be_in_flight(scheduler: str) -> None:
    layer = Forwarding(nodes=2, server=contended_servers(QUIET), scheduler=scheduler, window=500_000, in_flight=8)
    workload = Workload(processes=40, pattern="shared-strided", operation="read", request=300_000, total=60_000_000)
    naive = Naive(layer, workload, workload.starts(np.random.default_rng([5, 0])).tolist())
    naive.run()
    assert nano(simulate_requests(layer, workload, seed=5).seconds) == naive.end
    assert nano(simulate_requests(replace(layer, in_flight=7), workload, seed=5).seconds) != naive.end
