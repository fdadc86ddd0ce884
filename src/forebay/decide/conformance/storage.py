"""Checks for storage policies."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise, repeat
from typing import Any

import numpy as np

from forebay.decide.conformance.contract import check_answers, expect_kind, fail, is_int, name_errors
from forebay.decide.policy import Input, Policy
from forebay.decide.storage.policy_memory import REFUSED, turn
from forebay.model.ledger import Ledger, book, ledger, survey
from forebay.model.system import Disk, Node, Platform, Server


@dataclass(frozen=True, slots=True)
class _Space:
    """Requests (size, start, end, duration) in sequence, on disks with bookings (disk, start, end, size)."""

    what: str
    platform: Platform
    requests: tuple[tuple[int, float, float, float], ...]
    booked: tuple[tuple[int, float, float, int], ...] = ()
    now: float = -np.inf  # no request starts before


def check_storage(policy: Policy) -> None:
    """Raise a `PolicyError` if `policy` is not a valid storage policy."""
    expect_kind(policy, "storage")
    answers = check_answers(
        policy,
        _spaces(),
        _choose,
        same="ledger, request and seed",
        inputs=(Input.BOOKED, Input.DISK_BANDWIDTH),
        change_input=_with_another_input,
    )
    for case, answer in answers:
        fits = max(size for size, *_ in case.requests) < min(disk.capacity for disk in case.platform.disks)
        if not case.booked and REFUSED in answer and fits:
            fail(policy, case, "refuses a request although nothing is booked and every disk has room for it")


def _choose(policy: Policy, case: _Space) -> list[int]:
    """Return the answers to the case's requests, and check that the policy leaves the ledger unchanged."""
    space = ledger(case.platform)
    for booking in case.booked:
        book(space, *booking)
    space.horizon[0] = case.now
    state = turn(space, seed=1)
    before = _visible_bookings(space, case)
    answers, decide = [], None
    for request in case.requests:
        with name_errors(policy, f"for {case.what}"):
            decide = decide or (policy.decide(case.platform) if policy.prepares else policy.decide)
            disk = decide(space, *request, state)
        if not is_int(disk):
            fail(policy, case, f"returns {disk!r}, which is not an int")
        if not REFUSED <= disk < space.disks.size:
            fail(policy, case, f"returns disk {disk}; expected 0 to {space.disks.size - 1}, or {REFUSED} to refuse")
        if _visible_bookings(space, case) != before:
            fail(policy, case, "changes the ledger, which is read-only")
        answers.append(int(disk))
    return answers


def _visible_bookings(space: Ledger, case: _Space) -> list[Any]:
    """Return everything a policy can read from the ledger: its records, and the bookings between any two times."""
    times = sorted({time for _, start, end, _ in case.booked for time in (start, end) if time >= case.now})
    spans = [(max(case.now, -1.0), 1e9), *((start, end) for _, start, end, _ in case.requests), *pairwise(times)]
    visible: list[Any] = [space.horizon.tolist(), space.nodes.tolist(), space.servers.tolist()]
    visible += [space.disks[name].tolist() for name in ("capacity", "write_bandwidth", "read_bandwidth", "node")]
    taken, others = np.zeros(space.disks.size, dtype=np.int64), np.zeros(space.disks.size, dtype=np.int64)
    for start, end in spans:
        for at_most in (True, False):
            survey(space, start, end, at_most, taken, others)
            visible += [taken.tolist(), others.tolist()]
    return visible


