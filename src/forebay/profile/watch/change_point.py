"""Finds the point from which a noisy series is higher, and says how likely chance makes one.

The statistic is the largest two-sample t over all points that leave `LEAST_BEFORE` values before and `LEAST_AFTER`
after (Worsley 1979, "On the likelihood ratio test for a shift in location of normal populations"). Three things make it
robust: values are clipped at `CLIP` robust standard deviations from the median (1.4826 times the median absolute
deviation), so that a few outliers make no change; the standard deviation within the parts is at least `LEAST_SPREAD`;
and if values that follow each other are alike, t is divided by what their correlation adds to the variance. The p-value
is that of Student's t, times the number of points that were tried (Bonferroni). Which of many series changed is decided
by Benjamini and Hochberg (1995) at `FALSE_SHARE`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forebay.model.arrays import Floats

LEAST_BEFORE = 10
LEAST_AFTER = 5
MOST = 400
"""Values of a series that count, the newest."""
CLIP = 3.0
LEAST_SPREAD = 0.05
LEAST_CHANGE = 1.25
"""A smaller factor is not reported."""
FALSE_SHARE = 0.01
"""At most this part of the reported changes is expected to be chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`first` is the index of the first value after the change, `ratio` the factor between the medians, and `level`
    that of the newest values alone."""

    first: int
    before: int
    after: int
    ratio: float
    level: float
    t: float
    p_value: float


def find_rise(logs: Floats) -> Change | None:
    """The likeliest rise in a series of logarithms, oldest first, that lasts to its end; None if it is too short
    or its newest values are not `LEAST_CHANGE` times as high as before."""
    from scipy.special import stdtr

    skipped = max(logs.size - MOST, 0)
    newest = logs[skipped:]
    n = newest.size
    if n < LEAST_BEFORE + LEAST_AFTER:
        return None
    middle = np.median(newest)
    spread = max(1.4826 * float(np.median(np.abs(newest - middle))), LEAST_SPREAD)
    clipped = np.clip(newest, middle - CLIP * spread, middle + CLIP * spread)
    sums = np.cumsum(clipped)
    k = np.arange(LEAST_BEFORE, n - LEAST_AFTER + 1)
    rise = (sums[-1] - sums[k - 1]) / (n - k) - sums[k - 1] / k
    weight = k * (n - k) / n
    within = (((clipped - sums[-1] / n) ** 2).sum() - weight * rise**2) / (n - 2)
    t = rise * np.sqrt(weight / np.maximum(within, LEAST_SPREAD**2))
    best = int(np.argmax(t))
    first = int(k[best])
    before, after = newest[:first], newest[first:]
    usual = float(np.median(before))
    level = float(np.exp(np.median(newest[-LEAST_AFTER:]) - usual))
    ratio = float(np.exp(np.median(after) - usual))
    if min(level, ratio) < LEAST_CHANGE:
        return None
    sure = float(t[best]) / _inflation(clipped[:first], clipped[first:])
    chance = min(float(stdtr(n - 2, -sure)) * k.size, 1.0)
    return Change(
        first=skipped + first, before=first, after=n - first, ratio=ratio, level=level, t=sure, p_value=chance
    )


def _inflation(before: Floats, after: Floats) -> float:
    """How many times as far from the truth a mean is because values that follow each other are alike."""
    rest = np.concatenate((before - before.mean(), after - after.mean()))
    alike = float(rest[1:] @ rest[:-1]) / max(float(rest @ rest), rest.size * LEAST_SPREAD**2)
    if alike <= 1 / np.sqrt(rest.size):  # chance makes as much
        return 1.0
    alike = min(alike + (2 + 4 * alike) / rest.size, 0.95)  # taking away two means hides some of it
    return float(np.sqrt((1 + alike) / (1 - alike)))


def select_sure(p_values: Floats, tested: int) -> tuple[npt.NDArray[np.bool_], Floats, float]:
    """A mask of the p-values that chance does not explain, if `tested` were tried and the others are larger; all of
    them adjusted; and the largest p-value that chance does not explain."""
    adjusted = adjust(p_values, tested)
    sure: npt.NDArray[np.bool_] = adjusted <= FALSE_SHARE
    return sure, adjusted, FALSE_SHARE * max(int(sure.sum()), 1) / max(tested, 1)


def adjust(p_values: Floats, tested: int) -> Floats:
    """Each p-value as the share of chance among those that are no larger (Benjamini and Hochberg)."""
    order = np.argsort(p_values, kind="stable")
    raw = p_values[order] * tested / np.arange(1, p_values.size + 1)
    lowest = np.minimum.accumulate(raw[::-1])[::-1]
    adjusted = np.empty(p_values.size)
    adjusted[order] = np.minimum(lowest, 1.0)
    return adjusted
