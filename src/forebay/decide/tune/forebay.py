"""`forebay`: what is known of one value says something about its neighbours.

Rewards of all values are one Gaussian process over the values. Two of them, in fact: by one, neighbours are alike, by
the other no value tells anything of another; each is believed as far as it explains the rewards (and the first not at
all where values have no order). What is believed at first of differences and noise is in the constants below, as
shares of the largest mean, so that rewards can have any unit, and gives way to what the rewards show.
"""

from __future__ import annotations

import numpy as np

from forebay.decide.tune.bandit import LEAST, OPTIONS, ORDERED, counts, expected, means, squares
from forebay.decide.tune.random_draws import largest, normal, uniform
from forebay.model.kernels import Array, kernel

_NOISE, _NOISE_WEIGHT = 0.05, 2.0  # the noise believed in before there are rewards, and worth how many of them
_SPREAD, _SPREAD_WEIGHT = 0.2, 2.0  # by how much values are believed to differ, and worth how many of them
_REACH = 0.3  # how far what is learned of one value carries, as a share of all values
_ALIKE = 0.97  # how much of the differences between values is smooth, where neighbours are alike
_SHARED = 3.0  # worth how many rewards the noise of all values is for that of one
_TINY = 1e-9  # below which a deviation is but rounding


@kernel
def forebay(bandit: Array, chance: Array) -> int:
    """Every value once, then the highest of a draw from all that is known of all; neighbours may be alike."""
    # Trying all costs little; not to, where one untried stands out from its neighbours, costs for ever.
    unit, first = _unit(bandit), np.where(counts(bandit) < LEAST, expected(bandit), -np.inf)
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
def _unit(bandit: Array) -> float:
    """The largest mean of any arm; 0 if none was tried, or all earned nothing."""
    count, mean = counts(bandit), means(bandit)
    unit = 0.0
    for arm in range(count.size):
        if count[arm] >= LEAST:
            unit = max(unit, abs(mean[arm]))
    return unit


@kernel
def _prior_belief(bandit: Array, unit: float, smooth: float) -> Array:
    """Mean and covariance before what is known of each arm: all at the level of those tried."""
    count, mean = counts(bandit), means(bandit)
    tried, level = 0, 0.0
    for arm in range(count.size):
        if count[arm] >= LEAST:
            tried += 1
            level += mean[arm] / unit
    level /= tried
    differs = _SPREAD_WEIGHT * _SPREAD**2
    for arm in range(count.size):
        if count[arm] >= LEAST:
            differs += (mean[arm] / unit - level) ** 2
    arms = count.size
    correlation = np.eye(arms)
    if smooth > 0:
        for arm in range(arms):
            for other in range(arms):
                away = (arm - other) / (_REACH * arms)
                correlation[arm, other] = smooth * np.exp(-0.5 * away * away) + (1 - smooth) * correlation[arm, other]
    return np.full(arms, level), correlation * (differs / (tried + _SPREAD_WEIGHT))


@kernel
def _update(bandit: Array, unit: float, mean: Array, covariance: Array) -> float:
    """Let each arm's rewards change what is believed; the logarithm of how likely they were, but for a constant."""
    count, earned, square, noise, likely = counts(bandit), means(bandit), squares(bandit), _noise(bandit, unit), 0.0
    for arm in range(count.size):
        if count[arm] >= LEAST:
            column = covariance[:, arm].copy()
            known = _SHARED * noise + square[arm] / unit / unit
            variance = column[arm] + known / (_SHARED + max(count[arm] - 1, 0.0)) / count[arm]
            away = earned[arm] / unit - mean[arm]
            likely -= 0.5 * (np.log(variance) + away * away / variance)
            mean += column * (away / variance)
            for other in range(count.size):
                covariance[other] -= column * (column[other] / variance)
    return likely


@kernel
def _noise(bandit: Array, unit: float) -> float:
    """The variance of a reward about its arm's mean, the same for all."""
    count, square = counts(bandit), squares(bandit)
    total, freedom = _NOISE_WEIGHT * _NOISE**2, _NOISE_WEIGHT
    for arm in range(count.size):
        if count[arm] >= LEAST:
            total += square[arm] / unit / unit
            freedom += max(count[arm] - 1, 0.0)
    return total / freedom
