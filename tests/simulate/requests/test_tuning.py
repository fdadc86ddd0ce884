"""Tuners on the simulated forwarding layer: they lose little, and are not misled by a demand that changes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forebay.decide.registry import find
from forebay.decide.tune.bandit import learn
from forebay.decide.tune.random_draws import below
from forebay.decide.tune.reward import CLASSES, credit, current, new_stack
from forebay.decide.tune.tuners import bandit_for, pick
from forebay.model.observation import Observation
from forebay.model.random_numbers import seed_state
from forebay.profile.request_watch import make_observation
from forebay.simulate.requests.run import Forwarding, Simulation, simulate_requests
from forebay.simulate.requests.workload import PAPER_WINDOWS, Experiment, Workload, paper_experiments

NODES, PROCESSES, SECONDS, STEPS = 4, 128, 0.1, 400
MUCH, LITTLE = 1e-6, 0.02  # seconds between requests
STRIDED = Workload(
    processes=PROCESSES, pattern="shared-strided", operation="read", request=32768, total=1 << 42, think=MUCH
)


def windows_under_load(reward: str, busy: Callable[[int], bool], seed: int) -> Any:
    """Numbers of the windows in force in the last half, while there is much to do and was before."""
    policy, chance = find("tune", "forebay"), seed_state(seed)
    stack = new_stack(policy, reward, len(PAPER_WINDOWS), ordered=True)
    layer = Forwarding(nodes=NODES, scheduler="twins", window=PAPER_WINDOWS[0])
    simulation = Simulation(layer, [STRIDED], seed=seed, period=SECONDS, periods=STEPS + 1)
    before, taken = [Observation(seconds=SECONDS)], []
    for step in range(STEPS):
        arm = pick(policy, current(stack, before), chance)
        simulation.set_think(MUCH if busy(step) else LITTLE)
        simulation.set_window(PAPER_WINDOWS[arm])
        simulation.advance(round((step + 1) * SECONDS * 1e9) + 1)
        rows = simulation.rows[step]
        before = [make_observation(row, SECONDS, processes=PROCESSES // NODES) for row in rows]
        credit(stack, arm, before)
        if step >= STEPS // 2 and busy(step) and busy(step - 1):
            taken.append(arm)
    return np.array(taken)


def test_by_demand_the_best_window_is_learned_where_by_bandwidth_one_is_misled() -> None:
    # Strided reads do best with the longest window under load; with little to do, it makes them wait.
    longest = {
        reward: np.mean(
            [np.mean(windows_under_load(reward, lambda step: (step // 20) % 2 == 0, seed) == 6) for seed in (0, 1)]
        )
        for reward in CLASSES
    }
    assert longest["demand"] > 0.8
    assert longest["bandwidth"] < 0.5


def measured(experiment: Experiment) -> list[Any]:
    """By window, bandwidths that I/O nodes saw in single periods."""
    found = []
    for window in PAPER_WINDOWS:
        layer = Forwarding(nodes=experiment.nodes, scheduler="twins", window=window)
        rows = simulate_requests(layer, experiment.workload, seed=1, period=SECONDS).periods[1:-1]
        found.append((rows[:, :, 3] + rows[:, :, 4]).ravel() / SECONDS)
    return found


def lost(spec: str, rewards: list[Any], seed: int) -> float:
    """Against the best window, as a share of it, in 200 steps that draw from what was measured (section 6.1)."""
    policy, own, others = find("tune", spec), seed_state(seed), seed_state(seed + 1000)
    bandit, means = bandit_for(policy, len(rewards), ordered=True), np.array([one.mean() for one in rewards])
    total = 0.0
    for _ in range(200):
        arm = pick(policy, bandit, own)
        learn(bandit, arm, rewards[arm][below(others, rewards[arm].size)])
        total += 1 - means[arm] / means.max()
    return total


@pytest.fixture(scope="module")
def some() -> list[list[Any]]:
    """Of the 144 situations, some of each kind, with less to read and write."""
    return [measured(experiment) for experiment in paper_experiments(total=1 << 29)[::11]]


def test_forebay_loses_at_most_half_of_what_epsilon_greedy_does(some: list[list[Any]]) -> None:
    ours, paper = (
        sum(lost(spec, rewards, seed) for rewards in some for seed in range(5))
        for spec in ("forebay", "epsilon-greedy")
    )
    assert ours < 0.5 * paper
