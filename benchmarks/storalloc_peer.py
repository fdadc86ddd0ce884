"""StorAlloc's way to do it, for comparison: objects, lists that are gone through, and a SimPy process per grant.

Decisions are those of its rules to the letter; only the messages between its five processes are left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil

import simpy

GB = 1e9


@dataclass(eq=False)
class Grant:
    """A part of a request, or all of it."""

    gigabytes: float
    start: datetime
    duration: timedelta
    request: int
    split: bool
    disk: Disk | None = None
    end: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.end = self.start + self.duration

    def overlap(self, other: Grant) -> float:
        """Seconds that both share."""
        if self.end <= other.start or other.end <= self.start:
            return 0.0
        return (min(self.end, other.end) - max(self.start, other.start)).total_seconds()


@dataclass(eq=False)
class Disk:
    gigabytes: float
    write: float
    read: float
    booked: list[Grant] = field(default_factory=list)

    def book(self, grant: Grant) -> None:
        self.booked.append(grant)
        self.booked.sort(key=lambda g: g.end)


Nodes = list[tuple[float, list[Disk]]]
Choose = Callable[[Nodes, Grant], Disk | None]


def round_robin() -> Choose:
    turn, failed = 0, 0
    nexts: dict[int, int] = {}

    def choose(nodes: Nodes, wanted: Grant) -> Disk | None:
        nonlocal turn, failed
        while True:
            if failed >= 5:
                failed = 0
                return None
            node = turn % len(nodes)
            turn += 1
            disks = nodes[node][1]
            disk = disks[nexts.setdefault(node, 0) % len(disks)]
            nexts[node] += 1
            free = disk.gigabytes
            for grant in disk.booked:
                if grant.overlap(wanted) != 0.0:
                    free -= grant.gigabytes
            if free > wanted.gigabytes:
                return disk
            failed += 1

    return choose


def worst_fit() -> Choose:
    rng = random.Random(0)

    def choose(nodes: Nodes, wanted: Grant) -> Disk | None:
        free = []
        for _, disks in nodes:
            for disk in disks:
                left = disk.gigabytes
                for grant in disk.booked:
                    if grant.overlap(wanted):
                        left -= grant.gigabytes
                free.append((left * 100 / disk.gigabytes, disk))
        most = max(share for share, _ in free)
        return rng.choice([disk for share, disk in free if share == most])

    return choose


def best_bandwidth() -> Choose:
    rng = random.Random(0)

    def choose(nodes: Nodes, wanted: Grant) -> Disk | None:
        promises: list[tuple[float, Disk]] = []
        for network, disks in nodes:
            own, busy = [], []
            for disk in disks:
                free, shared = disk.gigabytes, []
                for grant in reversed(disk.booked):
                    if grant.end <= wanted.start:
                        break
                    overlap = wanted.overlap(grant)
                    if overlap != 0.0:
                        shared.append(overlap)
                        free = max(0.0, free - grant.gigabytes)
                bandwidth = disk.write
                if shared:
                    seconds, longest = wanted.duration.total_seconds(), max(shared)
                    mean = ((seconds - longest) * disk.write + longest * (disk.write / (len(shared) + 1))) / seconds
                    bandwidth = round(mean, 3)
                    busy.append(disk.read)
                own.append((bandwidth, free, disk))
            limit = network - sum(busy) if sum(busy) < network else network / (len(busy) + 1)
            promises += [(min(bandwidth, limit), disk) for bandwidth, free, disk in own if free >= wanted.gigabytes]
        if not promises:
            return None
        most = max(promise for promise, _ in promises)
        return rng.choice([disk for promise, disk in promises if promise == most])

    return choose


def at_random() -> Choose:
    rng = random.Random(0)
    return lambda nodes, _: rng.choice(rng.choice(nodes)[1])


POLICIES: dict[str, Callable[[], Choose]] = {
    "random": at_random,
    "round-robin": round_robin,
    "worst-fit": worst_fit,
    "best-bandwidth": best_bandwidth,
}


def simulate(nodes: Nodes, asked: list[tuple[float, float, int]], choose: Choose, threshold: float) -> float:
    """GB ever put on a disk, for requests of (start, duration, bytes) in this order."""
    granted: list[Grant] = []
    for request, (start, duration, size) in enumerate(asked):
        pieces = list(_pieces(size / GB, threshold))
        begin, seconds = datetime.fromtimestamp(start, UTC), timedelta(seconds=duration)
        parts = [Grant(ceil(piece), begin, seconds, request, len(pieces) > 1) for piece in pieces]
        for part in parts:
            part.disk = choose(nodes, part)
            if part.disk is None:
                break
            part.disk.book(parts[-1])  # as it is in the original: with the last part's size
        else:
            granted += parts
    return _replay(granted)


def _pieces(gigabytes: float, threshold: float) -> Iterator[float]:
    if gigabytes <= threshold:
        yield gigabytes
        return
    for _ in range(int(gigabytes // threshold)):
        yield threshold
    if gigabytes % threshold:
        yield gigabytes % threshold


def _replay(granted: list[Grant]) -> float:
    environment = simpy.Environment()
    containers: dict[int, simpy.Container] = {}
    put: dict[int, list[Grant]] = {}
    failed: set[int] = set()
    total = 0.0

    def hold(grant: Grant) -> Generator[simpy.Event, None, None]:
        nonlocal total
        assert grant.disk is not None
        container = containers.setdefault(id(grant.disk), simpy.Container(environment, capacity=grant.disk.gigabytes))
        yield environment.timeout(int(grant.start.timestamp()))
        if grant.request in failed:
            return
        if container.level + grant.gigabytes > container.capacity:
            failed.add(grant.request)
            for other in put.pop(grant.request, []):
                containers[id(other.disk)].get(other.gigabytes)
            return
        container.put(grant.gigabytes)
        total += grant.gigabytes
        put.setdefault(grant.request, []).append(grant)
        yield environment.timeout(grant.duration.seconds)
        if grant.request not in failed:
            container.get(grant.gigabytes)

    for grant in granted:
        environment.process(hold(grant))
    environment.run()
    return total
