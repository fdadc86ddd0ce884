"""A quantity over several runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Its median, and what a tenth of the runs stay under (`p10`) and over (`p90`)."""

    median: float
    p10: float
    p90: float
    runs: int


def spread(values: Iterable[float], *, that_occurred: bool = False) -> Spread | None:
    """None of nothing; with `that_occurred` only of values that there are, never of one between two of them.

    >>> spread([4.0, 1.0, 2.0, 3.0, 5.0])
    Spread(median=3.0, p10=1.4, p90=4.6, runs=5)
    >>> spread([4.0, 1.0], that_occurred=True).median
    1.0
    """
    known = np.array(list(values), dtype=float)
    if not known.size:
        return None
    method: Literal["inverted_cdf", "linear"] = "inverted_cdf" if that_occurred else "linear"
    p10, median, p90 = np.percentile(known, (10, 50, 90), method=method).tolist()
    return Spread(median=median, p10=p10, p90=p90, runs=known.size)
