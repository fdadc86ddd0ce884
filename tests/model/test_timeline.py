"""Timelines: a search tree and a heap at once, in which every event knows of all below it."""

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.model.timeline import earliest, erase, events, find, insert, paths
from forebay.model.timeline_queries import changes, first_beyond, highest, last_end, latest_end, longest_within
from support.examples import examples

BOOKINGS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 15), st.integers(1, 9)), min_size=1, max_size=25)
Event = tuple[float, bool, int, int, float]  # time, begins, serial, size, the booking's other time


class Timeline:
    """A tree, and the same events as a sorted list: at one time ends first, then in the order of booking."""

    def __init__(self, bookings: list[tuple[int, int, int]]) -> None:
        self.tree, self.path, self.root = events(2 * len(bookings)), paths(), 0
        self.list: list[Event] = []
        for serial, (start, duration, size) in enumerate(bookings):
            times = (float(start), float(start + duration))
            self.put(2 * serial + 1, (times[0], True, serial, size, times[1]))
            self.put(2 * serial + 2, (times[1], False, serial, -size, times[0]))

    def put(self, slot: int, event: Event) -> None:
        record = self.tree[slot]
        record["time"], _, record["serial"], record["size"], record["end"] = event
        self.root = insert(self.tree, self.root, slot, self.path)
        self.list = sorted([*self.list, event])

    def take(self, event: Event) -> None:
        slot = find(self.tree, self.root, event[0], event[1], event[2])
        assert slot != 0
        self.root = erase(self.tree, self.root, slot, self.path)
        self.list.remove(event)

    def sums(self) -> list[tuple[float, int, int]]:
        """(time, size, bookings) after every event."""
        size = live = 0
        found = []
        for time, begins, _, change, _ in self.list:
            size += change
            live += 1 if begins else -1
            found.append((time, size, live))
        return found

    def in_order(self, at: int) -> list[Any]:
        """The tree's events from left to right; checks all that each knows."""
        if at == 0:
            return []
        node = self.tree[at]
        left, right = self.in_order(node["left"]), self.in_order(node["right"])
        for child in (node["left"], node["right"]):
            assert child == 0 or self.tree[child]["priority"] <= node["priority"]
        own = [*left, node, *right]
        sizes = np.array([n["size"] for n in own])
        lives = np.where(sizes > 0, 1, -1)
        starts = [n for n in own if n["size"] > 0]
        assert (node["sum"], node["live"]) == (sizes.sum(), lives.sum())
        assert (node["plus"], node["starts"]) == (sizes[sizes > 0].sum(), len(starts))
        assert (node["high"], node["low"]) == (sizes.cumsum().max(), sizes.cumsum().min())
        assert node["crowd"] == lives.cumsum().max()
        if starts:
            assert node["latest"] == max(n["end"] for n in starts)
            assert node["longest"] == max(n["end"] - n["time"] for n in starts)
        return own


@settings(max_examples=examples(60))
@given(BOOKINGS, st.data())
def test_the_order_holds_and_every_event_knows_its_subtree_whatever_comes_and_goes(
    bookings: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    line = Timeline(bookings)
    for gone in data.draw(st.sets(st.integers(0, len(bookings) - 1))):
        for event in [e for e in line.list if e[2] == gone]:
            line.take(event)
    found = [(n["time"], n["size"] > 0, n["serial"], n["size"], n["end"]) for n in line.in_order(line.root)]
    assert found == line.list
    first = earliest(line.tree, line.root)
    assert (first == 0) if not found else (line.tree[first]["time"] == found[0][0])


@settings(max_examples=examples(150))
@given(BOOKINGS, st.integers(-1, 46), st.integers(0, 20), st.integers(-2, 60))
def test_every_question_is_answered_as_by_the_list(
    bookings: list[tuple[int, int, int]], after: int, length: int, limit: int
) -> None:
    line = Timeline(bookings)
    before = float(after + length)
    sums = line.sums()
    for inclusive in (True, False):
        until = [e for e in line.list if e[0] < after or (inclusive and e[0] == after)]
        begun = [e[3] for e in until if e[1]]
        expected = (sum(e[3] for e in until), 2 * len(begun) - len(until), sum(begun), len(begun))
        assert changes(line.tree, line.root, float(after), inclusive) == expected
    within = [(size, live) for time, size, live in sums if after < time < before]
    most, crowd = highest(line.tree, line.root, float(after), before)
    if within:
        assert (most, crowd) == (max(size for size, _ in within), max(live for _, live in within))
    else:
        assert most < -(2**60)
        assert crowd < -(2**28)
    for above in (True, False):
        times = [time for time, size, _ in sums if time > after and (size > limit) == above]
        found = first_beyond(line.tree, line.root, float(after), limit, above, line.path)
        assert found == (times[0] if times else math.inf)
    latest = [e[4] for e in line.list if e[1] and e[0] <= after]
    assert max(after, latest_end(line.tree, line.root, float(after))) == max([after, *latest])
    longest = [min(e[4], before) - e[0] for e in line.list if e[1] and after < e[0] < before]
    assert max(0, longest_within(line.tree, line.root, float(after), before)) == max([0, *longest])
    started = [e[0] for e in line.list if not e[1] and e[4] <= after]
    assert last_end(line.tree, line.root, float(after), line.path) == max(started, default=-math.inf)


def test_what_is_not_there_is_not_found() -> None:
    line = Timeline([(0, 5, 1), (0, 5, 2)])
    assert find(line.tree, line.root, 0.0, True, 1) == 3
    for time, begins, serial in ((0.0, True, 2), (0.0, False, 0), (1.0, True, 0), (5.0, True, 1)):
        assert find(line.tree, line.root, time, begins, serial) == 0


def test_the_tree_stays_shallow_when_events_come_in_order() -> None:
    count = 4000
    line = Timeline([])
    line.tree = events(count)
    for k in range(count):
        record = line.tree[k + 1]
        record["time"], record["serial"], record["size"], record["end"] = k, k, 1, k + 1
        line.root = insert(line.tree, line.root, k + 1, line.path)
    depth, level = 0, [line.root]
    while level:
        depth += 1
        level = [child for at in level for child in line.tree[at][["left", "right"]].item() if child]
    assert depth < 4 * math.log2(count)
