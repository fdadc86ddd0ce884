"""Slow and obvious storage: lists of bookings, and a whole simulation over them, written from the notes on StorAlloc.

Nothing here is clever: every question goes through all bookings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from forebay.model.space_requests import Requests
from forebay.model.system import Disk, Node, Platform, Server
from forebay.simulate.storage.rules import Feedback, Rules

GB = 10**9
REFUSED = -1


@dataclass
class Booking:
    """`size` bytes of a disk over [start, end)."""

    disk: int
    start: float
    end: float
    size: int

    def shared_with(self, start: float, end: float) -> float:
        """Seconds."""
        return max(0.0, min(self.end, end) - max(self.start, start))


class NaiveLedger:
    """All bookings by their numbers."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.capacities = [disk.capacity for disk in platform.disks]
        self.bookings: dict[int, Booking] = {}
        self.made = 0

    def book(self, disk: int, start: float, end: float, size: int) -> int:
        self.bookings[self.made] = Booking(disk, start, end, size)
        self.made += 1
        return self.made - 1

    def unbook(self, number: int) -> None:
        del self.bookings[number]

    def shorten(self, number: int, sooner: float) -> None:
        self.bookings[number].end = sooner

    def _on(self, disk: int) -> list[Booking]:
        return [b for b in self.bookings.values() if b.disk == disk and b.start < b.end]

    def _overlaps(self, disk: int, start: float, end: float) -> list[Booking]:
        return [b for b in self._on(disk) if b.shared_with(start, end) > 0]

    def total_overlap(self, disk: int, start: float, end: float) -> tuple[int, int]:
        found = self._overlaps(disk, start, end)
        return sum(b.size for b in found), len(found)

    def longest_overlap(self, disk: int, start: float, end: float) -> float:
        return max((b.shared_with(start, end) for b in self._overlaps(disk, start, end)), default=0.0)

    def at(self, disk: int, time: float) -> tuple[int, int]:
        """Bytes and bookings at one moment."""
        found = [b for b in self._on(disk) if b.start <= time < b.end]
        return sum(b.size for b in found), len(found)

    def peak(self, disk: int, start: float, end: float) -> tuple[int, int]:
        """It can only rise where a booking starts; of no time at all, what is there at that moment."""
        moments = [start, *(b.start for b in self._on(disk) if start < b.start < end)]
        levels = [self.at(disk, moment) for moment in moments]
        return max(size for size, _ in levels), max(count for _, count in levels)

    def room(self, disk: int, start: float, end: float) -> int:
        return self.capacities[disk] - self.peak(disk, start, end)[0]

    def next_free(self, disk: int, size: int, start: float, duration: float) -> float:
        """Room can only come where a booking ends."""
        moments = sorted([start, *(b.end for b in self._on(disk) if b.end > start)])
        fits = (m for m in moments if self.room(disk, m, m + duration) >= size)
        return next(fits, math.inf)


# Chance


class NaiveChance:
    """SplitMix64 (Steele, Lea and Flood 2014) in whole numbers of Python."""

    def __init__(self, seed: int) -> None:
        self.state = self.mixed(seed % 2**64)

    @staticmethod
    def mixed(number: int) -> int:
        z = number * 0x9E3779B97F4A7C15 % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    def draw(self, below: int) -> int:
        self.state = (self.state + 1) % 2**64
        return (self.mixed(self.state) >> 32) * below >> 32

    def pick(self, disks: Sequence[int]) -> int:
        """One of them; none is drawn where there is no choice."""
        if not disks:
            return REFUSED
        return disks[self.draw(len(disks))] if len(disks) > 1 else disks[0]


# Policies: what each may choose, and whose turn it is


def worst_fit_ties(space: NaiveLedger, size: int, start: float, end: float) -> list[int]:  # noqa: ARG001
    """The disks with the largest free percentage."""
    free = [
        (capacity - space.total_overlap(disk, start, end)[0]) * 100.0 / capacity
        for disk, capacity in enumerate(space.capacities)
    ]
    return [disk for disk, share in enumerate(free) if share == max(free)]


