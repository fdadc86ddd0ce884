"""Rings and tournaments of times in their cells, against Python's own."""

import heapq
from collections import deque

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forebay.simulate import tournament
from forebay.simulate.requests.engine import NEVER, append, earliest, first, foremost, new_rings, remove

STEPS = st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=60)
AT = 1  # which of the rings


@given(st.integers(1, 9), STEPS)
def test_a_line_lets_out_in_the_order_of_coming(size: int, steps: list[int | None]) -> None:
    (rings, cells), expected = new_rings(3, size), deque[tuple[int, int]]()
    for thing, time in enumerate(steps):
        if time is not None and len(expected) < size:
            expected.append((time, thing))
            assert append(rings, cells, AT, time, thing) == expected[0][0]
        elif time is None and expected:
            assert foremost(rings, cells, AT) == expected[0][1]
            assert remove(rings, cells, AT) == expected.popleft()[1]
        assert first(rings, cells, AT) == (expected[0][0] if expected else NEVER)


@given(STEPS)
def test_a_tournament_lets_out_the_earliest_and_of_equal_ones_the_lowest(steps: list[int | None]) -> None:
    (_, cells), expected = new_rings(3, 2 * 60), list[tuple[int, int]]()
    times, size = cells["time"][AT], cells.shape[1] // 2
    times[:] = NEVER

    def pop() -> int:
        thing = tournament.first(times, 0, size)
        tournament.put(times, 0, size, thing, NEVER)
        return int(thing)

    for thing, time in enumerate(steps):
        if time is not None:
            heapq.heappush(expected, (time, thing))
            tournament.put(times, 0, size, thing, time)
            assert times[1] == expected[0][0]
        elif expected:
            assert pop() == heapq.heappop(expected)[1]
    assert [pop() for _ in range(len(expected))] == [thing for _, thing in sorted(expected)]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_of_equal_times_the_first_is_the_earliest(times: list[int]) -> None:
    assert earliest(np.array(times, dtype=np.int64)) == times.index(min(times))
