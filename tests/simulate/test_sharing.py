"""One resource, equal shares: arrivals and departures against shares counted anew every time."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.simulate.sharing import arrive, depart, next_finish, resources


class Shared:
    """The first of some resources, with flows in its seats."""

    def __init__(self, seats: int) -> None:
        self.resources, self.marks = resources([seats, 3])

    @property
    def state(self) -> np.ndarray:
        return self.resources[0]

    def next(self) -> float:
        return float(next_finish(self.state, self.marks))

    def arrive(self, seat: int, work: float, now: float) -> None:
        arrive(self.state, self.marks, seat, work, now)

    def depart(self) -> int:
        return int(depart(self.state, self.marks, self.marks.view(np.int64), self.next()))


def test_alone_a_flow_takes_its_work() -> None:
    shared = Shared(2)
    shared.arrive(0, 5.0, 10.0)
    assert shared.next() == 15.0
    assert shared.depart() == 0
    assert shared.next() == np.inf
    assert shared.state["busy"] == 5.0


def test_two_flows_take_turns_and_the_rest_has_all() -> None:
    shared = Shared(2)
    shared.arrive(0, 4.0, 0.0)
    shared.arrive(1, 1.0, 2.0)  # 2 left of the other one
    assert shared.next() == 4.0
    assert shared.depart() == 1
    assert shared.next() == 5.0


def test_of_flows_that_end_together_the_lowest_seat_leaves_first() -> None:
    shared = Shared(3)
    for seat in (2, 0, 1):
        shared.arrive(seat, 1.0, 0.0)
    assert [shared.depart() for _ in range(3)] == [0, 1, 2]
    assert shared.state["busy"] == 3.0


def test_a_flow_without_work_is_gone_at_once_and_delays_nobody() -> None:
    shared = Shared(2)
    shared.arrive(1, 2.0, 0.0)
    shared.arrive(0, 0.0, 1.0)
    assert (shared.next(), shared.depart()) == (1.0, 0)
    assert shared.next() == 2.0


def naive(arrivals: list[tuple[Fraction, Fraction]]) -> tuple[list[Fraction], Fraction]:
    """When each (time, work) is finished, and how long the resource was busy."""
    ends: dict[int, Fraction] = {}
    left: dict[int, Fraction] = {}
    now = busy = Fraction(0)
    waiting = sorted(range(len(arrivals)), key=lambda i: arrivals[i][0])
    while waiting or left:
        to_arrival = arrivals[waiting[0]][0] - now if waiting else None
        to_finish = min(left.values()) * len(left) if left else None
        step = min(s for s in (to_arrival, to_finish) if s is not None)
        now += step
        busy += step if left else 0
        left = {i: work - step / len(left) for i, work in left.items()}
        ends |= {i: now for i, work in left.items() if work == 0}
        left = {i: work for i, work in left.items() if work > 0}
        while waiting and arrivals[waiting[0]][0] == now:
            i = waiting.pop(0)
            left[i] = arrivals[i][1]
    return [ends[i] for i in range(len(arrivals))], busy


@given(
    st.lists(st.tuples(st.fractions(0, 20, max_denominator=4), st.fractions(0.25, 9, max_denominator=4)), max_size=9)
)
def test_any_flows_end_when_shares_counted_anew_say(arrivals: list[tuple[Fraction, Fraction]]) -> None:
    shared = Shared(max(1, len(arrivals)))
    ends: dict[int, float] = {}

    def finish_until(now: float) -> None:
        while shared.next() <= now < np.inf or (now == np.inf and shared.next() < np.inf):
            at = shared.next()
            ends[shared.depart()] = at

    for seat in sorted(range(len(arrivals)), key=lambda i: arrivals[i][0]):
        finish_until(float(arrivals[seat][0]))
        shared.arrive(seat, float(arrivals[seat][1]), float(arrivals[seat][0]))
    finish_until(np.inf)
    expected, busy = naive(arrivals)
    assert [ends[i] for i in range(len(arrivals))] == pytest.approx([float(e) for e in expected], rel=1e-12)
    assert shared.state["busy"] == pytest.approx(float(busy), rel=1e-12)
