"""Every tuner keeps the contract, and one that doesn't is told so by name."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forebay.decide.conformance.tune import check_tuner
from forebay.decide.policy import tuner
from forebay.decide.registry import policies
from forebay.decide.tune.bandit import ARMS, STEPS, counts, find_untried, means
from forebay.decide.tune.random_draws import below, largest
from forebay.model.errors import PolicyError
from forebay.model.kernels import kernel

Choose = Callable[..., Any]


@pytest.mark.parametrize("name", policies("tune"))
def test_every_registered_tuner_conforms(name: str) -> None:
    check_tuner(policies("tune")[name], learns=name != "fixed")


def explores_then_commits(bandit: Any, _: Any) -> int:
    """Ten rounds of everything, then the best."""
    arms = int(bandit[ARMS])
    return int(bandit[STEPS]) % arms if bandit[STEPS] < 10 * arms else int(np.argmax(means(bandit)))


@kernel
def any_arm(bandit: Any, chance: Any) -> int:
    """Any."""
    return below(chance, int(bandit[ARMS]))


def test_functions_kernels_and_numbers_of_numpy_will_do() -> None:
    check_tuner(tuner("mine")(explores_then_commits))
    check_tuner(tuner("mine")(any_arm), learns=False)
    check_tuner(tuner("mine")(lambda bandit, chance: np.int32(largest(means(bandit), chance))), learns=False)


def greedy(bandit: Any, chance: Any) -> int:
    arm = find_untried(bandit, chance)
    return arm if arm >= 0 else int(np.argmax(means(bandit)))


def remembers() -> Choose:
    seen: list[int] = []

    def choose(bandit: Any, _: Any) -> int:
        seen.append(1)
        return len(seen) // 97 % int(bandit[ARMS])

    return choose


def scribbles(bandit: Any, _: Any) -> int:
    means(bandit)[0] = 1.0
    return 0


def divides_by_what_was_earned(bandit: Any, _: Any) -> int:
    return int(0 / float(means(bandit).sum() + (bandit[STEPS] == 0)))


BROKEN: dict[str, Choose] = {
    r"returns arm 1; expected 0 to 0 \(1 ordered arms": lambda *_: 1,
    "returns arm -1; expected 0 to 0": lambda *_: -1,
    "returns arm 3; expected 0 to 1": lambda bandit, _: 0 if bandit[ARMS] == 1 else 3,
    "returns 0.0, which is not an int": lambda *_: 0.0,
    "returns True, which is not an int": lambda *_: True,
    "returns None, which is not an int": lambda *_: None,
    "chooses different arms": lambda bandit, _: random.randrange(int(bandit[ARMS])),
    "for the same rewards and the same chance": remembers(),
    "changes the bandit, which is read-only": scribbles,
    r"raises ZeroDivisionError \(1 ordered arms, all rewards are 0\)": divides_by_what_was_earned,
    "does not learn the best arm: chooses it in": any_arm,
    r"chooses it in 0% of the last 100 steps, expected 50% or more \(the last of": lambda *_: 0,
    "raises ValueError": lambda bandit, _: [].index(bandit),
    "does not learn": lambda bandit, _: int(np.argmax(counts(bandit))),
}


@pytest.mark.parametrize("complaint", BROKEN)
def test_a_broken_tuner_is_caught_and_told_what_it_broke(complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint) as raised:
        check_tuner(tuner("mine")(BROKEN[complaint]))
    assert str(raised.value).startswith("mine: ")


def test_one_that_says_it_forgets_must_follow_a_change() -> None:
    check_tuner(tuner("mine")(greedy))
    with pytest.raises(PolicyError, match="mine: with half_life=20, does not adapt to a new best arm"):
        check_tuner(tuner("mine", options={"half_life": 0.0})(explores_then_commits))


def test_a_placer_is_no_tuner() -> None:
    with pytest.raises(PolicyError, match="random: is of kind 'place', not 'tune'"):
        check_tuner(policies("place")["random"])
