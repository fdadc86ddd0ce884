"""Bandits with known rewards, to see what tuners lose."""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.decide.policy import Policy
from forebay.decide.tune.bandit import learn
from forebay.decide.tune.random_draws import normal
from forebay.decide.tune.tuners import bandit_for, pick
from forebay.model.random_numbers import seed_state


def regret(
    policy: Policy,
    levels: Any,
    noise: float,
    *,
    steps: int,
    then: Any = None,
    later: int = 0,
    ordered: bool = True,
    seeds: int = 12,
) -> float:
    """What was lost against the best arm, as a share of its reward, summed over steps; the mean of some seeds.

    `noise` is relative. If rewards `then` are others for `later` steps, what was lost in those alone.
    """
    lost = []
    for seed in range(seeds):
        bandit = bandit_for(policy, len(levels), ordered=ordered)
        own, others = seed_state(seed), seed_state(1000 + seed)
        first = _learned(policy, bandit, levels, noise, steps, own, others)
        lost.append(first if then is None else _learned(policy, bandit, then, noise, later, own, others))
    return float(np.mean(lost))


def _learned(policy: Policy, bandit: Any, levels: Any, noise: float, steps: int, own: Any, others: Any) -> float:
    lost = 0.0
    for _ in range(steps):
        arm = pick(policy, bandit, own)
        learn(bandit, arm, levels[arm] * np.exp(noise * normal(others)))
        lost += 1 - levels[arm] / levels.max()
    return lost
