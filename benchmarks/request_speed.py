"""How fast single requests are simulated, against a simulation of the same made of SimPy's processes.

    .venv/bin/python benchmarks/request_speed.py [--total BYTES]

Goal: 2 million requests to servers a second on one core, whatever the scheduler and the pattern.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any

import simpy
from bench import SEED, verdict

from forebay.decide.registry import policies
from forebay.model.layout import KIB
from forebay.model.service_time import ServiceTime
from forebay.simulate.requests.run import Forwarding, simulate_requests
from forebay.simulate.requests.servers import contended_servers
from forebay.simulate.requests.workload import Workload

GOAL = 2e6
QUIET = ServiceTime(sigma=0.0, crowd=0.0)
CASES = (
    (1, 128, "shared-contiguous", "read", 32),
    (4, 128, "shared-strided", "read", 32),
    (8, 512, "file-per-process", "write", 32),
    (4, 256, "shared-contiguous", "write", 256),
    (8, 512, "shared-strided", "read", 256),
)


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast single requests are simulated.")
    parser.add_argument("--total", type=int, default=4 << 30, help="bytes that each workload accesses")
    options = parser.parse_args()
    for nodes, processes, pattern, operation, request in CASES:
        work = Workload(
            processes=processes, pattern=pattern, operation=operation, request=request * KIB, total=options.total
        )
        for scheduler in ("fifo", "twins"):
            rate = served_a_second(Forwarding(nodes=nodes, scheduler=scheduler), work)
            about = f"{nodes} I/O nodes, {processes} processes, {pattern} {operation} of {request} KiB, {scheduler}"
            print(f"{about}: {rate / 1e6:.2f} million requests a second, goal 2, {verdict(rate >= GOAL)}")
    work = Workload(processes=128, pattern="shared-strided", operation="read", request=32 * KIB, total=options.total)
    for scheduler in sorted(policies("order")):
        rate = served_a_second(Forwarding(nodes=4, scheduler=scheduler), work)
        print(f"{scheduler}: {rate / 1e6:.2f} million messages a second")
    against_simpy(replace(work, total=1 << 28, spread=0.0))
    return 0


def served_a_second(layer: Forwarding, work: Workload) -> float:
    messages = simulate_requests(layer, work, seed=SEED).messages
    return messages / processor_seconds(partial(simulate_requests, layer, work, seed=SEED))


def processor_seconds(work: Callable[[], object]) -> float:
    """The least of five calls: all is done by one thread, and others who use the machine don't count."""
    taken = []
    for _ in range(5):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return min(taken)


def against_simpy(work: Workload) -> None:
    """First come, first served, without noise and windows: less than what we do."""
    layer = Forwarding(nodes=2, server=contended_servers(QUIET))
    begin = time.process_time()
    end = simpy_run(layer, work)
    theirs = time.process_time() - begin
    ours = processor_seconds(partial(simulate_requests, layer, work))
    found = simulate_requests(layer, work)
    print(f"the same in SimPy: {theirs / ours:.0f} times as long (ends after {end:.3f} s, here {found.seconds:.3f})")


def simpy_run(layer: Forwarding, work: Workload) -> float:
    """Requests of one part each; an I/O node and a server are resources, and so are the messages in flight."""
    env = simpy.Environment()
    entrances = [simpy.Resource(env) for _ in range(layer.nodes)]
    flights = [simpy.Resource(env, layer.in_flight or 1) for _ in range(layer.nodes)]
    servers = [simpy.Resource(env) for _ in range(layer.servers)]
    last: list[tuple[int, int]] = [(-1, -1)] * layer.servers

    def client(rank: int) -> Generator[Any, Any, None]:
        node = rank * layer.nodes // work.processes
        for number in range(work.requests):
            offset = (number * work.processes + rank) * work.request
            stripe = offset // layer.stripe
            server, at = stripe % layer.servers, stripe // layer.servers * layer.stripe + offset % layer.stripe
            yield env.timeout(layer.to_client)
            with entrances[node].request() as turn:
                yield turn
                yield env.timeout(layer.reading)
            with flights[node].request() as flight:
                yield flight
                yield env.timeout(layer.to_server)
                with servers[server].request() as turn:
                    yield turn
                    other, gap = last[server][0] != node, last[server][1] != at
                    last[server] = node, at + work.request
                    more = other * QUIET.switch + gap * QUIET.gap
                    yield env.timeout(QUIET.start + work.request / QUIET.bandwidth + more)
                yield env.timeout(layer.to_server)
            yield env.timeout(layer.to_client)

    for rank in range(work.processes):
        env.process(client(rank))
    env.run()
    return float(env.now)


if __name__ == "__main__":
    raise SystemExit(main())
