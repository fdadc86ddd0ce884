"""The built-in tuners, and one kernel that is any of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.decide.policy import Policy, tuner
from forebay.decide.tune.bandit import ARMS, new_bandit
from forebay.decide.tune.epsilon import epsilon_decreasing, epsilon_greedy
from forebay.decide.tune.fixed import fixed
from forebay.decide.tune.forebay import forebay
from forebay.decide.tune.thompson import thompson
from forebay.decide.tune.ucb import ucb
from forebay.model.errors import BadInput, PolicyError
from forebay.model.kernels import kernel

_PAPER = "Bez et al. 2019"
HALF_LIFE = "half_life"  # an option that is not the tuner's but that of `learn`

TUNERS = (
    tuner("epsilon-greedy", source=_PAPER, options={"epsilon": 0.1, HALF_LIFE: 0.0})(epsilon_greedy),
    tuner(
        "epsilon-decreasing",
        source=f"{_PAPER}, as it suggests",
        options={"epsilon": 1.0, "halving": 20.0, "least": 0.01, HALF_LIFE: 0.0},
    )(epsilon_decreasing),
    tuner("ucb", source="Auer et al. 2002", options={"width": 1.0, HALF_LIFE: 0.0})(ucb),
    tuner("thompson", source="Thompson 1933", options={HALF_LIFE: 0.0})(thompson),
    tuner("fixed", source="textbook", options={"arm": 0})(fixed),
    tuner("forebay", source="Forebay", options={"boldness": 0.7, HALF_LIFE: 1000.0})(forebay),
)
DEFAULT = "forebay"
OTHER = -1  # somebody else's tuner: the caller asks it
_BOUNDS = {
    "epsilon": (0.0, 1.0),
    "least": (0.0, 1.0),
    "halving": (1e-9, np.inf),
    "width": (0.0, np.inf),
    "boldness": (0.0, np.inf),
}


def number(policy: Policy) -> int:
    """What `choose` knows the tuner by, whatever its options are."""
    return next((at for at, own in enumerate(TUNERS) if own.decide is policy.decide), OTHER)


def bandit_for(policy: Policy, arms: int, *, ordered: bool = False) -> Any:
    """One of which nothing is known, with the tuner's options.

    >>> bandit_for(TUNERS[0], 7, ordered=True).size
    37
    """
    options = {key: _number(policy, key, value) for key, value in policy.options.items()}
    half_life = options.pop(HALF_LIFE, 0.0)
    if number(policy) != OTHER:
        _check(policy, options, arms)
    return new_bandit(arms, ordered=ordered, half_life=half_life, options=options.values())


def pick(policy: Policy, bandit: Any, chance: Any) -> int:
    """The arm that `policy` takes, built in or not."""
    own = number(policy)
    if own != OTHER:
        return int(choose(own, bandit, chance))
    arm = policy.decide(bandit, chance)
    arms = int(bandit[ARMS])
    if isinstance(arm, bool) or not isinstance(arm, int | np.integer) or not 0 <= arm < arms:
        raise PolicyError(f"{policy.name}: answers {arm!r}, which is no int from 0 to {arms - 1}")
    return int(arm)


def _number(policy: Policy, key: str, value: object) -> float:
    if not isinstance(value, int | float) or not np.isfinite(value):
        raise BadInput(f"tuner {policy.name!r}", f"{key} must be a number, not {value!r}")
    return float(value)


def _check(policy: Policy, options: dict[str, float], arms: int) -> None:
    for key, value in options.items():
        low, high = _BOUNDS.get(key, (0.0, arms - 1.0))
        if not low <= value <= high:
            raise BadInput(f"tuner {policy.name!r}", f"{key} must be from {low:g} to {high:g}, not {value:g}")


# Numba can't keep machine code of a function that gets another as an argument, hence numbers.
@kernel
def choose(own: int, bandit: Any, chance: Any) -> int:
    """The arm that TUNERS[own] takes; what it learns from is `learn` of `forebay.decide.tune.bandit`."""
    if own == 0:
        return epsilon_greedy(bandit, chance)
    if own == 1:
        return epsilon_decreasing(bandit, chance)
    if own == 2:
        return ucb(bandit, chance)
    if own == 3:
        return thompson(bandit, chance)
    if own == 4:
        return fixed(bandit, chance)
    return forebay(bandit, chance)
