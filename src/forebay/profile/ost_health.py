"""Finds sick OSTs: those slower than the others in the same runs, too often or too clearly for chance.

OSTs are only compared within a run. The slowness of an OST in a run is its seconds per byte relative to the median OST
of the run on the same file system, so that large and small, busy and quiet runs weigh the same. A run counts if at
least four OSTs can be compared in it and they differ (one file striped over all of them gives the same for each).

An OST is *slow* in a run if it takes at least twice the median, and the logarithm of its slowness is at least five
robust standard deviations of that run's OSTs (1.4826 times the median of the absolute logarithms, at least 10 %).

It is *sick* if one of these holds:
- it is compared in at least five runs, slow in at least a quarter of them, and by a binomial test more often than the
  other OSTs, at 1 % divided by the number of OSTs (Bonferroni);
- it is compared in fewer runs, but slow for at least 30 files and a quarter of the compared files.

With fewer than five runs and fewer than 30 files, the verdict is *too little data*.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from forebay.history.run_fields import OstSums
from forebay.model.arrays import Bools, Floats, Ints

Verdict = Literal["sick", "fine", "too little data"]
Observations = npt.NDArray[np.void]

LEAST_OSTS = 4
LEAST_RUNS = 5
LEAST_FILES = 30
SLOW = 2.0
DEVIATIONS = 5.0
LEAST_SPREAD = 0.1
LEAST_SHARE = 0.25
ERROR = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class OstHealth(OstSums):
    """One OST: the sums over its runs, and how it compares with others.

    `slowness` is the median over `compared_runs` (None without any), `worst_slowness` the maximum, and `p_value` the
    probability of at least this many slow runs if it were like the others.
    """

    compared_runs: int
    compared_files: int
    slow_runs: int
    slow_files: int
    slowness: float | None
    worst_slowness: float | None
    p_value: float | None
    verdict: Verdict
    because: str


def rank_osts(filesystems: Iterable[tuple[Sequence[OstSums], Observations]]) -> list[OstHealth]:
    """Compare the OSTs of each file system with each other; returns the OSTs of all, worst first."""
    healths = [health for sums, observed in filesystems for health in ost_health(sums, observed)]
    return sorted(healths, key=_worst_first)


def ost_health(sums: Sequence[OstSums], observed: Observations) -> list[OstHealth]:
    """Judge every OST of one file system, worst first; `observed` has `OBSERVATION` records, ordered by run."""
    compared = observed[is_comparable(observed)]
    slow = was_slow(compared)
    by_ost = np.argsort(compared["ost"], kind="stable")
    compared, slow = compared[by_ost], slow[by_ost]
    healths = []
    for s in sums:
        here = slice(*np.searchsorted(compared["ost"], (s.ost, s.ost + 1)))
        others = (int(slow.sum() - slow[here].sum()), compared.size - compared[here].size)
        healths.append(_judge(s, compared[here], slow[here], others, len(sums)))
    return sorted(healths, key=_worst_first)


def _worst_first(health: OstHealth) -> tuple[object, ...]:
    return health.verdict != "sick", -(health.slowness or 0.0), health.filesystem, health.ost


def is_comparable(observed: Observations) -> Bools:
    """A mask of the observations from runs that count."""
    if not observed.size:
        return np.zeros(0, dtype=bool)
    known = np.isfinite(observed["slowness"]) & (observed["slowness"] > 0)
    first, of = _groups(observed["run"])
    high = np.maximum.reduceat(np.where(known, observed["slowness"], -np.inf), first)
    low = np.minimum.reduceat(np.where(known, observed["slowness"], np.inf), first)
    counts = (np.add.reduceat(known.astype(int), first) >= LEAST_OSTS) & (high > low * (1 + 1e-9))
    selected: Bools = known & counts[of]
    return selected


def was_slow(compared: Observations) -> Bools:
    """A mask of the observations that stand out in their run."""
    if not compared.size:
        return np.zeros(0, dtype=bool)
    away = np.log(compared["slowness"])
    first, of = _groups(compared["run"])
    spread = np.maximum(1.4826 * _medians(np.abs(away), first, of), LEAST_SPREAD)
    stands_out: Bools = (compared["slowness"] >= SLOW) & (away >= DEVIATIONS * spread[of])
    return stands_out


def _groups(ordered: Ints) -> tuple[Ints, Ints]:
    """The index at which each group of equal values starts, and the group of each value."""
    begins = np.append(True, np.diff(ordered) != 0)
    return np.flatnonzero(begins), np.cumsum(begins) - 1


def _medians(values: Floats, first: Ints, of: Ints) -> Floats:
    ordered = values[np.lexsort((values, of))]
    sizes = np.diff(np.append(first, values.size))
    middle: Floats = (ordered[first + (sizes - 1) // 2] + ordered[first + sizes // 2]) / 2
    return middle


def _judge(sums: OstSums, compared: Observations, slow: Bools, others: tuple[int, int], number: int) -> OstHealth:
    runs, slow_runs = compared.size, int(slow.sum())
    files, slow_files = int(compared["files"].sum()), int(compared["files"][slow].sum())
    rate = (others[0] + 1) / (others[1] + 2)  # Laplace's rule, so that it is never 0
    chance = _at_least(slow_runs, runs, rate) if runs else None
    if runs >= LEAST_RUNS:
        sick = slow_runs >= LEAST_SHARE * runs and chance is not None and chance < ERROR / number
        usual = 100 * others[0] / max(others[1], 1)
        because = f"slow in {slow_runs} of {runs} runs; others in {usual:.2f} % of theirs"
    else:
        sick = slow_files >= LEAST_FILES and slow_files >= LEAST_SHARE * files
        because = f"slow for {slow_files} of {files} files in {runs} {'run' if runs == 1 else 'runs'}"
    enough = runs >= LEAST_RUNS or files >= LEAST_FILES
    return OstHealth(
        **asdict(sums),
        compared_runs=runs,
        compared_files=files,
        slow_runs=slow_runs,
        slow_files=slow_files,
        slowness=float(np.median(compared["slowness"])) if runs else None,
        worst_slowness=float(compared["slowness"].max()) if runs else None,
        p_value=chance,
        verdict="sick" if sick else "fine" if enough else "too little data",
        because=because if runs else "no run compares it with others",
    )


def _at_least(slow: int, runs: int, rate: float) -> float:
    """The probability of at least `slow` slow runs among `runs` at this rate."""
    from scipy.special import bdtrc

    return float(bdtrc(slow - 1, runs, rate)) if slow else 1.0
