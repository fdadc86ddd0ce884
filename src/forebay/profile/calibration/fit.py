"""Fits the model's parameters to measured runs.

The error of a run is the logarithm of predicted over measured seconds: a factor counts the same for a run of a second
and for one of an hour. Runs that are far off count less (Huber 1964), and each parameter is held near its default by a
prior as wide as such machines differ. What the runs do not show, such as the cost of a request if their requests are
unknown, therefore keeps its default.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from forebay.history.run_fields import Measured
from forebay.model.arrays import Floats, Ints
from forebay.profile.calibration.filesystem_costs import DEFAULT, FileSystem, Pair, Parameters, Waiting
from forebay.profile.calibration.prediction import is_usable, predict_seconds

_NOISE = 0.5  # of the logarithm of a run's seconds: runs of the same program differ by a factor of 1.6
_FAR = 1.0  # times the noise
_STEPS = 200
_DEFAULT_WAITING = Waiting()


@dataclass(frozen=True, slots=True)
class _Prior:
    """A parameter: its default, how far machines are from it, and its physical bounds; all as logarithms, except for
    exponents."""

    default: float
    spread: float
    low: float
    high: float


def _logarithm(default: float, low: float, high: float, spread: float = 1.0) -> _Prior:
    """A spread of 1 is a factor of 2.7."""
    return _Prior(float(np.log(default)), spread, float(np.log(low)), float(np.log(high)))


def _priors(side: int) -> tuple[_Prior, ...]:
    fs, waiting = DEFAULT, _DEFAULT_WAITING
    return (
        _logarithm(fs.bandwidth[side], 1e5, 1e11),
        _logarithm(fs.total[side], 1e6, 1e15),
        _logarithm(fs.call[side], 1e-8, 1e-2),
        _logarithm(fs.latency[side], 1e-6, 1.0),
        _logarithm(fs.lock, 1e-6, 1.0),
        _logarithm(waiting.seconds[side], 1e-6, 1e9, spread=5.0),  # known by its order of magnitude at best
        _Prior(waiting.volume[side], 0.15, 0.0, 1.0),
        _Prior(waiting.processes[side], 0.3, -1.0, 1.0),
    )


def fit_parameters(runs: Measured) -> Parameters:
    """The most probable parameters; those of reads or writes that no run has are the defaults."""
    parameters = Parameters()
    for side in (0, 1):
        chosen = runs[is_usable(runs, side)]
        if chosen.size:
            measured = np.log(chosen["seconds"][:, side])

            def find_errors(point: Floats, chosen: Measured = chosen, measured: Floats = measured, side: int = side,
                            parameters: Parameters = parameters) -> Floats:  # fmt: skip
                predicted = predict_seconds(chosen, side, _place(parameters, side, point))
                return np.asarray(np.log(predicted) - measured)

            parameters = _place(parameters, side, minimise(find_errors, _priors(side)))
    return replace(parameters, fs=replace(parameters.fs, name=_fit_name(runs)))


def _fit_name(runs: Measured) -> float:
    """Seconds for an open."""
    opens: Ints = runs["opens"]
    seconds: Floats = runs["meta_seconds"]
    chosen = (opens > 0) & (seconds > 0)
    prior = (_logarithm(DEFAULT.name, 1e-6, 10.0),)
    if not chosen.any():
        return DEFAULT.name
    measured = np.log(seconds[chosen] / opens[chosen])
    return float(np.exp(minimise(lambda point: np.asarray(point[0] - measured), prior)[0]))


def _place(parameters: Parameters, side: int, point: Floats) -> Parameters:
    """The parameters with those of one side from a point of the search."""
    fs, waiting = parameters.fs, parameters.waiting
    bandwidth, total, call, latency, lock, seconds = np.exp(point[:6]).tolist()
    volume, processes = point[6:].tolist()

    def put(pair: Pair, value: float) -> Pair:
        return (value, pair[1]) if side == 0 else (pair[0], value)

    fs = FileSystem(
        call=put(fs.call, call),
        latency=put(fs.latency, latency),
        lock=lock if side == 1 else fs.lock,
        name=fs.name,
        bandwidth=put(fs.bandwidth, bandwidth),
        total=put(fs.total, total),
        ost=fs.ost,
        rpc=fs.rpc,
    )
    return Parameters(
        fs=fs,
        waiting=Waiting(
            seconds=put(waiting.seconds, seconds),
            volume=put(waiting.volume, volume),
            processes=put(waiting.processes, processes),
        ),
    )


def minimise(find_errors: Callable[[Floats], Floats], priors: tuple[_Prior, ...]) -> Floats:
    """The point with the least cost, by Levenberg's and Marquardt's method, reweighted: far errors count less."""
    centre, spread, low, high = np.array([(p.default, p.spread, p.low, p.high) for p in priors]).T
    point, damping = centre.copy(), 1e-2

    def find_cost(at: Floats) -> float:
        size = np.abs(find_errors(at)) / _NOISE
        huber = np.where(size < _FAR, size**2 / 2, _FAR * (size - _FAR / 2))
        return float(huber.sum() + (((at - centre) / spread) ** 2).sum() / 2)

    cost = find_cost(point)
    for _ in range(_STEPS):
        errors = find_errors(point) / _NOISE
        slopes = np.column_stack([_slope(find_errors, point, i) for i in range(point.size)]) / _NOISE
        weights = np.minimum(1, _FAR / np.maximum(np.abs(errors), 1e-12))
        curvature = slopes.T @ (weights[:, None] * slopes) + np.diag(spread**-2)
        gradient = slopes.T @ (weights * errors) + (point - centre) / spread**2
        step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), -gradient)
        proposed = np.clip(point + np.clip(step, -1, 1), low, high)
        better = find_cost(proposed)
        if better < cost:
            is_done = cost - better < 1e-7 * cost
            point, cost, damping = proposed, better, max(damping / 3, 1e-6)
            if is_done:
                break
        elif damping > 1e8:
            break
        else:
            damping *= 4
    return np.asarray(point)


def _slope(find_errors: Callable[[Floats], Floats], point: Floats, i: int) -> Floats:
    step = np.zeros(point.size)
    step[i] = 1e-4
    return np.asarray((find_errors(point + step) - find_errors(point - step)) / 2e-4)
