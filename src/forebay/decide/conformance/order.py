"""Checks for request schedulers, by an I/O node in virtual time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice, pairwise, product
from types import MappingProxyType
from typing import NoReturn

import numpy as np

from forebay.decide.conformance.contract import expect_kind, fail, is_int, name_errors
from forebay.decide.order.queue import arrive, complete, count_waiting, follower, in_flight, new_queue, take_of, use
from forebay.decide.order.queue import take as any_built_in
from forebay.decide.order.queue_layout import NEVER, NO_SUCH, NONE, NOTES, NOTES_AT, OTHER, WAKE
from forebay.decide.order.schedulers import number
from forebay.decide.policy import Policy
from forebay.model.kernels import Array
from forebay.model.layout import KIB

SERVERS, FILES, FLOWS = 4, 12, 6
_AGGREGATE = 256 * KIB
_PATIENCE = 40  # of the queue, for schedulers that set `patient`
_ENOUGH = 20_000  # messages: a request that waits longer than this starves
_EARLIER = 8  # requests that arrive before the one that must not starve
_ASKS = 1000  # in a row at times that the scheduler chose; one of them must send something
_STUCK = "sends nothing although requests wait and none are in flight; return a slot or call wake_at"

Take = Callable[[Array, int], int]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, `at` nanoseconds after the first."""

    at: int
    server: int
    file: int
    flow: int
    offset: int
    size: int
    write: bool = False

    def arrive(self, q: Array, now: int) -> int:
        """Return the slot, or NONE if the queue is full."""
        return arrive(q, now, self.server, self.file, self.flow, self.offset, self.size, self.write)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Requests in the order of arrival at an I/O node; servers answer a message after `service` nanoseconds."""

    what: str
    requests: tuple[Ask, ...]
    in_flight: int = 4
    service: int = 30_000
    begin: int = 0
    servers: int = SERVERS

    def queue(self, policy: Policy, slots: int, aggregate: int | None) -> Array:
        return new_queue(
            policy,
            servers=self.servers,
            slots=slots,
            files=FILES,
            flows=FLOWS,
            in_flight=self.in_flight,
            aggregate=aggregate,
            patience=_PATIENCE,
        )


def check_order(policy: Policy) -> None:
    """Raise a `PolicyError` if `policy` is not a valid request scheduler.

    It must send every accepted request exactly once, even if the queue is full, the scheduler changes while requests
    wait, or requests are aggregated. If it promises file order, requests to one file at one server leave in the order
    of arrival. No request starves. Messages in flight stay within the limit. A scheduler that sends nothing names a
    later time to ask again, and sends something in the end.
    """
    expect_kind(policy, "order")
    take = take_of(policy)
    for case in _cases():
        sent = Node(policy, take, case).run()
        if Node(policy, take, case).run() != sent:
            fail(policy, case, "sends the same requests in a different order when run again")
        for limit in (0, _AGGREGATE):
            Node(policy, take, case, aggregate=limit).run()
        half = len(case.requests) // 2
        for other in ("fifo", "hbrr", "wfq", "twins"):  # a change of scheduler must lose nothing
            between = replace(case, what=f"{case.what}, with another scheduler for a while")
            Node(policy, take, between).run({half // 2: (other, any_built_in), half: (policy, take)})
        _check_full(policy, take, case)
    for case, last in _starving_cases():
        _check_starving(policy, take, case, last)


def _check_full(policy: Policy, take: Take, case: Arrivals) -> None:
    """Check that a full queue refuses requests, accepts more when it has room, and loses none."""
    node = Node(policy, take, replace(case, what=f"{case.what}, with a full queue"), slots=5)
    for which, ask in enumerate(case.requests):
        while node.count_held() == node.slots:
            if ask.arrive(node.q, node.now) != NONE:
                node.fail("makes a full queue accept another request")
            node.now = min(node.send_all(), min(node.flying, default=(NEVER,))[0])
            if node.now == NEVER:
                node.fail(_STUCK)
            node.answer()
        node.accept(which, ask)
    node.run_until(NEVER)
    node.expect_all_sent()
    node.expect_file_order()


def _check_starving(policy: Policy, take: Take, case: Arrivals, last: Ask) -> None:
    """Check that requests at the start of an endless stream are sent, and so is `last`."""
    q, stream = case.queue(policy, 64, 0), case.requests
    wait = {ask.arrive(q, 0) for ask in (*stream[:_EARLIER], last)}
    now, gone = 0, 0
    for k in range(_ENOUGH):
        slot = take(q, now)
        if slot < 0:
            now = min(int(q[WAKE]), now + 1_000_000)
            continue
        wait.discard(slot)
        if not wait:
            return
        complete(q, slot)
        now += 5_000 + (k * 2_654_435_761 >> 7) % 10_007  # out of step with windows
        stream[(_EARLIER + k) % len(stream)].arrive(q, now)
        gone += 1
        if policy.patient and gone > _PATIENCE + _EARLIER:
            fail(policy, case, f"lets more than {_PATIENCE} later requests overtake one")
    fail(policy, case, f"lets a request wait while it sends {gone} others")


class Node:
    """An I/O node that sends what the scheduler picks, and checks it."""

    def __init__(
        self, policy: Policy, take: Take, case: Arrivals, aggregate: int | None = None, slots: int = 512
    ) -> None:
        self.policy, self.take, self.case, self.aggregate, self.slots = policy, take, case, aggregate, slots
        self.now, self.q = case.begin, case.queue(policy, slots, aggregate)
        self.known: dict[int, int] = {}  # requests by slot
        self.flying: list[tuple[int, int]] = []  # when a message is answered, and its first slot
        self.sent: list[int] = []
        self.asks = 0  # since something was sent

    def run(self, changes: Mapping[int, tuple[Policy | str, Take]] = MappingProxyType({})) -> list[int]:
        """Let all requests arrive and be sent, with `changes` of the scheduler. Return them in the order sent."""
        for which, ask in enumerate(self.case.requests):
            self.run_until(self.case.begin + ask.at)
            self.accept(which, ask)
            if which in changes:
                scheduler, self.take = changes[which]
                use(self.q, scheduler)
        self.run_until(NEVER)
        self.expect_all_sent()
        if not changes:
            self.expect_file_order()
        return self.sent

    def accept(self, which: int, ask: Ask) -> None:
        """Let a request arrive and check that the queue accepts it."""
        slot = ask.arrive(self.q, self.now)
        if slot < 0:
            self.fail(f"makes a queue with room refuse a request ({slot})")
        self.known[slot] = which

    def run_until(self, end: int) -> None:
        """Send what can be sent before `end`; if `end` is NEVER, send everything."""
        while (when := min(self.send_all(), min(self.flying, default=(NEVER,))[0])) < end:
            self.now = when
            self.answer()
        if end != NEVER:
            self.now = end
            self.answer()
        elif count_waiting(self.q):
            self.fail(_STUCK)

    def count_held(self) -> int:
        """Count the slots that are in use, from what the node has observed."""
        return len(self.known) + sum(len(self.message(slot)) for _, slot in self.flying)

    def message(self, slot: int) -> list[int]:
        """Return the slots of the message that begins with `slot`."""
        slots = [slot]
        while (behind := follower(self.q, slots[-1])) != NONE:
            slots.append(behind)
        return slots

    def send_all(self) -> int:
        """Send until the scheduler sends nothing more. Return when to ask again."""
        while (slot := self.pick()) != NONE:
            self.note(slot)
        wake = int(self.q[WAKE])
        if wake <= self.now:
            self.fail("asks to be called again at a time that is not in the future")
        self.asks += 1
        if self.asks > _ASKS and count_waiting(self.q):
            self.fail(f"sends nothing in {_ASKS} calls although requests wait")
        return wake

    def pick(self) -> int:
        if not self.known and not self.sent:
            return NONE  # nothing has arrived yet
        with name_errors(self.policy, f"for {self.case.what}"):
            if number(self.policy) == OTHER and count_waiting(self.q) and in_flight(self.q) < self.case.in_flight:
                self.expect_read_only()
            slot = self.take(self.q, self.now)
        if slot == NO_SUCH:
            self.fail("returns a slot in which no request waits")
        return slot

    def expect_read_only(self) -> None:
        """Let the scheduler pick from a copy, and check that it changes only its notes."""
        copy = self.q.copy()
        slot = self.policy.decide(copy, self.now)
        if not is_int(slot):
            self.fail(f"returns {slot!r}, which is not an int")
        changed = np.flatnonzero(copy != self.q)
        if not np.all((changed == WAKE) | ((changed >= NOTES_AT) & (changed < NOTES_AT + NOTES))):
            self.fail("changes the queue; only its notes and wake time may change")

    def note(self, slot: int) -> None:
        """Check and record a message that was sent."""
        message = self.message(slot)
        if any(part not in self.known for part in message):
            self.fail("sends a request twice")
        parts = [self.known.pop(part) for part in message]
        self.sent += parts
        self.asks = 0
        self.flying.append((self.now + self.case.service, slot))
        if max(len(self.flying), in_flight(self.q)) > self.case.in_flight:
            self.fail(f"has more than {self.case.in_flight} messages in flight")
        for a, b in pairwise(self.case.requests[which] for which in parts):
            if (a.server, a.file, a.write, a.offset + a.size) != (b.server, b.file, b.write, b.offset):
                self.fail("sends non-contiguous requests in one message")

    def answer(self) -> None:
        """Answer all messages that are due."""
        for when, slot in sorted(self.flying):
            if when <= self.now and not complete(self.q, slot):
                self.fail("gets an answer to a message that is not in flight")
        self.flying = [(when, slot) for when, slot in self.flying if when > self.now]

    def expect_all_sent(self) -> None:
        if sorted(self.sent) != list(range(len(self.case.requests))):
            self.fail("does not send every request exactly once")

    def expect_file_order(self) -> None:
        """Check the order of each file's requests, if the scheduler promises it and nothing is aggregated."""
        aggregates = self.policy.options.get("aggregate", 0) if self.aggregate is None else self.aggregate
        if aggregates or not self.policy.keeps_file_order:
            return
        last: dict[tuple[int, int], int] = {}
        for which in self.sent:
            ask = self.case.requests[which]
            if last.get((ask.server, ask.file), -1) > which:
                self.fail("breaks its promise to keep the order of requests to a file")
            last[ask.server, ask.file] = which

    def fail(self, what: str) -> NoReturn:
        fail(self.policy, self.case, what)


