"""How well a calibration predicts runs that it was not fitted to."""

from dataclasses import dataclass

import numpy as np

from forebay.history.run_fields import Measured
from forebay.model.arrays import Floats, Ints
from forebay.model.errors import BadInput
from forebay.model.units import plural
from forebay.profile.calibration.filesystem_costs import Parameters
from forebay.profile.calibration.fit import fit_parameters
from forebay.profile.calibration.prediction import is_usable, predict_seconds

LEAST_RUNS = 20
"""With fewer runs, the half that checks the fit shows nothing."""
_LEAST_CHECKED = 5  # of reads, or of writes
_DRAWS, _INTERVAL = 2000, (0.05, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The reads or the writes of the later half: the rank correlation of predicted and measured seconds, and by which
    factor they differ. `interval` holds the median with a probability of 90 %; `one_bandwidth` is the median factor of
    bytes divided by one bandwidth that is fitted to the same runs."""

    fitted: int
    checked: int
    rank_correlation: float | None
    median: float
    p90: float
    interval: tuple[float, float]
    one_bandwidth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The parameters fitted to the earlier half of the runs, and what they predict of the later half."""

    parameters: Parameters
    earlier: Measured
    later: Measured
    scores: tuple[Score | None, Score | None]
    """Of reads and of writes; None if too few runs have them."""


def check_calibration(runs: Measured, where: str) -> Check:
    """Fit the earlier half of the runs and predict the later half. `where` names the runs in errors."""
    usable = is_usable(runs, 0) | is_usable(runs, 1)
    runs = runs[usable]
    if runs.size < LEAST_RUNS:
        reason = f"has {plural(int(runs.size), 'run')} with known I/O times, but a calibration needs {LEAST_RUNS}"
        raise BadInput(where, f"{reason}, half of them to check it")
    runs = runs[np.argsort(runs["start"], kind="stable")]
    earlier, later = runs[: runs.size // 2], runs[runs.size // 2 :]
    parameters = fit_parameters(earlier)
    reads, writes = (score_predictions(earlier, later, side, parameters) for side in (0, 1))
    if reads is None and writes is None:
        reason = f"needs {_LEAST_CHECKED} runs with reads, or with writes, in each half of the time"
        raise BadInput(where, f"{reason}; the runs have neither")
    return Check(parameters=parameters, earlier=earlier, later=later, scores=(reads, writes))


def score_predictions(earlier: Measured, later: Measured, side: int, parameters: Parameters) -> Score | None:
    """Compare what is predicted of the later runs' reads (side 0) or writes (1) with what was measured."""
    fitted, checked = (runs[is_usable(runs, side)] for runs in (earlier, later))
    if min(fitted.size, checked.size) < _LEAST_CHECKED:
        return None
    measured, predicted = checked["seconds"][:, side], predict_seconds(checked, side, parameters)
    factors = find_factors(predicted, measured)
    drawn = factors[np.random.default_rng(0).integers(factors.size, size=(_DRAWS, factors.size))]
    low, high = np.quantile(np.median(drawn, axis=1), _INTERVAL)
    alike = checked["bytes"][:, side] / fit_bandwidth(fitted, side)
    return Score(
        fitted=int(fitted.size),
        checked=int(checked.size),
        rank_correlation=correlate_ranks(predicted, measured),
        median=float(np.median(factors)),
        p90=float(np.quantile(factors, 0.9)),
        interval=(float(low), float(high)),
        one_bandwidth=float(np.median(find_factors(alike, measured))),
    )


def find_factors(predicted: Floats, measured: Floats) -> Floats:
    """By which factor, 1 or more, each prediction is off."""
    return np.asarray(np.exp(np.abs(np.log(predicted / measured))))


def fit_bandwidth(runs: Measured, side: int) -> float:
    """The bandwidth that is off by the least factors: the median of the runs'."""
    moved: Ints = runs["bytes"][:, side]
    seconds: Floats = runs["seconds"][:, side]
    return float(np.exp(np.median(np.log(moved / seconds))))


def correlate_ranks(predicted: Floats, measured: Floats) -> float | None:
    """Spearman's rank correlation; None if all values of one side are equal."""
    first, second = _rank(predicted), _rank(measured)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def _rank(values: Floats) -> Floats:
    """Ranks from 0 up; equal values share their mean rank."""
    _, at, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts + 1) / 2)[at.ravel()])