def _with_another_input(case: _Space, hidden: Input) -> _Space:
    """Change the bookings or the bandwidths of a case."""
    if hidden is Input.BOOKED:
        disks = len(case.platform.disks)
        held = tuple((k // 2, 0.0, 5000.0, case.platform.disks[k // 2].capacity // 2) for k in range(2 * disks - 2))
        return replace(case, booked=() if case.booked else held)
    return replace(case, platform=_with_bandwidths(case.platform, (k * 1e8 for k in count(1))))


def _with_bandwidths(platform: Platform, bandwidths: Iterator[float]) -> Platform:
    def change(disk: Disk) -> Disk:
        bandwidth = next(bandwidths)
        return replace(disk, write_bandwidth=bandwidth, read_bandwidth=bandwidth)

    servers = tuple(
        replace(server, nodes=tuple(replace(node, disks=tuple(map(change, node.disks))) for node in server.nodes))
        for server in platform.servers
    )
    return replace(platform, servers=servers)


def _spaces() -> Iterable[_Space]:
    few, many = [100, 7, 30, 100, 64], list(range(1, 40))
    single, alike = _storage([[[1000]]]), _storage([[[1000] * 2] * 4])
    mixed = _storage([[[1000, 200], [50]], [[700], [3000, 1], [40] * 3]])
    yield _Space("one disk", single, _asks(few))
    yield _Space("disks that are all equal", alike, _asks(few))
    yield _Space("many nodes", _storage([[[1000] * 2] * 30]), _asks(many))
    yield _Space("several servers", _storage([[[500], [500] * 2], [[500]]]), _asks(many))
    yield _Space("one disk, partly booked", single, _asks(few), _bookings(single))
    yield _Space("disks that are all equal, partly booked", alike, _asks(many), _bookings(alike))
    yield _Space("disks of all kinds", mixed, _asks(few))
    yield _Space("disks of all kinds, partly booked", mixed, _asks(many), _bookings(mixed))
    yield _Space("bookings that began before now", mixed, _asks(many), _bookings(mixed), now=300.0)
    yield _Space("requests larger than any disk", mixed, _asks([3001, 10_000]), _bookings(mixed))
    yield _Space("requests for no time at all", mixed, _asks(few, seconds=0.0), _bookings(mixed))
    yield _Space("a request for no time at all on an empty disk", single, _asks(few, seconds=0.0))
    yield _Space("delayed starts", mixed, _asks(few, delay=300.0), _bookings(mixed))
    full = tuple((disk, 0.0, 5000.0, what.capacity) for disk, what in enumerate(alike.disks))
    yield _Space("disks that are full", alike, _asks(few), full)
    endless = _with_bandwidths(alike, repeat(np.inf))
    yield _Space("disks with infinite bandwidth", endless, _asks(few), _bookings(endless))


def _storage(servers: Sequence[Sequence[Sequence[int]]]) -> Platform:
    """Build a platform from disk capacities by server and node; smaller disks are faster."""
    return Platform(
        name="conformance",
        servers=tuple(
            Server(
                name=f"S-{s}",
                nodes=tuple(
                    Node(
                        name=f"node-{s}-{n}",
                        network_bandwidth=12.5e9,
                        disks=tuple(Disk(capacity=c, write_bandwidth=3e12 / c, read_bandwidth=4e12 / c) for c in disks),
                    )
                    for n, disks in enumerate(nodes)
                ),
            )
            for s, nodes in enumerate(servers)
        ),
    )


def _asks(sizes: Sequence[int], *, seconds: float = 600.0, delay: float = 0.0) -> tuple[Any, ...]:
    """Return requests that start every 30 seconds from 300 s on; a delay does not move their end."""
    starts = [300.0 + 30.0 * k for k, _ in enumerate(sizes)]
    return tuple((size, start + delay, start + seconds, seconds) for size, start in zip(sizes, starts, strict=True))


def _bookings(platform: Platform) -> tuple[tuple[int, float, float, int], ...]:
    """Return bookings on every disk except the last, some of them back to back."""
    return tuple(
        (disk, 60.0 * k, 60.0 * k + 400.0, 1 + (31 * disk + 17 * k) % 97 * what.capacity // 400)
        for disk, what in enumerate(platform.disks[:-1])
        for k in range(0, 15, 1 + disk % 4)
    )
