"""What rewards do to what is known of the arms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.decide.tune.bandit import (
    KEEP,
    STEPS,
    counts,
    find_untried,
    keep_of,
    learn,
    means,
    new_bandit,
    priors,
    spread,
    squares,
)
from forebay.model.errors import BadInput
from forebay.model.random_numbers import seed_state

ARMS = 4
REWARDS = st.lists(st.tuples(st.integers(0, ARMS - 1), st.floats(0, 1e10)), max_size=40)


@given(REWARDS)
def test_means_are_the_sample_averages_of_the_paper(rewards: list[tuple[int, float]]) -> None:
    bandit, estimates, times = new_bandit(ARMS), [0.0] * ARMS, [0] * ARMS
    for arm, reward in rewards:
        learn(bandit, arm, reward)
        times[arm] += 1
        estimates[arm] += (reward - estimates[arm]) / times[arm]
    assert counts(bandit).tolist() == times
    assert means(bandit) == pytest.approx(estimates, rel=1e-12)
    assert bandit[STEPS] == len(rewards)


@given(REWARDS, st.floats(0.5, 100))
def test_counts_means_and_squares_are_those_of_all_rewards_less_what_is_forgotten(
    rewards: list[tuple[int, float]], half_life: float
) -> None:
    bandit = new_bandit(ARMS, half_life=half_life)
    for reward in rewards:
        learn(bandit, *reward)
    for arm in range(ARMS):
        own = [
            (reward, 0.5 ** ((len(rewards) - 1 - at) / half_life))
            for at, (which, reward) in enumerate(rewards)
            if which == arm
        ]
        total = sum(weight for _, weight in own)
        assert counts(bandit)[arm] == pytest.approx(total, rel=1e-9)
        if own and total > 1e-6:  # what is all but forgotten is started anew
            mean = sum(reward * weight for reward, weight in own) / total
            square = sum(weight * (reward - mean) ** 2 for reward, weight in own)
            assert means(bandit)[arm] == pytest.approx(mean, rel=1e-6, abs=1e-6)
            assert squares(bandit)[arm] == pytest.approx(square, rel=1e-6, abs=1e-6 * (1 + mean**2))


def test_half_of_a_reward_is_left_after_the_half_life() -> None:
    bandit = new_bandit(2, half_life=5.0)
    learn(bandit, 0, 1.0)
    for _ in range(5):
        learn(bandit, 1, 1.0)
    assert counts(bandit)[0] == pytest.approx(0.5)


def test_an_arm_that_was_forgotten_is_untried() -> None:
    bandit, chance = new_bandit(2, half_life=1.0), seed_state(0)
    learn(bandit, 0, 7.0)
    learn(bandit, 1, 7.0)
    assert find_untried(bandit, chance) == -1
    for _ in range(40):
        learn(bandit, 1, 7.0)
    assert find_untried(bandit, chance) == 0
    learn(bandit, 0, 3.0)
    assert means(bandit)[0] == 3.0


def test_each_untried_arm_is_as_likely() -> None:
    bandit, chance = new_bandit(4), seed_state(3)
    learn(bandit, 1, 1.0)
    taken = np.bincount([find_untried(bandit, chance) for _ in range(3000)], minlength=4)
    assert taken[1] == 0 and all(abs(taken[arm] - 1000) < 100 for arm in (0, 2, 3))


def test_the_spread_is_pooled_over_arms_and_has_a_floor() -> None:
    bandit = new_bandit(3)
    for arm, reward in ((0, 9.0), (0, 11.0), (1, 98.0), (1, 102.0), (2, 50.0)):
        learn(bandit, arm, reward)
    assert spread(bandit, 0.0) == pytest.approx(np.sqrt((2 + 8) / 2))
    assert spread(bandit, 0.1) == pytest.approx(10.0)
    assert spread(new_bandit(3), 0.1) == 0.0


def test_a_new_bandit_expects_the_same_of_all_arms() -> None:
    bandit = new_bandit(3, ordered=True)
    assert priors(bandit).tolist() == [1.0, 1.0, 1.0] and not means(bandit).any() and bandit[KEEP] == 1


@pytest.mark.parametrize("half_life", [-1.0, float("inf"), float("nan")])
def test_an_impossible_half_life_is_refused(half_life: float) -> None:
    with pytest.raises(BadInput, match="half_life must be 0"):
        keep_of(half_life)


def test_impossible_bandits_are_refused() -> None:
    with pytest.raises(BadInput, match="at least one value"):
        new_bandit(0)
    with pytest.raises(BadInput, match="has 5 options; at most 4"):
        new_bandit(1, options=range(5))