def promised(space: NaiveLedger, start: float, end: float, duration: float, *, letter: bool) -> list[float]:
    """The bandwidth of every disk by best-bandwidth's reckoning, bytes per second."""
    found = []
    first = 0
    for node in space.platform.nodes:
        own = []
        reads = []
        for disk, what in enumerate(node.disks, first):
            k = space.total_overlap(disk, start, end)[1]
            m = space.longest_overlap(disk, start, end)
            w = what.write_bandwidth
            if k:
                reads.append(what.read_bandwidth)
                if letter and w < math.inf:  # in GB/s, to three digits
                    w /= GB
                    w = round(((duration - m) * w + m * (w / (k + 1))) / duration, 3) * GB
                elif not letter:
                    w *= 1.0 - m * (1.0 / duration) * (k / (k + 1.0))
            own.append(w)
        network, busy = node.network_bandwidth, sum(reads)
        limit = network - busy if busy < network else network / (len(reads) + 1)
        found += [min(w, limit) for w in own]
        first += len(node.disks)
    return found


def best_bandwidth_ties(
    space: NaiveLedger, size: int, start: float, end: float, duration: float, *, letter: bool
) -> list[int]:
    promises = promised(space, start, end, duration, letter=letter)
    roomy = [
        disk
        for disk, capacity in enumerate(space.capacities)
        if capacity - space.total_overlap(disk, start, end)[0] >= size
    ]
    best = max((promises[disk] for disk in roomy), default=0.0)
    return [disk for disk in roomy if promises[disk] == best]


def expected(space: NaiveLedger, start: float, end: float) -> list[float]:
    """The bandwidth of every disk by forebay's reckoning."""
    found: list[float] = []
    for node in space.platform.nodes:
        network = min(1e18, node.network_bandwidth / len(node.disks))
        for disk in node.disks:
            others = space.peak(len(found), start, end)[1]
            found.append(min(disk.write_bandwidth, network) / (others + 1))
    return found


class NaivePolicy:
    """Any built-in policy by name."""

    def __init__(self, name: str, platform: Platform, *, seed: int = 0, letter: bool = False) -> None:
        self.name, self.letter = name, letter
        self.chance = NaiveChance(seed)
        self.servers = []
        first = 0
        for server in platform.servers:
            nodes = []
            for node in server.nodes:
                nodes.append(list(range(first, first + len(node.disks))))
                first += len(node.disks)
            self.servers.append(nodes)
        self.disks = first
        self.probes = self.failed = self.current = 0
        self.probed: dict[int, int] = {}  # how often, by a node's first disk

    def __call__(self, space: NaiveLedger, size: int, start: float, end: float, duration: float) -> int:
        match self.name:
            case "random":
                nodes = self.servers[self.chance.draw(len(self.servers))]
                node = nodes[self.chance.draw(len(nodes))]
                return node[self.chance.draw(len(node))]
            case "round-robin":
                return self._round_robin(space, size, start, end)
            case "worst-fit":
                ties = worst_fit_ties(space, size, start, end)
                return self.chance.pick([ties[0], *ties] if self.letter else ties)
            case "best-bandwidth":
                return self.chance.pick(best_bandwidth_ties(space, size, start, end, duration, letter=self.letter))
            case "fill":
                return self._fill(space, size, start, end)
            case "forebay":
                return self._forebay(space, size, start, end)
        rooms = [(disk, space.room(disk, start, end)) for disk in range(self.disks)]
        roomy = [(disk, room) for disk, room in rooms if room >= size]
        if self.name == "best-fit":
            roomy.sort(key=lambda pair: pair[1])
        return roomy[0][0] if roomy else REFUSED

    def _round_robin(self, space: NaiveLedger, size: int, start: float, end: float) -> int:
        while True:
            turn, which = divmod(self.probes, len(self.servers))
            self.probes += 1
            nodes = self.servers[which]
            node = nodes[turn % len(nodes)]
            disk = node[self.probed.get(node[0], 0) % len(node)]
            self.probed[node[0]] = self.probed.get(node[0], 0) + 1
            if space.capacities[disk] - space.total_overlap(disk, start, end)[0] > size:
                return disk
            self.failed += 1
            if self.failed == 5:
                self.failed = 0
                return REFUSED

    def _fill(self, space: NaiveLedger, size: int, start: float, end: float) -> int:
        for step in range(self.disks):
            disk = (self.current + step) % self.disks
            if space.room(disk, start, end) >= size:
                self.current = disk
                return disk
        return REFUSED

    def _forebay(self, space: NaiveLedger, size: int, start: float, end: float) -> int:
        bandwidths = expected(space, start, end)
        rooms = [space.room(disk, start, end) for disk in range(self.disks)]
        in_turn = [(self.current + step) % self.disks for step in range(self.disks)]
        roomy = [disk for disk in in_turn if rooms[disk] >= size]
        chosen = max(roomy, key=lambda disk: (bandwidths[disk], -rooms[disk]), default=REFUSED)  # the first of equals
        self.current = chosen + 1
        return chosen


