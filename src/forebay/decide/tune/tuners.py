"""The built-in tuners, and one kernel that is any of them."""

import numpy as np

from forebay.decide.policy import Policy, tuner
from forebay.decide.tune.bandit import (
    LEAST,
    OPTIONS,
    ORDERED,
    STEPS,
    counts,
    find_untried,
    largest_mean,
    means,
    new_bandit,
    pooled_variance,
    priors,
    spread,
    squares,
)
from forebay.decide.tune.random_draws import below, largest, normal, uniform
from forebay.model.errors import BadInput, PolicyError
from forebay.model.kernels import Array, kernel

_LEAST_NOISE = 0.01  # of ucb and thompson, as a share of the largest mean
_NOISE, _NOISE_WEIGHT = 0.05, 2.0  # the noise believed in before there are rewards, and worth how many of them
_SPREAD, _SPREAD_WEIGHT = 0.2, 2.0  # by how much values are believed to differ, and worth how many of them
_REACH = 0.3  # how far what is learned of one value carries, as a share of all values
_ALIKE = 0.97  # how much of the differences between values is smooth, where neighbours are alike
_SHARED = 3.0  # worth how many rewards the noise of all values is for that of one
_TINY = 1e-9  # below which a deviation is but rounding
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


# Rewards of all values are one Gaussian process over the values. Two of them, in fact: by one, neighbours are alike, by
# the other no value tells anything of another; each is believed as far as it explains the rewards (and the first not at
# all where values have no order). What is believed at first of differences and noise is in the constants above, as
# shares of the largest mean, so that rewards can have any unit, and gives way to what the rewards show.
@kernel
def forebay(bandit: Array, chance: Array) -> int:
    """Every value once, then the highest of a draw from all that is known of all; neighbours may be alike."""
    # Trying all costs little; not to, where one untried stands out from its neighbours, costs for ever.
    unit, first = largest_mean(bandit), np.where(counts(bandit) < LEAST, priors(bandit), -np.inf)
    if unit == 0.0 or first.max() > -np.inf:
        return largest(first, chance)
    mean, covariance = _draw_belief(bandit, unit, chance)
    return largest(_draw_values(mean, covariance, bandit[OPTIONS], chance), chance)


@kernel
def _draw_belief(bandit: Array, unit: float, chance: Array) -> Array:
    """Mean and covariance of all arms by one of the two beliefs, as likely as it explains the rewards."""
    rough_mean, rough = _prior_belief(bandit, unit, 0.0)
    explained = _update(bandit, unit, rough_mean, rough)
    if bandit[ORDERED]:
        mean, smooth = _prior_belief(bandit, unit, _ALIKE)
        better = _update(bandit, unit, mean, smooth) - explained
        if uniform(chance) * (1 + np.exp(-better)) < 1:
            return mean, smooth
    return rough_mean, rough


@kernel
def _draw_values(mean: Array, covariance: Array, boldness: float, chance: Array) -> Array:
    """One draw; a draw from the whole covariance explores too much where hundreds of steps are all there is."""
    factor, drawn = _factor(covariance), mean.copy()
    toss = np.empty(mean.size)
    for arm in range(mean.size):
        toss[arm] = normal(chance)
        for other in range(arm + 1):
            drawn[arm] += boldness * factor[arm, other] * toss[other]
    return drawn


@kernel
def _factor(covariance: Array) -> Array:
    """Its triangular factor (Cholesky); what rounding made negative is 0, where numpy's would give up."""
    factor = np.zeros_like(covariance)
    for row in range(len(covariance)):
        for column in range(row + 1):
            rest = covariance[row, column]
            for k in range(column):
                rest -= factor[row, k] * factor[column, k]
            if row == column:
                factor[row, row] = np.sqrt(max(rest, 0.0))
            elif factor[column, column] > _TINY:
                factor[row, column] = rest / factor[column, column]
    return factor


@kernel
def _prior_belief(bandit: Array, unit: float, smooth: float) -> Array:
    """Mean and covariance before what is known of each arm: all at the level of those tried."""
    arms, tried = counts(bandit).size, means(bandit)[counts(bandit) >= LEAST] / unit
    level = tried.sum() / tried.size
    differs = _SPREAD_WEIGHT * _SPREAD**2
    for mean in tried:
        differs += (mean - level) ** 2
    away = (np.arange(arms).reshape(-1, 1) - np.arange(arms)) / (_REACH * arms)
    correlation = smooth * np.exp(-0.5 * away * away) + (1 - smooth) * np.eye(arms)
    return np.full(arms, level), correlation * (differs / (tried.size + _SPREAD_WEIGHT))


@kernel
def _update(bandit: Array, unit: float, mean: Array, covariance: Array) -> float:
    """Let each arm's rewards change what is believed; the logarithm of how likely they were, but for a constant."""
    count, earned, square = counts(bandit), means(bandit), squares(bandit)
    noise, likely = pooled_variance(bandit, unit, _NOISE, _NOISE_WEIGHT), 0.0
    for arm in range(count.size):
        if count[arm] >= LEAST:
            column = covariance[:, arm].copy()
            known = _SHARED * noise + square[arm] / unit / unit
            variance = column[arm] + known / (_SHARED + max(count[arm] - 1, 0.0)) / count[arm]
            away = earned[arm] / unit - mean[arm]
            likely -= 0.5 * (np.log(variance) + away * away / variance)
            mean += column * (away / variance)
            covariance -= np.outer(column / variance, column)
    return likely


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
    if number(policy) != OTHER:
        return int(choose(number(policy), bandit, chance))
    arm, arms = policy.decide(bandit, chance), counts(bandit).size
    if isinstance(arm, bool) or not isinstance(arm, int | np.integer) or not 0 <= arm < arms:
        raise PolicyError(f"{policy.name}: answers {arm!r}, which is no int from 0 to {arms - 1}")
    return int(arm)


# Numba can't keep machine code of a function that gets another as an argument, hence numbers.
@kernel
def choose(tuner: int, bandit: Array, chance: Array) -> int:
    """The arm that TUNERS[tuner] takes; what it learns from is `learn` of `forebay.decide.tune.bandit`."""
    if tuner <= 1:
        return epsilon_greedy(bandit, chance) if tuner == 0 else epsilon_decreasing(bandit, chance)
    if tuner <= 3:
        return ucb(bandit, chance) if tuner == 2 else thompson(bandit, chance)
    return fixed_arm(bandit, chance) if tuner == 4 else forebay(bandit, chance)
