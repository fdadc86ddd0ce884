"""Requests that the schedulers' conformance suite lets arrive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

KIB = 1024
SERVERS, FILES, FLOWS = 4, 12, 6


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, `at` so many nanoseconds after the first."""

    at: int
    server: int
    file: int
    flow: int
    offset: int
    size: int
    write: bool = False


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What arrives, in this order, at an I/O node whose messages are answered after `service` nanoseconds."""

    what: str
    asked: tuple[Ask, ...]
    in_flight: int = 4
    service: int = 30_000
    begin: int = 0
    servers: int = SERVERS


def cases() -> Iterator[Arrivals]:
    """Ordinary and awkward ones."""
    mixed = tuple(_mixed_requests(160))
    yield Arrivals("one request", mixed[:1])
    yield Arrivals("one server and one file", tuple(_one_file(40)), servers=1)
    yield Arrivals("all at once", tuple(_at_once(mixed)))
    yield Arrivals("one message in flight", mixed, in_flight=1)
    yield Arrivals("all kinds of requests", mixed)
    yield Arrivals("servers that are fast", mixed, service=1)
    yield Arrivals("a clock that counts from 1970", mixed, begin=1_700_000_000_123_456_789)
    yield Arrivals("processes that share a file, strided", tuple(_strided_requests(120)))
    yield Arrivals("a file per process", tuple(_per_process(120)))
    yield Arrivals("requests of no bytes", tuple(_at_once(_empty(30))))
    yield Arrivals("the same request again and again", tuple(_at_once(mixed[:1] * 50)))
    yield Arrivals("long pauses", tuple(_space_requests(mixed[:40], 5_000_000)))


def one_among_many() -> Iterator[tuple[str, Ask, tuple[Ask, ...]]]:
    """A large request, and a stream of others, over and over, that would keep a queue busy for ever without it."""
    large = Ask(0, 1, 0, 0, 0, 1 << 20)
    servers = {"to one server": (0,), "to its server": (1,), "to all servers": (0, 1, 2, 3)}
    sizes = {"small": (4 * KIB,), "all sizes of": (4 * KIB, 512 * KIB, 64 * KIB)}
    for (size, many), (where, to) in product(sizes.items(), servers.items()):
        yield f"{size} requests of other files {where}", large, tuple(_stream(to, many, (1, 2, 3)))
    yield "small requests of its own file to its server", large, tuple(_stream((1,), (4 * KIB,), (0,)))


def _stream(servers: tuple[int, ...], sizes: tuple[int, ...], files: tuple[int, ...]) -> Iterator[Ask]:
    for k in range(48):
        size, file = sizes[k % len(sizes)], files[k % len(files)]
        yield Ask(0, servers[k % len(servers)], file, file % FLOWS, (2 + k) << 20, size)


def _mixed_requests(many: int) -> Iterator[Ask]:
    for k in range(many):
        size = (4, 64, 512, 32, 1024)[k * 7 % 5] * KIB
        yield Ask(k * 9_000, k * k % SERVERS, k * 5 % FILES, k * 3 % FLOWS, k * 11 % 40 * 64 * KIB, size, k % 3 == 0)


def _one_file(many: int) -> Iterator[Ask]:
    return (Ask(k * 1000, 0, 0, 0, k * 32 * KIB, 32 * KIB) for k in range(many))


def _strided_requests(many: int) -> Iterator[Ask]:
    for k in range(many):
        process, turn = k % 8, k // 8
        yield Ask(k * 3000, turn % SERVERS, 0, process % FLOWS, (turn * 8 + process) * 32 * KIB, 32 * KIB, True)


def _per_process(many: int) -> Iterator[Ask]:
    for k in range(many):
        process, turn = k % 8, k // 8
        yield Ask(k * 3000, (process + turn) % SERVERS, process, process % FLOWS, turn // 4 * 64 * KIB, 64 * KIB)


def _empty(many: int) -> Iterator[Ask]:
    return (Ask(0, k % SERVERS, k % 3, 0, 0, 0) for k in range(many))


def _at_once(asked: Iterator[Ask] | tuple[Ask, ...]) -> Iterator[Ask]:
    return _space_requests(tuple(asked), 0)


def _space_requests(asked: tuple[Ask, ...], pause: int) -> Iterator[Ask]:
    return (Ask(k * pause, a.server, a.file, a.flow, a.offset, a.size, a.write) for k, a in enumerate(asked))
