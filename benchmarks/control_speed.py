"""How fast the control service decides, without its store and network: 1,000 disks, up to 10,000 live grants.

    .venv/bin/python benchmarks/control_speed.py [--policy NAMES]

Goals: one request decided and applied in well under 2 ms with 10,000 live grants, and no more than 1.5 times the time
that it takes with 100. Seconds of CPU are taken for a request,
and for the release that follows it, at a steady number of grants.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass, field

import numpy as np
from bench import SEED, verdict

from forebay.decide.grants import commands as co
from forebay.decide.grants.codec import from_line, to_line
from forebay.decide.grants.control import Control
from forebay.decide.grants.events import Event
from forebay.decide.grants.grant_limits import GrantRules
from forebay.decide.grants.machine import DiskSpec
from forebay.model.grant import Ask

GB = 10**9
USER = co.Caller(role="user", uid=1000)
GOAL = 2e-3


@dataclass
class Service:
    """A control with its journal."""

    control: Control = field(default_factory=Control)
    journal: list[Event] = field(default_factory=list)
    asked: int = 0

    def do(self, command: co.Command, now: float) -> None:
        self.journal += self.control.do(command, now)

    def ask(self, rng: np.random.Generator, now: float, *, most: int = 150) -> str:
        self.asked += 1
        grant = f"{self.asked:032x}"
        size = int(rng.integers(1, most)) * GB
        wish = Ask(grant=grant, key=grant, uid=1000, gid=1000, size=size, seconds=float(rng.integers(600, 86_400)))
        self.do(co.Request(caller=USER, ask=wish), now)
        return grant

    def release(self, grant: str, now: float) -> None:
        self.do(co.Release(caller=USER, grant=grant), now)
        for volume in self.control.volumes(grant):
            caller = co.Caller(role="agent", node=volume.node)
            self.do(co.Gone(caller=caller, volume=volume.name, disk=volume.disk.partition("/")[2]), now)


def machine(policy: str, disks: int) -> Service:
    service = Service()
    service.do(co.ChangeRules(caller=co.SERVICE, rules=GrantRules(split=100 * GB, most=0)), 0.0)
    service.do(co.ChangePolicy(caller=co.SERVICE, policy=policy), 0.0)
    for node in range(disks // 2):
        name = f"node-{node}"
        said = [DiskSpec(name=d, capacity=4000 * GB, write_bandwidth=2.93e9, read_bandwidth=3.13e9) for d in "ab"]
        caller = co.Caller(role="agent", node=name)
        service.do(co.Register(caller=caller, node=name, network_bandwidth=12.5e9, disks=tuple(said)), 0.0)
    return service


def measure(policy: str, live: int, rounds: int = 400) -> tuple[list[float], list[float], Service]:
    """Seconds of requests, and of releases, with so many live grants."""
    service, rng = machine(policy, 1000), np.random.default_rng(SEED)
    grants = [service.ask(rng, 1.0) for _ in range(live)]
    asks, releases = [], []
    for turn in range(rounds):
        begin = time.thread_time()
        grants.append(service.ask(rng, 2.0))
        middle = time.thread_time()
        service.release(grants[turn % live], 2.0)
        asks.append(middle - begin)
        releases.append(time.thread_time() - middle)
        grants[turn % live] = grants.pop()
    return asks, releases, service


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast the control service decides.")
    parser.add_argument("--policy", default="forebay,best-bandwidth,worst-fit,round-robin,first-fit")
    for policy in parser.parse_args().policy.split(","):
        measure(policy, 10, 10)
        few, _, _ = measure(policy, 100)
        many, releases, service = measure(policy, 10_000)
        each, last = statistics.median(many), float(np.percentile(many, 99))
        ratio = each / statistics.median(few)
        print(
            f"{policy}, 1,000 disks: a request takes {each * 1e3:.2f} ms with 10,000 live grants, "
            f"p99 {last * 1e3:.2f}, goal {GOAL * 1e3:.0f}, {verdict(last < GOAL)}; "
            f"{statistics.median(few) * 1e3:.2f} ms with 100, "
            f"ratio {ratio:.2f}, goal 1.5, {verdict(ratio < 1.5)}; a release {statistics.median(releases) * 1e3:.2f} ms"
        )
    again(service)
    return 0


def again(service: Service) -> None:
    lines = [to_line(event) for event in service.journal]
    begin = time.perf_counter()
    control = Control()
    for line in lines:
        control.apply(from_line(line))
    taken = time.perf_counter() - begin
    same = control.document() == service.control.document()
    print(f"a journal of {len(lines):,} events read and applied in {taken:.2f} s, {'same' if same else 'OTHER'} state")


if __name__ == "__main__":
    sys.exit(main())