def _cases() -> Iterator[Arrivals]:
    """Yield ordinary and awkward arrivals."""
    mixed = tuple(
        Ask(k * 9_000, k * k % SERVERS, k * 5 % FILES, k * 3 % FLOWS, k * 11 % 40 * 64 * KIB, size * KIB, k % 3 == 0)
        for k, size in enumerate(islice(cycle((4, 512, 1024, 64, 32)), 160))
    )
    turns = [(k * 3000, *divmod(k, 8)) for k in range(120)]  # of 8 processes
    strided = (Ask(at, t % SERVERS, 0, p % FLOWS, (t * 8 + p) * 32 * KIB, 32 * KIB, True) for at, t, p in turns)
    apart = (Ask(at, (p + t) % SERVERS, p, p % FLOWS, t // 4 * 64 * KIB, 64 * KIB) for at, t, p in turns)
    one_file = tuple(Ask(k * 1000, 0, 0, 0, k * 32 * KIB, 32 * KIB) for k in range(40))
    empty = tuple(Ask(0, k % SERVERS, k % 3, 0, 0, 0) for k in range(30))
    yield Arrivals("one request", mixed[:1])
    yield Arrivals("one server and one file", one_file, servers=1)
    yield Arrivals("all at once", _space_requests(mixed, 0))
    yield Arrivals("one message in flight", mixed, in_flight=1)
    yield Arrivals("mixed requests", mixed)
    yield Arrivals("fast servers", mixed, service=1)
    yield Arrivals("a clock that counts from 1970", mixed, begin=1_700_000_000_123_456_789)
    yield Arrivals("processes that share a file, strided", tuple(strided))
    yield Arrivals("a file per process", tuple(apart))
    yield Arrivals("requests of 0 bytes", empty)
    yield Arrivals("50 copies of one request", _space_requests(mixed[:1] * 50, 0))
    yield Arrivals("long pauses", _space_requests(mixed[:40], 5_000_000))


def _starving_cases() -> Iterator[tuple[Arrivals, Ask]]:
    """Yield streams that keep a queue busy for ever, each with a large request that arrives later."""
    large = Ask(0, 1, 0, 0, 0, 1 << 20)
    servers = {"to one server": (0,), "to its server": (1,), "to all servers": (0, 1, 2, 3)}
    sizes = {"small": (4 * KIB,), "all sizes of": (4 * KIB, 512 * KIB, 64 * KIB)}
    for (size, many), (where, to) in product(sizes.items(), servers.items()):
        yield Arrivals(f"{size} requests of other files {where}", tuple(_stream(to, many, (1, 2, 3)))), large
    own_file = tuple(_stream((1,), (4 * KIB,), (0,)))
    yield Arrivals("small requests of its own file to its server", own_file), large


def _stream(servers: Sequence[int], sizes: Sequence[int], files: Sequence[int]) -> Iterator[Ask]:
    for k in range(48):
        size, file = sizes[k % len(sizes)], files[k % len(files)]
        yield Ask(0, servers[k % len(servers)], file, file % FLOWS, (2 + k) << 20, size)


def _space_requests(requests: Iterable[Ask], pause: int) -> tuple[Ask, ...]:
    return tuple(replace(ask, at=k * pause) for k, ask in enumerate(requests))
