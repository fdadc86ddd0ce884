"""The numbers behind the lines: means and percentiles for each bin of load, confidence, regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from forebay.show.rows import Floats


@dataclass(frozen=True, slots=True)
class Band:
    """A line and the area around it."""

    x: Floats
    middle: Floats
    low: Floats
    high: Floats

    def at_least(self, least: float) -> Band:
        """The same without anything below `least`."""
        return Band(self.x, *(np.maximum(part, least) for part in (self.middle, self.low, self.high)))


def mean_of_rows(rows: Floats) -> Band:
    """The mean of each column with its 95 % confidence interval, over columns 1, 2, 3 and on."""
    middle = rows.mean(axis=0)
    error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.zeros_like(middle)
    reach = error * (stdtrit(len(rows) - 1, 0.975) if len(rows) > 1 else 0.0)
    return Band(np.arange(1, middle.size + 1, dtype=float), middle, middle - reach, middle + reach)


def regression(x: Floats, y: Floats, degree: int) -> Band:
    """A polynomial through the points, and the 95 % confidence interval of its mean.

    `degree` is lowered where there are too few points to fix it; without points there is no line.
    """
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if not x.size:
        return Band(x, y, y, y)
    span = float(np.ptp(x)) or 1.0
    degree = min(degree, np.unique(x).size - 1, max(1, x.size // 4))
    design = np.vander((x - x.min()) / span, degree + 1)
    at = np.linspace(x.min(), x.max(), 61) if degree else x.mean(keepdims=True)
    wanted = np.vander((at - x.min()) / span, degree + 1)
    inverse = np.linalg.pinv(design.T @ design)
    weights = inverse @ design.T @ y
    free = x.size - degree - 1
    variance = float(((y - design @ weights) ** 2).sum()) / free if free else 0.0
    error = np.sqrt(variance * np.einsum("ij,jk,ik->i", wanted, inverse, wanted).clip(0))
    reach = error * (stdtrit(free, 0.975) if free else 0.0)
    middle = wanted @ weights
    return Band(at, middle, middle - reach, middle + reach)
