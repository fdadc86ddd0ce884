"""Drift: whether an application's I/O became faster or slower over its runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from forebay.history.store.past_runs import Behaviour

DriftVerdict = Literal["faster", "slower", "no drift", "too few runs"]
LEAST_RUNS = 4
"""In each third: a rank test of three against three never reaches 5 %."""
SURE = 0.05
LEAST_CHANGE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The `ratio` of the median performance of the last third of the runs to that of the first.

    `p_value` is from a Mann-Whitney test. It is a drift if that is under 5 % and the ratio is more than 10 % away
    from 1.
    """

    early_runs: int
    late_runs: int
    ratio: float | None
    p_value: float | None
    verdict: DriftVerdict


def drift_of(runs: Sequence[Behaviour]) -> Drift:
    """The drift over whole, timed runs, oldest first.

    Only runs with the same number of processes and layout are compared, each by its performance over their median: a
    better layout is not a drift.
    """
    third = len(runs) // 3
    early, late = _relative(runs[:third], runs[len(runs) - third :])
    if min(len(early), len(late)) < LEAST_RUNS:
        return Drift(early_runs=len(early), late_runs=len(late), ratio=None, p_value=None, verdict="too few runs")
    from scipy.stats import mannwhitneyu

    ratio = float(np.median(late) / np.median(early))
    chance = float(mannwhitneyu(early, late).pvalue)
    verdict: DriftVerdict = "no drift"
    if chance < SURE and abs(ratio - 1) > LEAST_CHANGE:
        verdict = "faster" if ratio > 1 else "slower"
    return Drift(early_runs=len(early), late_runs=len(late), ratio=ratio, p_value=chance, verdict=verdict)


def _relative(early: Sequence[Behaviour], late: Sequence[Behaviour]) -> tuple[list[float], list[float]]:
    """Performance over the median of similar runs; runs without similar ones at the other end are left out."""
    alike: dict[tuple[int | None, ...], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for end, runs in enumerate((early, late)):
        for run in runs:
            alike[run.nprocs, run.stripe_count, run.file_stripe_count, run.stripe_size][end].append(run.perf_by_slowest)
    relative: tuple[list[float], list[float]] = ([], [])
    for first, last in alike.values():
        if first and last:
            usual = float(np.median(first + last))
            relative[0].extend(value / usual for value in first)
            relative[1].extend(value / usual for value in last)
    return relative
