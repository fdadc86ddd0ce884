"""A quantity over several runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Its median, and what a tenth of the runs stay under (`p10`) and over (`p90`)."""

    median: float
    p10: float
    p90: float
    runs: int


def spread(values: Iterable[float]) -> Spread | None:
    """None of nothing.

    >>> spread([4.0, 1.0, 2.0, 3.0, 5.0])
    Spread(median=3.0, p10=1.4, p90=4.6, runs=5)
    """
    known = np.array(list(values), dtype=float)
    if not known.size:
        return None
    p10, median, p90 = np.percentile(known, (10, 50, 90)).tolist()
    return Spread(median=median, p10=p10, p90=p90, runs=known.size)
