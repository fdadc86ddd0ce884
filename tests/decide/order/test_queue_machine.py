"""Every scheduler does in its array what a plain one does on lists, whatever happens in whichever order."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from forebay.decide.order.queue import (
    arrive,
    complete,
    count_waiting,
    depth,
    drop,
    follower,
    in_flight,
    new_queue,
    set_aggregate,
    set_patience,
    set_quantum,
    set_scheduler,
    set_weight,
    set_window,
    take,
)
from forebay.decide.order.queue_layout import TABLE_MASK, WAKE
from forebay.decide.order.schedulers import ORDERS, number
from forebay.decide.order.slots import after, first
from forebay.decide.registry import find
from support.examples import examples
from support.orders import NONE, Asked, Naive

NAMES = [policy.name for policy in ORDERS]
SERVERS, SLOTS = 3, 24


def message(q: Any, now: int) -> list[int]:
    """All slots of what `take` gives."""
    slots = [take(q, now)]
    while slots[-1] != NONE:
        slots.append(follower(q, slots[-1]))
    return slots[:-1]


class Settings(TypedDict):
    window: int
    quantum: int
    aggregate: int
    patience: int


class Queues(RuleBasedStateMachine):
    """The queue beside the naive one."""

    start: str
    switches = False

    @initialize(
        node=st.integers(0, 5),
        settings=st.fixed_dictionaries(
            {
                "window": st.integers(1, 50),
                "quantum": st.integers(1, 3),
                "aggregate": st.sampled_from([0, 0, 10_000, 30_000]),
                "patience": st.integers(0, 4),
            }
        ),
        now=st.sampled_from([0, 7, 10**18]),
        collide=st.booleans(),
    )
    def make(self, node: int, settings: Settings, now: int, collide: bool) -> None:
        self.now = now
        self.q = new_queue(
            self.start, servers=SERVERS, slots=SLOTS, files=4, flows=3, node=node, in_flight=4, **settings
        )
        if collide:
            self.q[TABLE_MASK] = 0  # all requests at one place of the table
        self.naive = Naive(self.start, SERVERS, SLOTS, 4, node, **settings)

    @rule(
        server=st.integers(0, SERVERS - 1),
        file=st.integers(0, 3),
        flow=st.integers(0, 2),
        offset=st.integers(0, 6),
        size=st.sampled_from([0, 1, 1, 2, 3]),
        write=st.booleans(),
        several=st.integers(1, 4),
    )
    def arrive(self, server: int, file: int, flow: int, offset: int, size: int, write: bool, several: int) -> None:
        for part in range(several):
            where = (offset + part * size) * 5000
            slot = arrive(self.q, self.now, server, file, flow, where, size * 5000, write)
            if self.naive.free == 0:
                assert slot == NONE
                return
            used = {a.slot for a in self.naive.waiting} | {a.slot for m in self.naive.sent.values() for a in m}
            assert 0 <= slot < SLOTS and slot not in used
            self.naive.arrive(Asked(slot, server, file, flow, where, size * 5000, int(write)))

    @rule(times=st.integers(1, 4))
    def take(self, times: int) -> None:
        for _ in range(times):
            assert message(self.q, self.now) == self.naive.take(self.now)
            assert self.q[WAKE] == self.naive.wake

    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        slot = data.draw(st.integers(-2, SLOTS))
        answered = slot in self.naive.sent
        assert complete(self.q, slot) == answered
        if answered:
            self.naive.done(slot)

    @precondition(lambda self: self.naive.sent)
    @rule()
    def all_done(self) -> None:
        for slot in list(self.naive.sent):
            assert complete(self.q, slot)
            self.naive.done(slot)

    @rule(slot=st.integers(-2, SLOTS))
    def drop(self, slot: int) -> None:
        waits = any(asked.slot == slot for asked in self.naive.waiting)
        assert drop(self.q, slot) == waits
        if waits:
            self.naive.drop(slot)

    @rule(later=st.integers(1, 60))
    def time_passes(self, later: int) -> None:
        self.now += later

    @rule(window=st.integers(1, 50))
    def other_window(self, window: int) -> None:
        set_window(self.q, window)
        self.naive.window = window

    @rule(quantum=st.integers(1, 3))
    def other_quantum(self, quantum: int) -> None:
        set_quantum(self.q, quantum)
        self.naive.set_quantum(quantum)

    @rule(limit=st.sampled_from([0, 10_000, 30_000]))
    def other_limit(self, limit: int) -> None:
        set_aggregate(self.q, limit)
        self.naive.aggregate = limit

    @rule(patience=st.integers(0, 4))
    def other_patience(self, patience: int) -> None:
        set_patience(self.q, patience)
        self.naive.patience = patience

    @rule(flow=st.integers(0, 2), weight=st.integers(1, 3))
    def other_weight(self, flow: int, weight: int) -> None:
        set_weight(self.q, flow, weight)
        self.naive.weights[flow] = weight

    @precondition(lambda self: self.switches)
    @rule(name=st.sampled_from(NAMES))
    def other_scheduler(self, name: str) -> None:
        set_scheduler(self.q, number(find("order", name)))
        self.naive.switch(name)

    @invariant()
    def they_agree_on_what_waits(self) -> None:
        if not hasattr(self, "q"):
            return
        found, slot = [], first(self.q)
        while slot != NONE:
            found.append(slot)
            slot = after(self.q, slot)
        assert found == [asked.slot for asked in self.naive.waiting]
        assert count_waiting(self.q) == len(found)
        assert in_flight(self.q) == len(self.naive.sent)
        assert [depth(self.q, s) for s in range(SERVERS)] == [self.naive.depth(s) for s in range(SERVERS)]


@pytest.mark.parametrize("name", NAMES)
def test_a_scheduler_does_what_it_would_do_on_lists(name: str) -> None:
    machine = type(f"Queues_{name}", (Queues,), {"start": name})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples(60), stateful_step_count=50, deadline=None)
    )


def test_a_change_of_scheduler_loses_nothing_and_goes_on_as_if_all_had_just_come() -> None:
    machine = type("Switching", (Queues,), {"start": "fifo", "switches": True})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples(150), stateful_step_count=60, deadline=None)
    )
