"""The built-in tuners, and one kernel that dispatches to them."""

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
_NOISE, _NOISE_WEIGHT = 0.05, 2.0  # prior noise, and the number of rewards it counts for
_SPREAD, _SPREAD_WEIGHT = 0.2, 2.0  # prior spread between values, and the number of rewards it counts for
_REACH = 0.3  # how far a reward of one value informs others, as a share of all values
_ALIKE = 0.97  # smooth share of the differences between values, if neighbours are alike
_SHARED = 3.0  # rewards that the pooled noise counts for in the noise of one value
_TINY = 1e-9  # a smaller deviation is a rounding error
_PAPER = "Bez et al. 2019"
HALF_LIFE = "half_life"  # an option that `learn` uses, not the tuner


# Bez et al. 2019, section 4.
@kernel
def epsilon_greedy(bandit: Array, chance: Array) -> int:
    """The value with the highest mean so far; with probability `epsilon`, a random value."""
    return _greedy(bandit, chance, bandit[OPTIONS])


# Bez et al. 2019, section 6.1: "we could start with a high epsilon and decrease it over time".
@kernel
def epsilon_decreasing(bandit: Array, chance: Array) -> int:
    """Like epsilon-greedy, but `epsilon` halves every `halving` rewards, down to `least`."""
    start, halving, least = bandit[OPTIONS], bandit[OPTIONS + 1], bandit[OPTIONS + 2]
    return _greedy(bandit, chance, max(start * 0.5 ** (bandit[STEPS] / halving), least))


@kernel
def _greedy(bandit: Array, chance: Array, epsilon: float) -> int:
    mean = means(bandit)
    return below(chance, mean.size) if uniform(chance) < epsilon else largest(mean, chance)


# Auer, Cesa-Bianchi and Fischer 2002: UCB1. Its rewards are between 0 and 1. Ours are bytes per second, so the unit of
# the bonus is their spread over all arms.
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
    """The highest of one draw per value from the normal distribution of its true mean."""
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
    """Always the value number `arm`, counted from 0."""
    return np.int64(bandit[OPTIONS])  # type: ignore[return-value]


# Two Gaussian processes over the values model the rewards. In one, neighbours are alike; in the other, values are
# independent. Each is as likely as it explains the rewards; values without an order use only the second. The constants
# above are the priors of differences and noise. They are shares of the largest mean, so that rewards can have any unit.
@kernel
def forebay(bandit: Array, chance: Array) -> int:
    """Every value once, then the highest of a joint draw for all values; neighbours may be alike."""
    # To try every value costs little. A good value that is never tried costs for ever.
    unit, first = largest_mean(bandit), np.where(counts(bandit) < LEAST, priors(bandit), -np.inf)
    if unit == 0.0 or first.max() > -np.inf:
        return largest(first, chance)
    mean, covariance = _draw_belief(bandit, unit, chance)
    return largest(_draw_values(mean, covariance, bandit[OPTIONS], chance), chance)


@kernel
def _draw_belief(bandit: Array, unit: float, chance: Array) -> Array:
    """Draw one of the two models by its likelihood. Return mean and covariance of all arms."""
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
    """Draw a value for every arm. `boldness` below 1 explores less, which suits runs of a few hundred steps."""
    factor, drawn = _factor(covariance), mean.copy()
    toss = np.empty(mean.size)
    for arm in range(mean.size):
        toss[arm] = normal(chance)
        for other in range(arm + 1):
            drawn[arm] += boldness * factor[arm, other] * toss[other]
    return drawn


@kernel
def _factor(covariance: Array) -> Array:
    """Return the Cholesky factor. Where rounding makes a pivot negative, use 0; numpy would raise an error."""
    factor = np.zeros_like(covariance)
    for row in range(len(covariance)):
        for column in range(row + 1):
            remainder = covariance[row, column]
            for k in range(column):
                remainder -= factor[row, k] * factor[column, k]
            if row == column:
                factor[row, row] = np.sqrt(max(remainder, 0.0))
            elif factor[column, column] > _TINY:
                factor[row, column] = remainder / factor[column, column]
    return factor


@kernel
def _prior_belief(bandit: Array, unit: float, smooth: float) -> Array:
    """Return the prior mean and covariance: all arms are at the mean level of those tried."""
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
    """Update mean and covariance with each arm's rewards. Return the log likelihood, up to a constant."""
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
OTHER = -1  # a tuner of another package: the caller calls it
_BOUNDS = {
    "epsilon": (0.0, 1.0),
    "least": (0.0, 1.0),
    "halving": (1e-9, np.inf),
    "width": (0.0, np.inf),
    "boldness": (0.0, np.inf),
}


def number(policy: Policy) -> int:
    """Return the tuner's number for `choose`, whatever its options are."""
    return next((at for at, built_in in enumerate(TUNERS) if built_in.decide is policy.decide), OTHER)


def bandit_for(policy: Policy, arms: int, *, ordered: bool = False) -> Array:
    """Return an untried bandit with the tuner's options.

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
        raise PolicyError(f"{policy.name}: returns {arm!r}, which is not an int from 0 to {arms - 1}")
    return int(arm)


# Numba cannot cache a function that takes another function as an argument, so tuners have numbers.
@kernel
def choose(tuner: int, bandit: Array, chance: Array) -> int:
    """Return the arm that TUNERS[tuner] chooses; `forebay.decide.tune.bandit.learn` records its reward."""
    if tuner <= 1:
        return epsilon_greedy(bandit, chance) if tuner == 0 else epsilon_decreasing(bandit, chance)
    if tuner <= 3:
        return ucb(bandit, chance) if tuner == 2 else thompson(bandit, chance)
    return fixed_arm(bandit, chance) if tuner == 4 else forebay(bandit, chance)
