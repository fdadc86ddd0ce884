"""The built-in tuners, and one kernel that is any of them."""

from __future__ import annotations

import numpy as np

from forebay.decide.policy import Policy, tuner
from forebay.decide.tune.bandit import ARMS, OPTIONS, STEPS, counts, find_untried, means, new_bandit, spread
from forebay.decide.tune.forebay import forebay
from forebay.decide.tune.random_draws import below, largest, normal, uniform
from forebay.model.errors import BadInput, PolicyError
from forebay.model.kernels import Array, kernel

_LEAST_NOISE = 0.01
_PAPER = "Bez et al. 2019"
HALF_LIFE = "half_life"  # an option that is not the tuner's but that of `learn`


# Bez et al. 2019, section 4.
@kernel
def epsilon_greedy(bandit: Array, chance: Array) -> int:
    """The highest mean so far; with probability `epsilon`, any value."""
    return _greedy(bandit, chance, bandit[OPTIONS])


# Bez et al. 2019, section 6.1: "we could start with a high epsilon and decrease it over time".
@kernel
def epsilon_decreasing(bandit: Array, chance: Array) -> int:
    """As epsilon-greedy, with an `epsilon` that halves every `halving` rewards, down to `least`."""
    start, halving, least = bandit[OPTIONS], bandit[OPTIONS + 1], bandit[OPTIONS + 2]
    return _greedy(bandit, chance, max(start * 0.5 ** (bandit[STEPS] / halving), least))


@kernel
def _greedy(bandit: Array, chance: Array, epsilon: float) -> int:
    mean = means(bandit)
    return below(chance, mean.size) if uniform(chance) < epsilon else largest(mean, chance)


# Auer, Cesa-Bianchi and Fischer 2002: UCB1. Its rewards are between 0 and 1; ours are bytes a second, so that their
# own spread, shared by all arms, is the unit of the bonus.
@kernel
def ucb(bandit: Array, chance: Array) -> int:
    """The highest mean plus `width` standard deviations x sqrt(2 ln rewards / rewards of that value)."""
    arm = find_untried(bandit, chance)
    if arm >= 0:
        return arm
    count = counts(bandit)
    unit = bandit[OPTIONS] * spread(bandit, _LEAST_NOISE) * np.sqrt(2 * np.log(max(count.sum(), 1.0)))
    return largest(means(bandit) + unit / np.sqrt(count), chance)


@kernel
def thompson(bandit: Array, chance: Array) -> int:
    """The highest of one draw for each value from the bell curve in which its true mean lies."""
    arm = find_untried(bandit, chance)
    if arm >= 0:
        return arm
    count, mean = counts(bandit), means(bandit)
    noise = spread(bandit, _LEAST_NOISE)
    drawn = np.empty(mean.size)
    for other in range(mean.size):
        drawn[other] = mean[other] + normal(chance) * noise / np.sqrt(count[other])
    return largest(drawn, chance)


@kernel
def fixed_arm(bandit: Array, chance: Array) -> int:  # noqa: ARG001
    """Always the same value: the one numbered `arm`, counted from 0."""
    return np.int64(bandit[OPTIONS])  # type: ignore[return-value]


TUNERS = (
    tuner("epsilon-greedy", source=_PAPER, options={"epsilon": 0.1, HALF_LIFE: 0.0})(epsilon_greedy),
    tuner(
        "epsilon-decreasing",
        source=f"{_PAPER}, as it suggests",
        options={"epsilon": 1.0, "halving": 20.0, "least": 0.01, HALF_LIFE: 0.0},
    )(epsilon_decreasing),
    tuner("ucb", source="Auer et al. 2002", options={"width": 1.0, HALF_LIFE: 0.0})(ucb),
    tuner("thompson", source="Thompson 1933", options={HALF_LIFE: 0.0})(thompson),
    tuner("fixed", source="textbook", options={"arm": 0})(fixed_arm),
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
    return next((at for at, built_in in enumerate(TUNERS) if built_in.decide is policy.decide), OTHER)


def bandit_for(policy: Policy, arms: int, *, ordered: bool = False) -> Array:
    """One of which nothing is known, with the tuner's options.

    >>> bandit_for(TUNERS[0], 7, ordered=True).size
    37
    """
    options: dict[str, float] = {}
    for key, value in policy.options.items():
        if not isinstance(value, int | float) or not np.isfinite(value):
            raise BadInput(f"tuner {policy.name!r}", f"{key} must be a number, not {value!r}")
        options[key] = float(value)
    half_life = options.pop(HALF_LIFE, 0.0)
    for key, value in options.items() if number(policy) != OTHER else ():
        low, high = _BOUNDS.get(key, (0.0, arms - 1.0))
        if not low <= value <= high:
            raise BadInput(f"tuner {policy.name!r}", f"{key} must be from {low:g} to {high:g}, not {value:g}")
    return new_bandit(arms, ordered=ordered, half_life=half_life, options=options.values())


def pick(policy: Policy, bandit: Array, chance: Array) -> int:
    """The arm that `policy` takes, built in or not."""
    if number(policy) != OTHER:
        return int(choose(number(policy), bandit, chance))
    arm, arms = policy.decide(bandit, chance), int(bandit[ARMS])
    if isinstance(arm, bool) or not isinstance(arm, int | np.integer) or not 0 <= arm < arms:
        raise PolicyError(f"{policy.name}: answers {arm!r}, which is no int from 0 to {arms - 1}")
    return int(arm)


# Numba can't keep machine code of a function that gets another as an argument, hence numbers.
@kernel
def choose(tuner: int, bandit: Array, chance: Array) -> int:
    """The arm that TUNERS[tuner] takes; what it learns from is `learn` of `forebay.decide.tune.bandit`."""
    if tuner == 0:
        return epsilon_greedy(bandit, chance)
    if tuner == 1:
        return epsilon_decreasing(bandit, chance)
    if tuner == 2:
        return ucb(bandit, chance)
    if tuner == 3:
        return thompson(bandit, chance)
    if tuner == 4:
        return fixed_arm(bandit, chance)
    return forebay(bandit, chance)
