"""Little to do must not look like a bad value."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.decide.registry import find
from forebay.decide.tune.bandit import STEPS, counts, means
from forebay.decide.tune.reward import CLASSES, credit, current, demand, new_stack, pause
from forebay.decide.tune.tuners import pick
from forebay.model.observation import Observation
from forebay.model.random_numbers import seed_state
from support.periods import Machine, busy_times

# The best window under load is not the one that answers fastest when there is little to do.
MACHINE = Machine(
    most=np.array([5000, 5500, 6000, 6500, 7000, 6200, 5600.0]),
    least=np.array([0.5, 0.6, 0.8, 1.0, 1.5, 2.5, 4.0]) * 1e-3,
)
BEST = 4
MUCH, LITTLE = 0.0, 0.1  # seconds between requests


def seen(bandwidth: float, load: float = 128.0, requests: int = 1000, processes: int = 128) -> Observation:
    return Observation(seconds=1.0, reads=requests, bytes_read=int(bandwidth), load=load, busy=1.0, processes=processes)


def learned(tuner: str, reward: str, kind: str, *, steps: int = 600, seed: int = 0) -> float:
    """The share of the best among what is in force where there is much to do, and was before, in the last half."""
    policy, rng, chance = find("tune", tuner), np.random.default_rng(seed), seed_state(seed)
    stack, before, taken = new_stack(policy, reward, MACHINE.most.size, ordered=True), [Observation(seconds=1.0)], []
    busy = busy_times(kind, steps, rng)
    for step, much in enumerate(busy):
        arm = pick(policy, current(stack, before), chance)
        before = [MACHINE.period(arm, MUCH if much else LITTLE, rng)]
        credit(stack, arm, before)
        if step > steps // 2 and much and busy[step - 1]:
            taken.append(arm == BEST)
    return float(np.mean(taken))


@pytest.mark.parametrize("kind", ["by chance", "by turns", "seldom"])
@pytest.mark.parametrize("tuner", ["thompson", "forebay"])
def test_by_demand_the_best_is_learned_where_by_bandwidth_one_is_misled(tuner: str, kind: str) -> None:
    shares = {reward: np.mean([learned(tuner, reward, kind, seed=seed) for seed in range(5)]) for reward in CLASSES}
    assert shares["demand"] > 0.85
    assert shares["bandwidth"] < shares["demand"] - 0.15


@pytest.mark.parametrize("reward", CLASSES)
def test_where_demand_does_not_change_both_find_the_best(reward: str) -> None:
    for tuner in ("forebay", "thompson"):
        assert learned(tuner, reward, "always") > 0.95


def test_a_low_demand_with_one_value_and_a_high_one_with_another_are_not_compared() -> None:
    for reward, better in (("bandwidth", 0), ("demand", 1)):
        stack, rng = new_stack(find("tune", "epsilon-greedy:epsilon=0"), reward, 7), np.random.default_rng(0)
        for arm, think in ((0, MUCH), (BEST, LITTLE), (BEST, LITTLE), (0, MUCH), (BEST, MUCH)):
            credit(stack, arm, [MACHINE.period(arm, think, rng)])
        row = current(stack, [MACHINE.period(0, MUCH, rng)])
        assert int(means(row)[BEST] > means(row)[0]) == better


def test_by_bandwidth_every_period_is_worth_its_bytes() -> None:
    stack = new_stack(find("tune", "epsilon-greedy"), "bandwidth", 2)
    for load, bandwidth in ((1.0, 4e8), (100.0, 8e8)):
        credit(stack, 1, [seen(bandwidth, load)])
    assert counts(stack[0]).tolist() == [0, 2] and means(stack[0])[1] == 6e8


def test_the_reward_of_several_nodes_is_one_reward_their_mean() -> None:
    stack = new_stack(find("tune", "epsilon-greedy"), "demand", 2)
    credit(stack, 0, [seen(8e8), seen(4e8)])
    assert means(stack[0])[0] == 6e8 and stack[0][STEPS] == 1


def test_nothing_is_learned_of_nothing() -> None:
    stack = new_stack(find("tune", "epsilon-greedy"), "demand", 2)
    credit(stack, 0, [Observation(seconds=1.0, processes=9)])
    assert not any(row[STEPS] for row in stack)


def test_without_processes_the_most_requests_ever_seen_stand_for_them() -> None:
    stack = new_stack(find("tune", "epsilon-greedy"), "demand", 2)
    for load, bandwidth in ((100.0, 9e8), (0.5, 1e7)):
        credit(stack, 0, [seen(bandwidth, load=load, processes=0)])
    assert [row[STEPS] for row in stack] == [1, 0, 0, 0, 1, 0]


@given(st.floats(1e-6, 10), st.floats(1, 1e5), st.integers(1, 1000), st.floats(0.1, 60))
def test_the_pause_of_processes_is_found_however_fast_they_are_served(
    think: float, served: float, processes: int, seconds: float
) -> None:
    # A closed loop: each process waits for 1 / served seconds, then thinks.
    cycle = think + 1 / served
    requests = int(processes * seconds / cycle)
    if requests > 1000:
        load = processes * (1 / served) / cycle
        one = Observation(seconds=seconds, reads=requests, load=load, processes=processes)
        assert pause([one]) == pytest.approx(think, rel=0.01, abs=1e-9)
        assert pause([one, one]) == pytest.approx(pause([one]))


def test_more_demand_is_a_lower_class_and_none_is_the_last() -> None:
    assert pause([Observation(seconds=1.0)]) == math.inf
    pauses = [0.0, *np.logspace(-6, 6, 200).tolist(), math.inf]
    classes = [demand(seconds, 6) for seconds in pauses]
    assert classes == sorted(classes) and set(classes) == set(range(6))
    assert {demand(seconds, 1) for seconds in pauses} == {0}


def rows_of(reward: str) -> Any:
    return new_stack(find("tune", "ucb"), reward, 3)


def test_there_is_a_bandit_for_each_class() -> None:
    assert {reward: len(rows_of(reward)) for reward in CLASSES} == CLASSES
