"""An I/O node in virtual time that looks closely at what its scheduler does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from forebay.decide.conformance.contract import broke
from forebay.decide.conformance.order_cases import FILES, FLOWS, Arrivals, Ask
from forebay.decide.order.queue import arrive, done, follower, in_flight, new_queue, waiting
from forebay.decide.order.queue_layout import NEVER, NO_SUCH, NONE, NOTES, NOTES_AT, OTHER, WAKE
from forebay.decide.order.schedulers import number
from forebay.decide.policy import Policy
from forebay.model.errors import PolicyError

PATIENCE = 40  # of the queue, where the scheduler wants it to be patient
_ASKS = 1000  # in a row, each at the time that the scheduler itself named, of which one must give something
_STUCK = "sends nothing more although requests wait and none are in flight, nor says when to ask again"


@dataclass(slots=True)
class Node:
    """Sends what the scheduler says when it says so."""

    policy: Policy
    take: Callable[[Any, int], int]
    case: Arrivals
    aggregate: int | None = None
    slots: int = 512
    now: int = 0
    q: Any = None
    known: dict[int, int] = field(default_factory=dict)  # which request is in which slot
    flying: list[tuple[int, int]] = field(default_factory=list)  # when a message is answered, and its first slot
    sent: list[int] = field(default_factory=list)
    asks: int = 0  # since something was sent

    def __post_init__(self) -> None:
        self.now = self.case.begin
        self.q = fresh_queue(self.policy, self.case, self.slots, self.aggregate)

    def run(self) -> list[int]:
        """Let all requests arrive and be sent; which ones were, in the order in which they were."""
        for which, ask in enumerate(self.case.asked):
            self.until(self.case.begin + ask.at)
            self.accept(which, ask)
        self.until(NEVER)
        return self.finished()

    def finished(self) -> list[int]:
        """Which requests were sent, after a last look."""
        if sorted(self.sent) != list(range(len(self.case.asked))):
            self.broke("does not send every request once and only once")
        if self.policy.keeps_file_order and not self.aggregates:
            self.expect_file_order()
        return self.sent

    @property
    def aggregates(self) -> bool:
        limit = self.policy.options.get("aggregate", 0) if self.aggregate is None else self.aggregate
        return limit != 0

    def accept(self, which: int, ask: Ask) -> None:
        """A request arrives, and finds room."""
        slot = arrives(self.q, self.now, ask)
        if slot < 0:
            self.broke(f"is given requests that the queue refuses ({slot})")
        self.known[slot] = which

    def until(self, end: int) -> None:
        """Send what can be sent before `end`; if that is NEVER, all of it."""
        while True:
            when = min(self.send_all(), self.next_answer())
            if when >= end:
                break
            self.now = when
            self.answer()
        if end != NEVER:
            self.now = end
            self.answer()
        elif waiting(self.q):
            self.broke(_STUCK)

    def go_on(self) -> None:
        """Send, and let time pass until something happens."""
        self.now = min(self.send_all(), self.next_answer())
        if self.now == NEVER:
            self.broke(_STUCK)
        self.answer()

    def next_answer(self) -> int:
        """When the next message will be answered."""
        return min(self.flying)[0] if self.flying else NEVER

    def held(self) -> int:
        """How many slots are not free, as far as can be seen from outside."""
        slots = len(self.known)
        for _, slot in self.flying:
            while slot != NONE:
                slots, slot = slots + 1, follower(self.q, slot)
        return slots

    def send_all(self) -> int:
        """Send as long as there is something to; when to ask again."""
        while (slot := self.pick()) != NONE:
            self.note(slot)
        wake = int(self.q[WAKE])
        if wake <= self.now:
            self.broke("wants to be asked again at a time that is not to come")
        self.asks += 1
        if self.asks > _ASKS and waiting(self.q):
            self.broke(f"has sent nothing for {_ASKS} times although requests wait")
        return wake

    def pick(self) -> int:
        """What it sends now."""
        if not self.known and not self.sent:
            return NONE  # nothing came yet
        try:
            if number(self.policy) == OTHER and waiting(self.q) and in_flight(self.q) < self.case.in_flight:
                self.expect_only_looks()
            slot = self.take(self.q, self.now)
        except PolicyError:
            raise
        except Exception as error:  # whatever it is, the author wants to know in which case
            said = next((line for line in str(error).splitlines() if line.strip()), "")
            raise PolicyError(
                f"{self.policy.name}: raises {type(error).__name__} for {self.case.what}: {said}"
            ) from error
        if slot == NO_SUCH:
            self.broke("picks a slot in which no request waits")
        return slot

    def expect_only_looks(self) -> None:
        """Let it pick from a copy, of which it may change nothing but its notes."""
        copy = self.q.copy()
        slot = self.policy.decide(copy, self.now)
        if isinstance(slot, bool) or not isinstance(slot, int | np.integer):
            self.broke(f"picks {slot!r}, which is no int")
        if not _same_but_notes(copy, self.q):
            self.broke("changes the queue that it is only to look at")

    def note(self, slot: int) -> None:
        """Look at a message that was sent."""
        message = [slot]
        while (behind := follower(self.q, message[-1])) != NONE:
            message.append(behind)
        if any(part not in self.known for part in message):
            self.broke("sends a request that had been sent")
        parts = [self.known.pop(part) for part in message]
        self.sent += parts
        self.asks = 0
        self.flying.append((self.now + self.case.service, slot))
        if max(len(self.flying), in_flight(self.q)) > self.case.in_flight:
            self.broke(f"has more than {self.case.in_flight} messages in flight")
        if not _contiguous([self.case.asked[which] for which in parts]):
            self.broke("sends requests in one message that are not contiguous")

    def answer(self) -> None:
        """All messages that are due by now are answered."""
        for when, slot in sorted(self.flying):
            if when <= self.now and not done(self.q, slot):
                self.broke("has a message answered that is not in flight")
        self.flying = [(when, slot) for when, slot in self.flying if when > self.now]

    def expect_file_order(self) -> None:
        last: dict[tuple[int, int], int] = {}
        for which in self.sent:
            ask = self.case.asked[which]
            if last.get((ask.server, ask.file), -1) > which:
                self.broke("promises to keep the order of requests to a file, and does not")
            last[ask.server, ask.file] = which

    def broke(self, what: str) -> NoReturn:
        """Raise a `PolicyError`."""
        broke(self.policy, self.case, what)


def fresh_queue(policy: Policy, case: Arrivals, slots: int, aggregate: int | None) -> Any:
    """An empty queue for a case."""
    return new_queue(
        policy,
        servers=case.servers,
        slots=slots,
        files=FILES,
        flows=FLOWS,
        in_flight=case.in_flight,
        aggregate=aggregate,
        patience=PATIENCE,
    )


def arrives(q: Any, now: int, ask: Ask) -> int:
    """Its slot, or NONE if the queue is full."""
    return arrive(q, now, ask.server, ask.file, ask.flow, ask.offset, ask.size, ask.write)


def _contiguous(parts: Sequence[Ask]) -> bool:
    """Whether each goes on where the one before ends."""
    return all(
        (a.server, a.file, a.write, a.offset + a.size) == (b.server, b.file, b.write, b.offset)
        for a, b in pairwise(parts)
    )


def _same_but_notes(one: Any, other: Any) -> bool:
    differ = np.flatnonzero(one != other)
    return bool(np.all((differ == WAKE) | ((differ >= NOTES_AT) & (differ < NOTES_AT + NOTES))))
