"""What each built-in tuner does."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.decide.policy import Policy, tuner
from forebay.decide.registry import find, policies
from forebay.decide.tune.bandit import OPTIONS, counts, learn, means, priors
from forebay.decide.tune.random_draws import normal, uniform
from forebay.decide.tune.tuners import DEFAULT, OTHER, TUNERS, _factor, bandit_for, choose, number, pick
from forebay.model.errors import BadInput, PolicyError, UnknownName
from forebay.model.kernels import kernel
from forebay.model.random_numbers import seed_state
from support.lessons import regret

WINDOWS = 7


def taken(policy: Policy, bandit: Any, times: int = 2000) -> Any:
    """How often each arm, of nothing else being learned."""
    chance = seed_state(5)
    return np.bincount([pick(policy, bandit, chance) for _ in range(times)], minlength=int(bandit[0])) / times


def told(policy: Policy, *rewards: tuple[int, float], arms: int = 3, ordered: bool = False) -> Any:
    bandit = bandit_for(policy, arms, ordered=ordered)
    for arm, reward in rewards:
        learn(bandit, arm, reward)
    return bandit


def test_all_are_registered_and_known_by_number() -> None:
    assert set(policies("tune")) >= {policy.name for policy in TUNERS} and DEFAULT in policies("tune")
    assert [number(policy) for policy in TUNERS] == list(range(len(TUNERS)))
    assert number(find("tune", "epsilon-greedy:epsilon=0.3:half_life=50")) == 0


@pytest.mark.parametrize("policy", TUNERS, ids=lambda policy: policy.name)
def test_the_kernel_by_number_and_the_tuner_itself_are_one(policy: Policy) -> None:
    bandit = told(policy, (0, 5.0), (1, 6.0), (2, 5.5), (1, 4.0))
    one, other = seed_state(1), seed_state(1)
    assert [choose(number(policy), bandit, one) for _ in range(50)] == [policy.decide(bandit, other) for _ in range(50)]


def test_epsilon_greedy_explores_every_arm_with_probability_epsilon() -> None:
    policy = find("tune", "epsilon-greedy:epsilon=0.3")
    assert taken(policy, told(policy, (1, 1.0))) == pytest.approx([0.1, 0.8, 0.1], abs=0.03)


def test_epsilon_greedy_without_epsilon_stays_with_the_first_arm_that_earned_something() -> None:
    policy = find("tune", "epsilon-greedy:epsilon=0")
    assert taken(policy, told(policy, (2, 1e-9))).tolist() == [0, 0, 1]


def test_estimates_start_at_zero_and_ties_are_broken_by_chance() -> None:
    policy = find("tune", "epsilon-greedy:epsilon=0")
    assert taken(policy, told(policy)) == pytest.approx([1 / 3] * 3, abs=0.04)
    assert taken(policy, told(policy, (0, 1.0), (2, 1.0))) == pytest.approx([0.5, 0, 0.5], abs=0.04)


def test_epsilon_decreases_by_half_and_not_below_its_least() -> None:
    policy = find("tune", "epsilon-decreasing:epsilon=0.8:halving=10:least=0.1")
    for rewards, epsilon in ((10, 0.4), (20, 0.2), (200, 0.1)):
        others = taken(policy, told(policy, *[(0, 1.0)] * rewards))[1:].sum()
        assert others == pytest.approx(epsilon * 2 / 3, abs=0.03)


def test_ucb_takes_what_was_tried_least_among_equals_and_every_arm_first() -> None:
    policy = find("tune", "ucb")
    even = [(arm, reward) for arm in (0, 1) for reward in (9.0, 11.0)]
    assert taken(policy, told(policy, *even))[2] == 1
    assert taken(policy, told(policy, *even, (2, 10.0))).tolist() == [0, 0, 1]


def test_wider_ucb_explores_more() -> None:
    rewards = [(0, 10.0 + step % 2) for step in range(40)] + [(1, 9.5), (1, 9.7), (2, 1.0), (2, 1.2)]
    narrow, wide = find("tune", "ucb:width=0.01"), find("tune", "ucb:width=2")
    assert taken(narrow, told(narrow, *rewards)).tolist() == [1, 0, 0]
    assert taken(wide, told(wide, *rewards)).tolist() == [0, 1, 0]


def test_thompson_takes_arms_as_often_as_they_may_be_best() -> None:
    policy = find("tune", "thompson")
    even = [(arm, reward) for arm in range(3) for reward in (9.0, 11.0) * 10]
    assert taken(policy, told(policy, *even)) == pytest.approx([1 / 3] * 3, abs=0.04)
    assert taken(policy, told(policy, *even, *[(0, 15.0)] * 10))[0] > 0.99


@pytest.mark.parametrize("arm", [0, 2])
def test_fixed_is_fixed(arm: int) -> None:
    policy = find("tune", f"fixed:arm={arm}")
    assert taken(policy, told(policy, (1, 5.0)))[arm] == 1


def test_forebay_tries_every_value_once() -> None:
    policy, chance = find("tune", "forebay"), seed_state(2)
    bandit = told(policy, arms=WINDOWS, ordered=True)
    for _ in range(WINDOWS):
        learn(bandit, pick(policy, bandit, chance), 5e8)
    assert counts(bandit) == pytest.approx([1.0] * WINDOWS, abs=0.01)


def test_forebay_lets_neighbours_speak_for_each_other_if_they_have_an_order() -> None:
    policy = find("tune", "forebay")
    rising = [(arm, 10.0 + arm + noise) for arm in range(WINDOWS) for noise in (-4.0, 4.0)]
    ordered = taken(policy, told(policy, *rising, arms=WINDOWS, ordered=True))
    names = taken(policy, told(policy, *rising, arms=WINDOWS))
    # That all rise is seen together where noise hides it in each.
    assert ordered[-1] > names[-1] + 0.05


def test_forebay_tries_first_what_is_expected_to_be_best() -> None:
    policy = find("tune", "forebay")
    bandit = told(policy, arms=WINDOWS, ordered=True)
    priors(bandit)[:] = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 0.9]
    assert taken(policy, bandit)[5] == 1
    learn(bandit, 5, 5e8)
    assert taken(policy, bandit)[[4, 6]] == pytest.approx([0.5, 0.5], abs=0.05)


@pytest.mark.parametrize("unit", [1e-60, 1.0, 1e60])
def test_the_unit_of_rewards_makes_no_difference(unit: float) -> None:
    for policy in TUNERS:
        rewards = [(arm, (10.0 + arm + step % 3) * unit) for step in range(5) for arm in range(3)]
        plain = told(policy, *[(arm, reward / unit) for arm, reward in rewards])
        assert taken(policy, told(policy, *rewards)) == pytest.approx(taken(policy, plain), abs=0.01), policy.name


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("epsilon-greedy:epsilon=1.5", "epsilon must be from 0 to 1, not 1.5"),
        ("epsilon-greedy:epsilon=nan", "epsilon must be a number, not nan"),
        ("epsilon-decreasing:halving=0", "halving must be from 1e-09 to inf, not 0"),
        ("fixed:arm=3", "arm must be from 0 to 2, not 3"),
        ("ucb:width=-1", "width must be from 0 to inf, not -1"),
        ("thompson:half_life=-2", "half_life must be 0"),
    ],
)
def test_impossible_options_are_refused(spec: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        bandit_for(find("tune", spec), 3)


def test_unknown_options_suggest_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'epsilon'"):
        find("tune", "epsilon-greedy:epsilonn=0.1")


def test_a_tuner_of_somebody_else_is_asked_and_checked() -> None:
    mine = tuner("mine", options={"arm": 1})(lambda bandit, _: int(bandit[OPTIONS]))
    bandit = bandit_for(mine, 2)
    assert number(mine) == OTHER and pick(mine, bandit, seed_state(0)) == 1
    with pytest.raises(PolicyError, match="mine: returns 2, which is not an int from 0 to 1"):
        pick(tuner("mine")(lambda *_: 2), bandit, seed_state(0))
    with pytest.raises(BadInput, match="shape must be a number, not 'round'"):
        bandit_for(tuner("mine", options={"shape": "round"})(lambda *_: 2), 2)


@given(st.lists(st.floats(-1, 1), min_size=9, max_size=9), st.floats(0, 1))
def test_a_factor_gives_its_covariance_back(numbers: list[float], noise: float) -> None:
    root = np.array(numbers).reshape(3, 3)
    covariance = root @ root.T + noise * np.eye(3)
    factor = _factor(covariance)
    assert factor == pytest.approx(np.tril(factor)) and factor @ factor.T == pytest.approx(covariance, abs=1e-6)
    if noise > 0.01:
        assert factor == pytest.approx(np.linalg.cholesky(covariance))


def test_what_is_known_for_certain_is_no_trouble() -> None:
    policy = find("tune", "forebay:half_life=0")
    bandit = told(policy, *[(arm, 5e8 + arm) for arm in range(WINDOWS) for _ in range(3)], arms=WINDOWS, ordered=True)
    counts(bandit)[:] = 1e15
    assert taken(policy, bandit).sum() == pytest.approx(1)


SHAPES = {
    "rising": np.linspace(1.12, 1.29, WINDOWS),
    "peak": 1.23 - 0.02 * (np.arange(WINDOWS) - 3) ** 2,
    "falling": 1 - np.linspace(0, 0.55, WINDOWS),
    "nearly flat": np.linspace(1.02, 1.07, WINDOWS),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("noise", [0.01, 0.02])
def test_forebay_regrets_at_most_half_of_what_epsilon_greedy_does(shape: str, noise: float) -> None:
    levels = 1e8 * SHAPES[shape]
    ours, paper = (regret(find("tune", name), levels, noise, steps=200) for name in (DEFAULT, "epsilon-greedy"))
    assert ours <= 0.5 * paper


@pytest.mark.parametrize("noise", [0.05, 0.2, 0.5])
def test_forebay_does_as_well_as_thompson_where_the_order_means_nothing(noise: float) -> None:
    ragged = np.array([1.0, 0.6, 1.1, 0.5, 0.9, 1.3, 0.7]) * 3e9
    for ordered in (True, False):
        # Now and then either stays with a wrong value for long, so that a few seeds tell nothing.
        ours = regret(find("tune", "forebay"), ragged, noise, steps=400, ordered=ordered, seeds=60)
        assert ours <= 1.2 * regret(find("tune", "thompson"), ragged, noise, steps=400, seeds=60) + 1.0


FORGETTING = [policy.name for policy in TUNERS if policy.name != "fixed"]


@pytest.mark.parametrize("name", FORGETTING)
def test_a_change_of_the_best_arm_is_followed_with_a_half_life(name: str) -> None:
    before = 1e8 * np.array([2.0, 1.8, 1.6, 1.4, 1.2, 1.0, 0.8])
    forgets, keeps = (find("tune", spec) for spec in (f"{name}:half_life=30", name))
    after = [regret(policy, before, 0.05, steps=300, then=before[::-1], later=300) for policy in (forgets, keeps)]
    assert after[0] < 0.6 * after[1]


def test_draws_are_uniform_and_normal() -> None:
    chance = seed_state(11)
    flat = np.array([uniform(chance) for _ in range(20000)])
    bell = np.array([normal(chance) for _ in range(20000)])
    assert flat.min() > 0 and flat.max() < 1 and flat.mean() == pytest.approx(0.5, abs=0.01)
    assert bell.mean() == pytest.approx(0, abs=0.03) and bell.std() == pytest.approx(1, abs=0.02)
    assert np.mean(np.abs(bell) > 1.96) == pytest.approx(0.05, abs=0.006)


@kernel
def _means_of(bandit: Any, chance: Any) -> int:  # noqa: ARG001
    return int(np.argmax(means(bandit) * (counts(bandit) > 0)))


def test_a_tuner_of_ones_own_can_be_compiled() -> None:
    mine = tuner("mine")(_means_of)
    assert pick(mine, told(mine, (1, 3.0)), seed_state(0)) == 1