# A whole simulation

Spread = Callable[[NaiveLedger, int, float, float, int, int], list[tuple[int, int]]]


@dataclass
class NaiveVerdict:
    """Parts are (disk, bytes); a disk of -1 is none."""

    start: float
    tried: int
    parts: list[tuple[int, int]]
    state: str = "refused"
    end: Any = math.nan
    bookings: list[int] = field(default_factory=list)


@dataclass
class NaiveUse:
    """What one disk or node went through: every change, as (time, bytes, allocations) after it."""

    capacity: int
    changes: list[tuple[float, int, int]] = field(default_factory=lambda: [(0.0, 0, 0)])

    @property
    def level(self) -> int:
        return self.changes[-1][1]

    def change(self, time: float, size: int, count: int) -> None:
        _, level, live = self.changes[-1]
        self.changes.append((time, level + size, live + count))

    def summary(self) -> dict[str, Any]:
        steps = [
            (then - now, level, live)
            for (now, level, live), (then, _, _) in zip(self.changes, self.changes[1:], strict=False)
        ]
        return {
            "since": self.changes[-1][0],
            "most_bytes": max(level for _, level, _ in self.changes),
            "most_live": max(live for _, _, live in self.changes),
            "use_seconds": math.fsum(seconds * level / self.capacity for seconds, level, _ in steps),
            "live_seconds": math.fsum(seconds * live for seconds, _, live in steps),
        }


@dataclass
class NaiveRun:
    verdicts: list[NaiveVerdict]
    disks: list[NaiveUse]
    nodes: list[NaiveUse]
    most_live: int = 0
    put: int = 0
    put_split: int = 0
    first: float = math.inf
    last: float = -math.inf


