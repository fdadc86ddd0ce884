"""Procedure 3: which targets, in three steps, against a search that looks at every window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from forebay.decide.stripe.first_target import place, start_anywhere
from forebay.decide.stripe.view import StripeView
from forebay.model.layout import Target


def view(*targets: Target, chance: float = 0.0) -> StripeView:
    return StripeView(application="app", processes=4, targets=targets, chance=chance)


def used(*users: int) -> StripeView:
    """Targets 0, 1, 2, ... with that many users."""
    return view(*(Target(index=k, users=n) for k, n in enumerate(users)))


@st.composite
def views(draw: DrawFn) -> StripeView:
    """Up to 9 targets in any order, with gaps between the indices, some unusable, with few different values."""
    indices = draw(st.lists(st.integers(0, 30), min_size=1, max_size=9, unique=True))
    targets = [
        Target(
            index=index,
            users=draw(st.sampled_from([0, 0, 1, 3])),
            busy=draw(st.sampled_from([0.0, 1e6, 2e6])),
            free_bytes=draw(st.integers(0, 2)),
            usable=draw(st.booleans()),
        )
        for index in indices
    ]
    if not any(target.usable for target in targets):
        targets.append(Target(index=31))
    return view(*targets, chance=draw(st.floats(0, 1, exclude_max=True)))


def windows(view: StripeView, count: int) -> list[list[Target]]:
    """Every row of `count` neighbours, by the index of its first; after the last comes the first."""
    ring = sorted((t for t in view.targets if t.usable), key=lambda t: t.index)
    return [[ring[(k + j) % len(ring)] for j in range(count)] for k in range(len(ring))]


def expected(view: StripeView, count: int) -> list[Target]:
    rows = windows(view, count)
    for row in rows:
        if all(t.users == 0 for t in row):
            return row
    free = [sum(t.users == 0 for t in row) for row in rows]
    if max(free) > 0:
        most = [row for row, n in zip(rows, free, strict=True) if n == max(free)]
        least = min(sum(t.busy for t in row) for row in most)
        return next(row for row in most if sum(t.busy for t in row) == least)
    emptiest = max(row[0].free_bytes for row in rows)
    return next(row for row in rows if row[0].free_bytes == emptiest)


@given(views(), st.data())
def test_a_search_over_all_windows_finds_the_same(view: StripeView, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, view.most))
    found = place(view, count)
    assert found.targets == tuple(t.index for t in expected(view, count))
    assert found.index == found.targets[0]


def test_the_first_row_of_unused_targets_that_is_long_enough_is_taken() -> None:
    found = place(used(0, 1, 0, 0, 2, 0, 0, 0), 3)
    assert found.targets == (5, 6, 7)
    assert found.because == "no running job uses these 3 targets"


def test_a_row_goes_round_the_end() -> None:
    assert place(used(0, 1, 1, 0), 2).targets == (3, 0)


def test_unusable_targets_are_skipped() -> None:
    down = Target(index=2, usable=False)
    assert place(view(Target(index=1, users=0), down, Target(index=3), Target(index=0, users=1)), 2).targets == (1, 3)


def test_with_too_few_unused_neighbours_the_row_with_most_of_them_is_taken() -> None:
    found = place(used(0, 1, 1, 0, 0, 1, 1), 3)
    assert found.targets == (2, 3, 4)  # and not 3, 4 and 5, which are no better
    assert found.because == "running jobs use 1 of these 3 targets, the fewest possible"


def test_of_equally_free_rows_the_least_busy_is_taken_and_then_the_first() -> None:
    busy = [3.0, 0.0, 2.0, 0.0, 2.0, 0.0]
    targets = [Target(index=k, users=int(b > 0), busy=b) for k, b in enumerate(busy)]
    assert place(view(*targets), 2).targets == (1, 2)


def test_the_first_unused_row_is_taken_however_busy_it_was_seen() -> None:
    assert place(view(Target(index=0, busy=9e9), Target(index=1)), 1).index == 0


def test_when_every_target_is_in_use_the_one_with_most_free_space_comes_first() -> None:
    free = [5, 9, 9, 1]
    found = place(view(*(Target(index=k, users=1 + k, free_bytes=n * 10**12) for k, n in enumerate(free))), 4)
    assert found.targets == (1, 2, 3, 0)
    assert found.because == "running jobs use every target, and target 1 has the most free space, 9.00 TB"


@given(views(), st.data())
def test_chance_reaches_every_usable_target(view: StripeView, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, view.most))
    found = start_anywhere(view, count)
    assert list(found.targets) == [t.index for t in windows(view, count)[int(view.chance * view.most)]]
    assert found.because == f"target {found.index} was chosen at random as the first"


@pytest.mark.parametrize("count", [0, 3])
def test_a_count_that_does_not_fit_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"cannot use {count} stripes; use 1 to 2"):
        place(used(0, 0), count)
    with pytest.raises(ValueError, match=f"cannot use {count} stripes; use 1 to 2"):
        start_anywhere(used(0, 0), count)


def test_ten_thousand_targets_are_looked_at_once() -> None:
    looked: list[int] = []

    class Watched(Target):
        __slots__ = ()

        def __getattribute__(self, name: str) -> object:
            if name == "users":
                looked.append(1)
            return super().__getattribute__(name)

    targets = tuple(Watched(index=k, users=k % 2) for k in range(10_000))
    looked.clear()  # making them looks at them
    place(view(*targets), 5_000)
    assert len(looked) == 10_000
