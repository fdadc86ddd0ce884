"""How many and which, together; and what a broken policy is told."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.decide.place import choose_targets
from forebay.decide.policy import allocator, placer
from forebay.decide.registry import find, policies
from forebay.decide.view import View
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Allocation, Never
from forebay.model.errors import PolicyError
from forebay.model.system import System
from support.examples import examples
from support.strategies import views

CURVE = Curve.of({1: 1.0, 2: 2.0})
APPLICATION = Application(name="ior", compute_nodes=1, phases=1, compute_seconds=1, volume=1, curve=CURVE)
VIEW = View(System(targets=3, compute_nodes=2), (APPLICATION, APPLICATION))
ROUND_ROBIN = find("place", "greedy-non-clairvoyant")


def gives(answer: Any) -> Any:
    return allocator("mine")(lambda _: answer)


def places(answer: Any) -> Any:
    return placer("mine")(lambda _view, _counts: answer)


def test_the_allocation_is_placed() -> None:
    assert choose_targets(VIEW, gives(Allocation((1, 2))), ROUND_ROBIN) == ((2,), (0, 1))


def test_an_allocation_that_says_which_is_not_placed_again() -> None:
    fixed = Allocation((1, 1), ((2,), (2,)))
    assert choose_targets(VIEW, gives(fixed), ROUND_ROBIN) == ((2,), (2,))


def test_a_refusal_is_handed_on() -> None:
    assert choose_targets(VIEW, gives(Never(because="no")), ROUND_ROBIN) == Never(because="no")


def test_the_allocator_is_told_which_placement_will_follow() -> None:
    seen: list[object] = []

    def allocate(view: View) -> Allocation:
        seen.append(view.place)
        return Allocation((1, 1))

    choose_targets(VIEW, allocator("mine")(allocate), ROUND_ROBIN)
    assert seen == [ROUND_ROBIN.decide]


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ((1,), "mine: returns 1 counts for 2 applications"),
        ((1, 1, 1), "mine: returns 3 counts for 2 applications"),
        ((1, 0), "mine: gives ior 0 targets, which its curve excludes"),
        ((1, 3), "mine: gives ior 3 targets, which its curve excludes"),
    ],
)
def test_an_impossible_allocation_is_the_policys_fault(counts: tuple[int, ...], reason: str) -> None:
    with pytest.raises(PolicyError, match=reason):
        choose_targets(VIEW, gives(Allocation(counts)), ROUND_ROBIN)


@pytest.mark.parametrize(
    "placement", [((0,), (1,)), ((0,), (1, 1)), ((0,), (1, 3)), ((0,), (-1, 0)), ((0,), (0, 1, 2))]
)
def test_an_impossible_placement_is_the_policys_fault(placement: Any) -> None:
    with pytest.raises(PolicyError, match="mine: ior needs 2 different targets"):
        choose_targets(VIEW, gives(Allocation((1, 2))), places(placement))


@pytest.mark.parametrize("placement", [(), ((0,),), ((0,), (0, 1), (1,))])
def test_a_placement_of_too_few_or_too_many_is_the_policys_fault(placement: Any) -> None:
    with pytest.raises(PolicyError, match="mine"):
        choose_targets(VIEW, gives(Allocation((1, 2))), places(placement))


def test_an_allocator_that_also_places_is_itself_blamed_for_its_placement() -> None:
    broken = allocator("both")(lambda _: Allocation((1, 1), ((0,), (9,))))
    with pytest.raises(PolicyError, match="both: ior needs 1 different targets"):
        choose_targets(VIEW, broken, ROUND_ROBIN)


@pytest.mark.parametrize("answer", [None, (1, 2), [1, 2]])
def test_an_answer_that_is_no_decision_is_the_policys_fault(answer: Any) -> None:
    with pytest.raises(PolicyError, match="mine"):
        choose_targets(VIEW, gives(answer), ROUND_ROBIN)


@settings(max_examples=examples(60))
@given(views(most=4, targets=6), st.sampled_from(sorted(policies("place"))))
def test_any_two_built_in_policies_go_together(view: View, place: str) -> None:
    for name, allocate in policies("allocate").items():
        if not allocate.simulates and name != "forebay":
            choose_targets(replace(view, rng=np.random.default_rng(1)), allocate, find("place", place))