def pieces_of(size: int, split: int, *, letter: bool) -> list[int]:
    """The sizes of a request's parts."""
    parts = [size]
    if split and size > split:
        whole, rest = divmod(size, split)
        parts = [split] * whole + ([rest] if rest else [])
    return [-(-part // GB) * GB for part in parts] if letter else parts


def naive_run(
    platform: Platform, requests: Requests, name: str, rules: Rules, *, seed: int = 0, spread: Spread | None = None
) -> NaiveRun:
    """Decide in file order, then hold by time. `spread` says what forebay does with a request that it splits itself."""
    space = NaiveLedger(platform)
    policy = NaivePolicy(name, platform, seed=seed, letter=rules.letter)
    asked = zip(requests.start.tolist(), requests.duration.tolist(), requests.bytes.tolist(), strict=True)
    verdicts = [decided(space, policy, rules, number, *one, spread) for number, one in enumerate(asked)]
    for verdict, duration in zip(verdicts, requests.duration.tolist(), strict=True):
        # timedelta.seconds leaves out whole days
        verdict.end = verdict.start + (duration % 86_400.0 if rules.letter else duration)
    return _replayed(platform, verdicts, letter=rules.letter)


def decided(
    space: NaiveLedger,
    policy: NaivePolicy,
    rules: Rules,
    number: int,
    asked: float,
    duration: float,
    size: int,
    spread: Spread | None,
) -> NaiveVerdict:
    pieces = pieces_of(size, rules.split, letter=rules.letter)
    tried = 0
    while True:
        start = asked + tried * rules.interval
        end = (asked if rules.letter else start) + duration
        if duration == 0 and not rules.letter:  # must fit for an instant
            end = math.nextafter(start, math.inf) if start else 1e-300
        if policy.name == "forebay" and len(pieces) > 1 and not rules.letter:
            assert spread is not None
            granted = spread(space, size, start, end, len(pieces), number)
            for disk, own in granted:
                space.book(disk, start, end, own)
            if granted:
                return NaiveVerdict(start, tried, granted, "granted")
        else:
            placed: list[tuple[int, int]] = []  # (disk, booking)
            for piece in pieces:
                disk = policy(space, piece, start, end, duration if rules.letter else duration or end - start)
                if disk == REFUSED:
                    break
                placed.append((disk, space.book(disk, start, end, pieces[-1] if rules.letter else piece)))
            if len(placed) == len(pieces):
                parts = [(disk, piece) for (disk, _), piece in zip(placed, pieces, strict=True)]
                return NaiveVerdict(start, tried, parts, "granted", bookings=[booking for _, booking in placed])
            if not rules.letter:
                for _, booking in placed:
                    space.unbook(booking)
        again = tried < rules.tries
        if rules.letter and (len(pieces) > 1 or start + rules.interval >= end):
            again = False
        if not again:
            return NaiveVerdict(start, tried, [(REFUSED, piece) for piece in pieces])
        tried += 1


def _replayed(platform: Platform, verdicts: list[NaiveVerdict], *, letter: bool) -> NaiveRun:
    nodes = [NaiveUse(sum(disk.capacity for disk in node.disks)) for node in platform.nodes]
    home = [nodes[index] for index, node in enumerate(platform.nodes) for _ in node.disks]
    run = NaiveRun(verdicts, [NaiveUse(disk.capacity) for disk in platform.disks], nodes)
    live = 0

    def change(disk: int, time: float, size: int, count: int) -> None:
        nonlocal live
        run.disks[disk].change(time, size, count)
        home[disk].change(time, size, count)
        live += count
        run.most_live = max(run.most_live, live)

    def begins(verdict: NaiveVerdict) -> None:
        run.first = min(run.first, verdict.start)
        room = [use.capacity - use.level for use in run.disks]
        fit = 0
        for disk, size in verdict.parts:
            room[disk] -= size
            if room[disk] < 0:
                break
            fit += 1
        verdict.state = "allocated" if fit == len(verdict.parts) else "failed"
        put = verdict.parts[: fit if letter or verdict.state == "allocated" else 0]
        for disk, size in put:
            change(disk, verdict.start, size, 1)
            run.put += size
            run.put_split += size if len(verdict.parts) > 1 else 0
        if verdict.state == "failed":
            for disk, size in put:
                change(disk, verdict.start, -size, -1)

    def ends(verdict: NaiveVerdict) -> None:
        if verdict.state == "allocated":
            run.last = max(run.last, verdict.end)
            for disk, size in verdict.parts:
                change(disk, verdict.end, -size, -1)

    granted = [v for v in verdicts if v.state == "granted"]
    for moment in sorted({v.start for v in granted} | {v.end for v in granted}):
        starting = [v for v in granted if v.start == moment]
        ending = [v for v in granted if v.end == moment]
        if letter:
            for verdict in starting:
                begins(verdict)
            for verdict in ending:
                ends(verdict)
        else:
            for verdict in ending:
                if verdict.start < moment:
                    ends(verdict)
            for verdict in starting:
                begins(verdict)
                if verdict.end == moment:
                    ends(verdict)
    return run


# Jobs that do I/O


@dataclass
class NaiveFlow:
    """Bytes that one part of a job's phase has yet to put through a disk, a node or the parallel file system."""

    shared: int
    request: int
    left: Fraction


class NaiveFeedback:
    """Everything shared in equal parts, counted anew after every event and without rounding; O(everything) an event.

    `gaps` is how far apart events were that did not happen at the same time: where it is tiny,
    rounding may decide which of two comes first.
    """

    def __init__(self, platform: Platform, requests: Requests, name: str, rules: Rules, feedback: Feedback) -> None:
        self.space, self.policy, self.rules = NaiveLedger(platform), NaivePolicy(name, platform), rules
        self.phases = feedback.phases
        self.starts, self.durations = requests.start.tolist(), requests.duration.tolist()
        self.sizes, self.volumes = requests.bytes.tolist(), requests.volume.tolist()
        disks = platform.disks
        usual = float(np.median([disk.write_bandwidth for disk in disks]))
        parts = [min(len(disks), len(pieces_of(size, rules.split, letter=False))) for size in self.sizes]
        alone = [volume / (count * usual) for volume, count in zip(self.volumes, parts, strict=True)]
        self.booked = [duration + io for duration, io in zip(self.durations, alone, strict=True)]
        self.bandwidth = [d.write_bandwidth for d in disks] + [n.network_bandwidth for n in platform.nodes]
        self.bandwidth.append(feedback.pfs)
        self.node = [len(disks) + index for index, node in enumerate(platform.nodes) for _ in node.disks]
        self.disks = [NaiveUse(disk.capacity) for disk in disks]
        self.work = [Fraction(0)] * len(self.bandwidth)  # bytes that went through
        self.verdicts: list[NaiveVerdict] = []
        self.flows: list[NaiveFlow] = []
        self.arriving: dict[int, Fraction] = {}
        self.computing: dict[int, Fraction] = {}
        self.overdue: dict[int, Fraction] = {}
        self.phase: dict[int, int] = {}
        self.since: dict[int, Fraction] = {}  # when the I/O under way began
        self.waited: dict[int, Fraction] = {}
        self.now = Fraction(-(10**9))
        self.gaps = math.inf
        while self._step():
            pass

    def _step(self) -> bool:
        finishing = [(self.now + self._takes(flow), k) for k, flow in enumerate(self.flows)]
        undecided = self.starts[len(self.verdicts) :]
        # At one time: I/O ends, then computing, then what the ledger knows, then somebody decides, and jobs start.
        happening = [min(finishing, default=None)]
        happening += [_soonest(waiting) for waiting in (self.computing, self.overdue)]
        happening += [(Fraction(min(undecided)), 0) if undecided else None, _soonest(self.arriving)]
        times = [(one[0], kind, one[1]) for kind, one in enumerate(happening) if one is not None]
        if not times:
            return False
        then, kind, which = min(times)
        later = [time - then for time, *_ in times if time > then]
        self.gaps = min([self.gaps, *map(float, later)])
        self._flow_until(then)
        (self._io_ends, self._io_begins, self._prolong, self._decide, self._begin)[kind](which)
        return True

    def _takes(self, flow: NaiveFlow) -> Fraction:
        """Seconds that the flow needs if nobody comes or goes."""
        if self.bandwidth[flow.shared] == math.inf:
            return Fraction(0)
        others = sum(1 for other in self.flows if other.shared == flow.shared)
        return flow.left * others / Fraction(self.bandwidth[flow.shared])

    def _flow_until(self, then: Fraction) -> None:
        shares = [
            flow.left * (then - self.now) / self._takes(flow) if self._takes(flow) else Fraction(0)
            for flow in self.flows
        ]
        for flow, done in zip(self.flows, shares, strict=True):
            flow.left -= done
            self.work[flow.shared] += done
        self.now = then

    def _decide(self, _: int) -> None:
        """All whose turn it is before anybody else can start."""
        while len(self.verdicts) < len(self.starts) and min(self.starts[len(self.verdicts) :]) <= self.now:
            k = len(self.verdicts)
            ask = (self.starts[k], self.booked[k], self.sizes[k])
            self.verdicts.append(decided(self.space, self.policy, self.rules, k, *ask, None))
            self.arriving[k] = Fraction(self.verdicts[k].start)

    def _begin(self, request: int) -> None:
        del self.arriving[request]
        verdict = self.verdicts[request]
        if verdict.state == "granted":
            room = [use.capacity - use.level for use in self.disks]
            for disk, size in verdict.parts:
                room[disk] -= size
            verdict.state = "allocated" if min(room) >= 0 else "failed"
        if verdict.state == "allocated":
            self._hold(verdict, 1)
            self.overdue[request] = self.now + Fraction(self.booked[request])
        self.phase[request], self.waited[request] = 0, Fraction(0)
        self._compute(request)

    def _hold(self, verdict: NaiveVerdict, sign: int) -> None:
        for disk, size in verdict.parts:
            self.disks[disk].change(self.now, sign * size, sign)  # type: ignore[arg-type]

    def _compute(self, request: int) -> None:
        phases = self.phases if self.volumes[request] else 1
        done = Fraction(self.durations[request]) * (self.phase[request] + 1) / phases
        self.computing[request] = Fraction(self.verdicts[request].start) + done + self.waited[request]

    def _io_begins(self, request: int) -> None:
        del self.computing[request]
        verdict, each = self.verdicts[request], Fraction(self.volumes[request]) / self.phases
        if not each:
            self._end(request)
            return
        self.since[request] = self.now
        if verdict.state != "allocated":
            self.flows.append(NaiveFlow(len(self.bandwidth) - 1, request, each))
            return
        for disk, size in verdict.parts:
            for shared in (disk, self.node[disk]):
                self.flows.append(NaiveFlow(shared, request, each * size / self.sizes[request]))

    def _io_ends(self, which: int) -> None:
        flow = self.flows.pop(which)
        self.work[flow.shared] += flow.left  # all of it, where there is no limit
        request = flow.request
        if any(other.request == request for other in self.flows):
            return
        self.phase[request] += 1
        self.waited[request] += self.now - self.since[request]
        if self.phase[request] == self.phases:
            self._end(request)
        else:
            self._compute(request)

    def _end(self, request: int) -> None:
        verdict = self.verdicts[request]
        verdict.end = self.now
        if verdict.state == "allocated":
            self._hold(verdict, -1)
            if self.now < self.overdue.pop(request):
                for booking in verdict.bookings:
                    self.space.shorten(booking, self.now)  # type: ignore[arg-type]

    def _prolong(self, request: int) -> None:
        """As long as the phases to come take at the speed so far, and a minute at least."""
        verdict, done = self.verdicts[request], self.phase[request]
        so_far = (self.now - Fraction(verdict.start)) / max(done, 1)
        until = self.now + max(Fraction(60), so_far * (self.phases - done))
        self.overdue[request] = until
        verdict.bookings = [
            self.space.book(disk, self.now, until, size)  # type: ignore[arg-type]
            for disk, size in verdict.parts
        ]


def _soonest(waiting: dict[int, Fraction]) -> tuple[Fraction, int] | None:
    return min(((time, request) for request, time in waiting.items()), default=None)


# Inputs

BANDWIDTHS = st.sampled_from([0.05e9, 1e9, 1.465e9, 2.93e9, 3e9, math.inf])
CAPACITIES = st.one_of(st.integers(1, 12).map(lambda n: n * GB), st.integers(GB, 12 * GB))
ONE_DISK = st.builds(Disk, capacity=CAPACITIES, write_bandwidth=BANDWIDTHS, read_bandwidth=BANDWIDTHS)


@st.composite
def platforms(draw: DrawFn, disk: SearchStrategy[Disk] = ONE_DISK, most: int = 3) -> Platform:
    """Several servers, nodes and disks, in one of two cases all alike, so that much ties."""
    network = st.sampled_from([1e9, 12.5e9, math.inf])
    if draw(st.booleans()):
        disk, network = st.just(draw(disk)), st.just(draw(network))
    shape = draw(st.lists(st.lists(st.integers(1, most), min_size=1, max_size=most), min_size=1, max_size=most))
    names = iter(range(1000))
    return Platform(
        name="drawn",
        servers=tuple(
            Server(
                name=f"S-{index}",
                nodes=tuple(
                    Node(
                        name=f"node-{next(names)}",
                        network_bandwidth=draw(network),
                        disks=tuple(draw(disk) for _ in range(disks)),
                    )
                    for disks in nodes
                ),
            )
            for index, nodes in enumerate(shape)
        ),
    )


SIZES = st.one_of(st.integers(1, 14).map(lambda n: n * GB), st.integers(1, 14).map(lambda n: n * GB // 2 + 1))


@st.composite
def request_lists(draw: DrawFn, most: int = 25, shortest: int = 0) -> Requests:
    """Steps of a fraction of a second up to some hours, so that much happens at the same time; not always in order."""
    step = draw(st.sampled_from([1.0, 0.1, 300.0, 20_000.0]))
    one = st.tuples(st.integers(0, 20), st.integers(shortest, 12), SIZES)
    count = draw(st.integers(1, most))
    asked = draw(st.lists(one, min_size=count, max_size=count))
    if draw(st.booleans()):
        asked.sort(key=lambda ask: ask[0])
    since = draw(st.sampled_from([0.0, 1_577_931_378.0]))
    return requests_of([(since + start * step, duration * step, size) for start, duration, size in asked])


def requests_of(asked: Sequence[tuple[float, float, int]], volumes: Sequence[float] | None = None) -> Requests:
    """Requests of (start, duration, bytes)."""
    starts, durations, sizes = ([one[k] for one in asked] for k in range(3))
    return Requests(
        ids=np.arange(len(asked)).astype(str),
        submitted=np.array(starts, dtype=np.float64),
        start=np.array(starts, dtype=np.float64),
        duration=np.array(durations, dtype=np.float64),
        bytes=np.array(sizes, dtype=np.int64),
        volume=np.array(sizes if volumes is None else volumes, dtype=np.float64),
        origin="a test",
    )


def platform_of(
    *nodes: Sequence[tuple[int, float]], network: float = math.inf, servers: Sequence[int] | None = None
) -> Platform:
    """Nodes of disks of (capacity, bandwidth); `servers` says how many nodes each server has, else there is one."""
    made = [
        Node(
            name=f"node-{index}",
            network_bandwidth=network,
            disks=tuple(Disk(capacity=size, write_bandwidth=speed, read_bandwidth=speed) for size, speed in disks),
        )
        for index, disks in enumerate(nodes)
    ]
    grouped = []
    for index, count in enumerate(servers or [len(made)]):
        grouped.append(Server(name=f"S-{index}", nodes=tuple(made[:count])))
        made = made[count:]
    return Platform(name="by hand", servers=tuple(grouped))


CORRECT = st.builds(
    Rules,
    split=st.sampled_from([0, GB, 2 * GB, 3 * GB, GB + 1]),
    tries=st.sampled_from([0, 1, 12]),
    interval=st.sampled_from([0.5, 300.0]),
)
TO_THE_LETTER = st.builds(
    Rules,
    mode=st.just("storalloc"),
    split=st.sampled_from([0, GB, 2 * GB, 3 * GB]),
    tries=st.sampled_from([0, 12]),
    interval=st.sampled_from([0.5, 300.0]),
)
