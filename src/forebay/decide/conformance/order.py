"""What every request scheduler must do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from forebay.decide.conformance.contract import broke, expect_kind
from forebay.decide.conformance.order_cases import Arrivals, Ask, cases, one_among_many
from forebay.decide.conformance.order_node import PATIENCE, Node, arrives, fresh_queue
from forebay.decide.order.queue import done, take_of, use
from forebay.decide.order.queue import take as any_built_in
from forebay.decide.order.queue_layout import NEVER, NONE, WAKE
from forebay.decide.policy import Policy

_ENOUGH = 20_000  # messages: who sends so many before one that waits lets it starve
_AGGREGATE = 256 * 1024
_EARLIER = 8  # requests that wait before the one that must not starve


@dataclass(frozen=True, slots=True)
class _Special:
    what: str


def check_order(policy: Policy) -> None:
    """Raise a `PolicyError` if `policy` is no proper request scheduler.

    Every request that was accepted is sent once and only once, also when the queue is full, when schedulers are
    changed while requests wait, and when requests are aggregated; those to one file at one server leave as they
    came, if that is promised; none waits for ever; there are never more messages in flight than allowed; and where
    nothing is to be sent yet, the time to ask again is to come, and something is sent in the end.
    """
    expect_kind(policy, "order")
    take = take_of(policy)
    for case in cases():
        sent = Node(policy, take, case).run()
        if Node(policy, take, case).run() != sent:
            broke(policy, case, "does not send the same requests in the same order again")
        for limit in (0, _AGGREGATE):
            Node(policy, take, case, aggregate=limit).run()
        _check_change(policy, take, case)
        _check_full(policy, take, case)
    for what, one, others in one_among_many():
        _check_starving(policy, take, _Special(what), one, others)


def _check_change(policy: Policy, take: Callable[[Any, int], int], case: Arrivals) -> None:
    """Another scheduler for some of the time: nothing is lost."""
    case = replace(case, what=f"{case.what}, another scheduler in between")
    for other in ("fifo", "hbrr", "wfq", "twins"):
        node = Node(policy, take, case)
        half = len(case.asked) // 2
        for which, ask in enumerate(case.asked):
            node.until(case.begin + ask.at)
            node.accept(which, ask)
            if which == half // 2:
                use(node.q, other)
                node.take = any_built_in
            if which == half:
                use(node.q, policy)
                node.take = take
        node.until(NEVER)
        if sorted(node.sent) != list(range(len(case.asked))):
            node.broke("does not send every request once and only once")


def _check_full(policy: Policy, take: Callable[[Any, int], int], case: Arrivals) -> None:
    """A queue for fewer requests than arrive refuses, takes more when it has room again, and loses nothing."""
    case = replace(case, what=f"{case.what}, in a queue that is full")
    node = Node(policy, take, case, slots=5)
    for which, ask in enumerate(case.asked):
        while node.held() == node.slots:
            if arrives(node.q, node.now, ask) != NONE:
                node.broke("is in a queue that takes more than it has room for")
            node.go_on()
        node.accept(which, ask)
    node.until(NEVER)
    node.finished()


def _check_starving(
    policy: Policy, take: Callable[[Any, int], int], case: _Special, one: Ask, others: Sequence[Ask]
) -> None:
    """Of a stream, in which as many arrive as are sent, those that came first have to be sent too, and that one."""
    q = fresh_queue(policy, Arrivals(case.what, ()), 64, 0)
    wait = {arrives(q, 0, ask) for ask in (*others[:_EARLIER], one)}
    now, gone = 0, 0
    for k in range(_ENOUGH):
        slot = take(q, now)
        if slot < 0:
            now = min(int(q[WAKE]), now + 1_000_000)
            continue
        wait.discard(slot)
        if not wait:
            return
        done(q, slot)
        now += 5_000 + (k * 2_654_435_761 >> 7) % 10_007  # not in step with windows
        arrives(q, now, others[(_EARLIER + k) % len(others)])
        gone += 1
        if policy.patient and gone > PATIENCE + _EARLIER:
            broke(policy, case, f"lets more than {PATIENCE} later requests overtake one")
    broke(policy, case, f"lets a request wait while {gone} others go")
