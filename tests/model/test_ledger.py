"""The ledger: every question answered as by a list of all bookings."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from forebay.model.ledger import (
    Ledger,
    book,
    has_room,
    ledger,
    longest_overlap,
    next_free,
    peak,
    shorten,
    survey,
    survey_longest,
    total_overlap,
    unbook,
    widen,
)
from support.examples import examples
from support.storage import NaiveLedger, platform_of, platforms

TWO = platform_of([(40, 1.0), (25, 1.0)])
STEPS = [1.0, 0.1, 1 / 3]


class Both:
    """The ledger and the list, which must never differ."""

    def __init__(self, data: DataObject) -> None:
        self.fast, self.slow = ledger(TWO, bookings=1), NaiveLedger(TWO)
        self.data = data
        self.step = data.draw(st.sampled_from(STEPS), label="seconds in a step")
        self.horizon = 0

    def draw(self, low: int, high: int, label: str) -> int:
        return self.data.draw(st.integers(low, high), label=label)

    def act(self) -> None:
        what = self.draw(0, 9, "action")
        if what < 5:
            self.book()
        elif what == 5:
            self.unbook()
        elif what < 8:
            self.shorten()
        else:
            self.horizon = self.draw(self.horizon, self.horizon + 4, "horizon")
            self.fast.horizon[0] = self.horizon * self.step

    def book(self) -> None:
        if not has_room(self.fast, 1):
            self.fast = widen(self.fast)
        disk = self.draw(0, 1, "disk")
        start = self.draw(self.horizon, self.horizon + 12, "start")
        end = start + self.draw(0, 9, "for")
        size = self.draw(1, 15, "size")
        number = book(self.fast, disk, start * self.step, end * self.step, size)
        assert number == self.slow.book(disk, start * self.step, end * self.step, size)

    def unbook(self) -> None:
        found = [n for n, b in self.slow.bookings.items() if b.start >= self.horizon * self.step]
        if found:
            number = found[self.draw(0, len(found) - 1, "whose")]
            gone = self.slow.bookings[number]
            unbook(self.fast, gone.disk, gone.start, gone.end, number)
            self.slow.unbook(number)

    def shorten(self) -> None:
        found = [n for n, b in self.slow.bookings.items() if b.end >= self.horizon * self.step and b.start < b.end]
        if found:
            number = found[self.draw(0, len(found) - 1, "whose")]
            b = self.slow.bookings[number]
            steps = self.draw(self.horizon, self.horizon + 20, "until")
            sooner = min(max(steps * self.step, b.start), b.end)
            shorten(self.fast, b.disk, b.start, b.end, sooner, number)
            self.slow.shorten(number, sooner)

    def compare(self) -> None:
        start = self.draw(self.horizon, self.horizon + 20, "from")
        end = (start + self.draw(0, 12, "to")) * self.step
        questions = [(total_overlap, NaiveLedger.total_overlap), (peak, NaiveLedger.peak)]
        at = start * self.step
        for disk in (0, 1):
            for fast, slow in questions:
                assert tuple(map(int, fast(self.fast, disk, at, end))) == slow(self.slow, disk, at, end)
            assert longest_overlap(self.fast, disk, at, end) == self.slow.longest_overlap(disk, at, end)
            size, duration = self.draw(1, 45, "size"), self.draw(0, 9, "for") * self.step
            found = next_free(self.fast, disk, size, at, duration)
            assert found == self.slow.next_free(disk, size, at, duration)
        self.compare_surveys(at, end)

    def compare_surveys(self, start: float, end: float) -> None:
        for at_most, slow in ((True, self.slow.peak), (False, self.slow.total_overlap)):
            taken, others = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
            survey(self.fast, start, end, at_most, taken, others)
            assert list(zip(taken.tolist(), others.tolist(), strict=True)) == [slow(d, start, end) for d in (0, 1)]
        longest = np.zeros(2)
        survey_longest(self.fast, start, end, others, longest)
        assert longest.tolist() == [self.slow.longest_overlap(d, start, end) for d in (0, 1)]


@settings(max_examples=examples(150))
@given(st.data())
def test_every_answer_is_that_of_a_list_of_bookings(data: DataObject) -> None:
    both = Both(data)
    for _ in range(both.draw(1, 6, "rounds")):
        for _ in range(both.draw(1, 8, "actions")):
            both.act()
        both.compare()


@settings(max_examples=examples(30))
@given(platforms())
def test_a_platform_is_laid_out_in_the_order_of_its_servers_nodes_and_disks(platform: Any) -> None:
    space = ledger(platform)
    assert space.disks["capacity"].tolist() == [disk.capacity for disk in platform.disks]
    assert space.disks["read_bandwidth"].tolist() == [disk.read_bandwidth for disk in platform.disks]
    assert space.nodes["capacity"].sum() == platform.capacity
    assert [platform.nodes[n].name for n in space.disks["node"]] == [n.name for n in platform.nodes for _ in n.disks]
    for server, record in zip(platform.servers, space.servers, strict=True):
        own = platform.nodes[record["first"] : record["first"] + record["nodes"]]
        assert own == server.nodes
    for node, record in zip(platform.nodes, space.nodes, strict=True):
        assert platform.disks[record["first"] : record["first"] + record["disks"]] == node.disks


def booked(*bookings: tuple[float, float, int]) -> Ledger:
    space = ledger(TWO)
    for start, end, size in bookings:
        book(space, 0, start, end, size)
    return space


def test_touching_is_not_overlapping() -> None:
    space = booked((0.0, 10.0, 7))
    assert total_overlap(space, 0, 10.0, 20.0) == (0, 0)
    assert total_overlap(space, 0, 9.0, 20.0) == (7, 1)


def test_two_that_follow_each_other_add_up_in_the_overlap_but_not_in_the_peak() -> None:
    space = booked((0.0, 10.0, 7), (10.0, 20.0, 8))
    assert total_overlap(space, 0, 0.0, 20.0) == (15, 2)
    assert peak(space, 0, 0.0, 20.0) == (8, 1)


def test_a_booking_of_no_time_holds_nothing() -> None:
    space = booked((5.0, 5.0, 40))
    assert peak(space, 0, 0.0, 20.0) == (0, 0)
    assert total_overlap(space, 0, 0.0, 20.0) == (0, 0)


def test_what_no_disk_can_hold_is_never_free() -> None:
    assert next_free(booked(), 0, 41, 0.0, 1.0) == math.inf
    assert next_free(booked((0.0, 3.0, 1)), 0, 40, 0.0, 1.0) == 3.0


@pytest.mark.parametrize("in_order", [True, False])
def test_space_taken_back_is_used_again(in_order: bool) -> None:
    space = ledger(TWO, bookings=4)
    for k in range(100):
        numbers = [book(space, 0, 5.0 + k, 9.0 + k, 3) for _ in range(4)]
        for number in numbers if in_order else reversed(numbers):
            unbook(space, 0, 5.0 + k, 9.0 + k, number)
    assert space.counters[1] == 8


def test_what_lies_before_the_horizon_makes_room_for_others() -> None:
    space = ledger(TWO, bookings=4)
    for k in range(100):
        space.horizon[0] = k
        assert total_overlap(space, 0, float(k), k + 0.5)[1] == min(k, 2)
        book(space, 0, float(k), k + 3.0, 1)
    assert space.counters[1] <= 8


def test_a_booking_cut_short_after_the_horizon_no_longer_counts_for_the_longest() -> None:
    space = booked((0.0, 100.0, 10), (25.0, 35.0, 5), (2.0, 40.0, 1))
    space.horizon[0] = 10.0
    shorten(space, 0, 0.0, 100.0, 20.0, 0)
    assert longest_overlap(space, 0, 30.0, 50.0) == 10.0
    shorten(space, 0, 2.0, 40.0, 21.0, 2)
    assert longest_overlap(space, 0, 30.0, 50.0) == 5.0
