"""Checks for tuners."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from forebay.decide.conformance.contract import expect_kind, fail, is_int, name_errors
from forebay.decide.policy import Policy
from forebay.decide.tune.bandit import learn
from forebay.decide.tune.random_draws import normal, uniform
from forebay.decide.tune.tuners import HALF_LIFE, OTHER, bandit_for, choose, number
from forebay.model.kernels import Array
from forebay.model.random_numbers import seed_state

Reward = Callable[[int, int, Any], float]
_STEPS, _LAST = 300, 100  # of a lesson, and how many at its end are judged
_BEST, _OTHERS, _NOISE = 2e8, 1e8, 0.1


@dataclass(frozen=True, slots=True)
class _Lesson:
    """`steps` choices among `arms`; `reward` takes (arm, step, chance)."""

    what: str
    arms: int
    ordered: bool
    reward: Reward
    steps: int = 60


def check_tuner(policy: Policy, *, learns: bool = True) -> None:
    """Raise a `PolicyError` if `policy` is not a valid tuner; unless it `learns`, it need not find the best arm."""
    expect_kind(policy, "tune")
    for lesson in _lessons():
        if _choose_arms(policy, lesson, seed=1) != _choose_arms(policy, lesson, seed=1):
            fail(policy, lesson, "chooses different arms for the same rewards and the same chance")
    if not learns:
        return
    for arms, ordered in ((2, False), (7, True), (7, False)):
        lesson = _Lesson(f"the last of {arms} arms earns twice as much", arms, ordered, _best_last(arms), _STEPS)
        _expect(policy, lesson, lesson.arms - 1, "does not learn the best arm")
    if HALF_LIFE in policy.options:
        forgetful = replace(policy, options={**policy.options, HALF_LIFE: 20.0})
        for lesson in _changing_lessons():
            _expect(forgetful, lesson, lesson.arms - 1, "with half_life=20, does not adapt to a new best arm")


def _expect(policy: Policy, lesson: _Lesson, best: int, what: str) -> None:
    """Check that the tuner chooses the best arm in half of the last steps or more, with several seeds."""
    for seed in range(5):
        share = np.mean(np.array(_choose_arms(policy, lesson, seed=seed)[-_LAST:]) == best)
        if share < 0.5:
            fail(policy, lesson, f"{what}: chooses it in {share:.0%} of the last {_LAST} steps, expected 50% or more")


def _choose_arms(policy: Policy, lesson: _Lesson, *, seed: int) -> list[int]:
    """Return the arms of all steps; tuner and rewards draw from separate chance."""
    bandit = bandit_for(policy, lesson.arms, ordered=lesson.ordered)
    chance, reward_chance = seed_state(seed), seed_state(seed + 1000)
    arms = []
    for step in range(lesson.steps):
        arm = _choose_arm(policy, lesson, bandit, chance)
        learn(bandit, arm, lesson.reward(arm, step, reward_chance))
        arms.append(arm)
    return arms


def _choose_arm(policy: Policy, lesson: _Lesson, bandit: Array, chance: Array) -> int:
    before, built_in = bandit.copy(), number(policy)
    with name_errors(policy, f"({lesson.what})"):
        arm = policy.decide(bandit, chance) if built_in == OTHER else choose(built_in, bandit, chance)
    if not is_int(arm):
        fail(policy, lesson, f"returns {arm!r}, which is not an int")
    if not 0 <= arm < lesson.arms:
        fail(policy, lesson, f"returns arm {arm}; expected 0 to {lesson.arms - 1}")
    if not np.array_equal(bandit, before):
        fail(policy, lesson, "changes the bandit, which is read-only")
    return int(arm)


def _lessons() -> Iterable[_Lesson]:
    """Yield ordinary and awkward lessons."""
    for arms, ordered in ((1, True), (2, False), (7, True), (7, False), (20, True)):
        kind = f"{arms} {'ordered' if ordered else 'unordered'} arms"
        yield _Lesson(f"{kind}, noisy rewards", arms, ordered, _add_noise([1e8 * (1 + arm) for arm in range(arms)]))
        yield _Lesson(f"{kind}, all rewards are 0", arms, ordered, lambda *_: 0.0)
        yield _Lesson(f"{kind}, equal rewards", arms, ordered, lambda *_: 5e8)
        yield _Lesson(f"{kind}, huge rewards", arms, ordered, _add_noise([1e100] * arms))
        yield _Lesson(f"{kind}, tiny rewards", arms, ordered, _add_noise([1e-100] * arms))
        yield _Lesson(f"{kind}, rare rewards", arms, ordered, lambda _arm, _step, chance: 1e9 * (uniform(chance) < 0.1))
        yield _Lesson(f"{kind}, negative rewards", arms, ordered, _add_noise([-1.0 - arm for arm in range(arms)]))
        yield _Lesson(
            f"{kind}, rewards of all sizes", arms, ordered, lambda _arm, _step, chance: 10.0 ** (20 * normal(chance))
        )


def _changing_lessons() -> Iterable[_Lesson]:
    for arms, ordered in ((2, False), (7, True)):
        before, after = _add_noise([_BEST] + [_OTHERS] * (arms - 1)), _best_last(arms)
        reward = partial(_change_best, before, after)
        yield _Lesson(f"first the first, then the last of {arms} arms is best", arms, ordered, reward, 2 * _STEPS)


def _change_best(before: Reward, after: Reward, arm: int, step: int, chance: Array) -> float:
    return (before if step < _STEPS else after)(arm, step, chance)


def _best_last(arms: int) -> Reward:
    return _add_noise([_OTHERS] * (arms - 1) + [_BEST])


def _add_noise(levels: Sequence[float]) -> Reward:
    return lambda arm, _, chance: levels[arm] * (1 + _NOISE * normal(chance))
