"""What an I/O node sees, against sums made anew from the list of everything that happened."""

from dataclasses import dataclass, fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.model.observation import Observation
from forebay.profile.request_watch import TALLY, end_period, finish, forget, new_watch, observe

FILES = 4
SECOND = 1_000_000_000


@dataclass(frozen=True)
class Request:
    wait: int
    file: int
    offset: int
    size: int
    write: int


requests = st.builds(
    Request,
    wait=st.integers(0, 1000),
    file=st.integers(0, FILES - 1),
    offset=st.integers(0, 2**50),
    size=st.integers(0, 2**24),
    write=st.integers(0, 1),
)
answers = st.integers(0, 1000)  # the time until one of the requests that are there is answered
periods = st.lists(st.lists(st.one_of(requests, answers), max_size=12), min_size=1, max_size=4)


class Naive:
    """Keeps every event of the period and adds up at its end."""

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}
        self.extents: dict[int, tuple[int, int]] = {}
        self.here = 0

    def period(self, events: list[Request | int], length: int) -> dict[str, float]:
        seen = [e for e in events if isinstance(e, Request)]
        distances = [(r.file, d) for r in seen if (d := self._distance(r)) is not None]
        shares = [d / max(self.extents[f][1] - self.extents[f][0], 1) for f, d in distances]
        load, busy = self._presence(events, length)
        return {
            "files": len({r.file for r in seen}),
            "reads": sum(not r.write for r in seen),
            "writes": sum(r.write for r in seen),
            "bytes_read": sum(r.size for r in seen if not r.write),
            "bytes_written": sum(r.size for r in seen if r.write),
            "smallest": min((r.size for r in seen), default=0),
            "mean": sum(r.size for r in seen) / max(len(seen), 1),
            "largest": max((r.size for r in seen), default=0),
            "distance": sum(d for _, d in distances) / max(len(distances), 1),
            "spread": sum(shares) / max(len(distances), 1),
            "load": load / max(length, 1),
            "busy": busy / max(length, 1),
        }

    def _distance(self, request: Request) -> int | None:
        end, last = self.ends.get(request.file), request.offset + request.size
        low, high = self.extents.get(request.file, (request.offset, last))
        self.extents[request.file] = min(low, request.offset), max(high, last)
        self.ends[request.file] = last
        return None if end is None else abs(request.offset - end)

    def _presence(self, events: list[Request | int], length: int) -> tuple[int, int]:
        """For every nanosecond how many were there, summed; and the nanoseconds with any."""
        there: list[int] = []
        for event in events:
            there += [self.here] * (event.wait if isinstance(event, Request) else event)
            self.here = max(self.here + (1 if isinstance(event, Request) else -1), 0)
        there += [self.here] * (length - len(there))
        return sum(there), sum(n > 0 for n in there)


def feed(watch: np.ndarray, now: int, events: list[Request | int]) -> int:
    for event in events:
        now += event.wait if isinstance(event, Request) else event
        if isinstance(event, Request):
            observe(watch, now, event.file, event.offset, event.size, event.write)
        else:
            finish(watch, now)
    return now


@given(periods, st.integers(0, 2**60), st.integers(0, 500))
def test_every_period_is_what_its_events_add_up_to(
    all_events: list[list[Request | int]], start: int, rest: int
) -> None:
    watch, naive, began = new_watch(FILES, start), Naive(), start
    for events in all_events:
        end = feed(watch, began, events) + rest
        found = end_period(watch, end)
        assert {name: getattr(found, name) for name in TALLY} == pytest.approx(naive.period(events, end - began))
        assert found.seconds == max(end - began, 1) / 1e9
        began = end


def test_a_tally_has_names_of_what_is_observed() -> None:
    assert set(TALLY) <= {f.name for f in fields(Observation)}


def test_a_period_without_requests_is_all_zeros() -> None:
    assert end_period(new_watch(FILES), SECOND) == Observation(seconds=1.0)


def test_what_the_caller_knows_is_passed_on() -> None:
    found = end_period(new_watch(FILES), SECOND, depths=[3, 0], clients=2, processes=8)
    assert (found.depths, found.clients, found.processes) == ((3, 0), 2, 8)


def test_contiguous_requests_of_one_process_have_no_distance() -> None:
    watch = new_watch(FILES)
    for i in range(5):
        observe(watch, i, 0, i * 100, 100, 1)
    found = end_period(watch, SECOND)
    assert (found.distance, found.spread) == (0.0, 0.0)


@given(st.integers(1, 2**20))
def test_the_spread_does_not_depend_on_the_size_of_files(factor: int) -> None:
    def spread(scale: int) -> float:
        watch = new_watch(FILES)
        for offset in (0, 700, 300, 900):
            observe(watch, 0, 1, offset * scale, 50 * scale, 0)
        return end_period(watch, SECOND).spread

    assert spread(factor) == pytest.approx(spread(1))


def test_a_request_is_compared_with_the_last_of_the_period_before() -> None:
    watch = new_watch(FILES)
    observe(watch, 0, 2, 0, 100, 0)
    end_period(watch, SECOND)
    observe(watch, SECOND, 2, 150, 100, 0)
    assert end_period(watch, 2 * SECOND).distance == 50.0


def test_a_forgotten_file_begins_anew() -> None:
    watch = new_watch(FILES)
    observe(watch, 0, 2, 0, 100, 0)
    forget(watch, 2)
    observe(watch, 1, 2, 5000, 100, 0)
    found = end_period(watch, SECOND)
    assert (found.files, found.distance) == (1, 0.0)


def test_distances_of_a_sparse_file_do_not_turn_negative() -> None:
    watch = new_watch(FILES)
    for offset in (0, 2**62, 0, 2**62):
        observe(watch, 0, 0, offset, 100, 0)
    found = end_period(watch, SECOND)
    assert found.distance > 2**60
    assert found.spread > 0.3


def test_requests_that_stay_count_in_the_next_period() -> None:
    watch = new_watch(FILES)
    observe(watch, 0, 0, 0, 100, 0)
    end_period(watch, SECOND)
    finish(watch, SECOND + SECOND // 4)
    found = end_period(watch, 2 * SECOND)
    assert (found.load, found.busy, found.requests) == (0.25, 0.25, 0)
