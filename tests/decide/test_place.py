"""Which targets: hand-made cases, and slow, obvious answers for any."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forebay.decide.registry import find
from forebay.decide.view import View
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Placement
from forebay.model.system import System
from support import oracles
from support.strategies import counts_for, views


def with_ratios(targets: int, *ratios: float) -> View:
    """Applications on one to four targets with these shares of I/O, whatever the number."""
    flat = Curve.of(dict.fromkeys(range(1, 5), 1.0))
    applications = (
        Application(name=str(r), compute_nodes=1.0, phases=1, compute_seconds=1 - r, volume=r, curve=flat)
        for r in ratios
    )
    return View(System(targets=targets, compute_nodes=9), tuple(applications))


def placed(name: str, view: View, counts: tuple[int, ...]) -> Placement:
    placement: Placement = find("place", name).decide(view, counts)
    return placement


def test_without_clairvoyance_most_targets_come_first_round_robin() -> None:
    view = with_ratios(4, 0.1, 0.9, 0.5, 0.5)
    assert placed("greedy-non-clairvoyant", view, (1, 3, 2, 3)) == ((0,), (0, 1, 2), (2, 3), (0, 1, 3))


def test_without_clairvoyance_equals_keep_their_order() -> None:
    assert placed("greedy-non-clairvoyant", with_ratios(3, 0.1, 0.9, 0.5), (1, 1, 1)) == ((0,), (1,), (2,))


def test_with_clairvoyance_most_io_comes_first_on_the_least_occupied_targets() -> None:
    # 0.75 on 0 and 1; 0.5 on 2; 0.25 on 2, which then has 0.75 as the others.
    view = with_ratios(3, 0.25, 0.75, 0.5)
    assert placed("greedy-clairvoyant", view, (1, 2, 1)) == ((2,), (0, 1), (2,))


def test_with_clairvoyance_ties_go_to_the_first_application_and_the_lowest_target() -> None:
    assert placed("greedy-clairvoyant", with_ratios(3, *[0.5] * 4), (1, 1, 1, 2)) == ((0,), (1,), (2,), (0, 1))


@given(st.data())
def test_both_greedy_placers_are_what_the_paper_says(data: st.DataObject) -> None:
    view = data.draw(views())
    counts = data.draw(counts_for(view))
    targets = view.system.targets
    assert placed("greedy-non-clairvoyant", view, counts) == oracles.greedy_non_clairvoyant(targets, counts)
    expected = oracles.greedy_clairvoyant(view.applications, targets, counts)
    assert placed("greedy-clairvoyant", view, counts) == expected


@given(st.data())
def test_without_clairvoyance_no_target_has_two_applications_more_than_another(data: st.DataObject) -> None:
    view = data.draw(views())
    placement = placed("greedy-non-clairvoyant", view, data.draw(counts_for(view)))
    users = np.bincount([t for own in placement for t in own], minlength=view.system.targets)
    assert users.max() - users.min() <= 1


@given(st.data(), st.integers(0, 2**32))
def test_random_takes_different_targets_and_follows_its_generator(data: st.DataObject, seed: int) -> None:
    view = data.draw(views())
    counts = data.draw(counts_for(view))
    one, other = (placed("random", replace(view, rng=np.random.default_rng(seed)), counts) for _ in range(2))
    assert one == other
    for own, n in zip(one, counts, strict=True):
        assert len(set(own)) == len(own) == n
        assert all(0 <= t < view.system.targets for t in own)


def test_random_takes_every_target_as_often() -> None:
    view = replace(with_ratios(5, *[0.5] * 2000), rng=np.random.default_rng(1))
    users = np.bincount([t for own in placed("random", view, (2,) * 2000) for t in own])
    assert np.abs(users - 800).max() < 4.5 * 22
