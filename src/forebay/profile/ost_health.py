"""Which OST is sick: slower than the others in the same runs, too often or too clearly to be chance.

OSTs are compared within a run only: an OST's slowness in a run is its seconds per byte over the median of the run's
OSTs on the same file system, so that large and small, busy and quiet runs weigh the same. A run counts if at least
four OSTs can be compared in it and they differ (one file striped over all of them gives the same for each).

An OST was *slow* in a run if it took at least twice the median, and the logarithm of its slowness is at least five
robust standard deviations of that run's OSTs (1.4826 times the median of the absolute logarithms, at least 10 %).

It is *sick* if one of these holds:
- it was compared in five runs or more, slow in at least a quarter of them, and by a binomial test more often than the
  other OSTs, at 1 % divided by the number of OSTs (Bonferroni);
- it was compared in fewer runs, but slow for at least 30 files and a quarter of those compared.

With fewer than five runs and fewer than 30 files there is *too little data*.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from forebay.history.store.totals import OstSums

Verdict = Literal["sick", "fine", "too little data"]
Observations = npt.NDArray[np.void]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

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
    """One OST: what runs did on it, and how it compares with others.

    `slowness` is the median over `compared_runs` (None if there are none), `worst_slowness` the maximum, and `p_value`
    the probability of so many slow runs if it were like the others.
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
    """The OSTs of all file systems, each compared with those of its own, the worst first."""
    healths = [health for sums, observed in filesystems for health in ost_health(sums, observed)]
    return sorted(healths, key=_worst_first)


def ost_health(sums: Sequence[OstSums], observed: Observations) -> list[OstHealth]:
    """Every OST of one file system, the worst first; `observed` as `OBSERVED`, ordered by run."""
    compared = observed[comparable(observed)]
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


def comparable(observed: Observations) -> Bools:
    """Which observations are from runs that count."""
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
    """Which observations stand out in their run."""
    if not compared.size:
        return np.zeros(0, dtype=bool)
    away = np.log(compared["slowness"])
    first, of = _groups(compared["run"])
    spread = np.maximum(1.4826 * _medians(np.abs(away), first, of), LEAST_SPREAD)
    stands_out: Bools = (compared["slowness"] >= SLOW) & (away >= DEVIATIONS * spread[of])
    return stands_out


def _groups(ordered: Ints) -> tuple[Ints, Ints]:
    """Where each group of equal values begins, and each value's group."""
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
    rate = (others[0] + 1) / (others[1] + 2)  # Laplace: never 0, however few runs there are
    chance = _at_least(slow_runs, runs, rate) if runs else None
    if runs >= LEAST_RUNS:
        sick = slow_runs >= LEAST_SHARE * runs and chance is not None and chance < ERROR / number
        usual = 100 * others[0] / max(others[1], 1)
        because = f"slow in {slow_runs} of {runs} runs, the others in {usual:.2f} % of theirs"
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
    """The probability of `slow` or more of `runs` at this rate."""
    from scipy.special import bdtrc

    return float(bdtrc(slow - 1, runs, rate)) if slow else 1.0
