"""The expected throughput of an application with every layout: a Gaussian process over its runs.

The logarithm of the throughput is a smooth function of log2(stripe count), log2(stripe size) and
log2(processes), measured with multiplicative noise. It combines three sources:

- physics: a dozen hypotheses of what saturates when (`expect_throughput`). They are equally likely before any run, and
  measurements then weigh them. The response may deviate somewhat from each hypothesis;
- runs of other applications: measurements of a similar response. Those with and without shared
  files have separate levels;
- runs of the application itself, with any number of processes; those with a similar number count most.

All constants below are fixed. They are in units of log throughput (0.1 is about 10 %) and of
doublings, and say how far responses can deviate from physics. None is specific to a machine.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from forebay.decide.stripe.view import Past, Peers, StripeView
from forebay.model.arrays import Floats
from forebay.model.layout import MIB

# Spread and reach (in doublings) of deviations from a hypothesis. From one count to its double, the
# throughput can change by about 15 % (one standard deviation) more or less than expected.
_COUNT, _COUNT_REACH = 0.5, 6.0
_KNEE, _KNEE_REACH = 0.15, 1.5  # knees are sharp
_SIZE, _SIZE_REACH = 0.15, 3.0
_BOTH = 0.1  # the interaction of count and size
_MISALIGNED = 0.15  # the effect of requests that do not fit the stripes
_PROCESSES_HALVE = 4.0  # doublings of processes that halve the weight of a run
_LEVEL, _LEVEL_STEP = 3.0, 1.0  # the level, and its change with the processes, are almost free

_LIKE, _UNLIKE = 0.4, 0.2  # correlation with applications of the same pattern; of any other
_CONFOUNDED = 0.8  # spread of their means, as different applications ran different layouts

_NOISE, _NOISE_WEIGHT = 0.2, 2.0  # prior noise, and the number of repeats it counts for
_LEAST_NOISE = 0.02
_HALF_LIFE = 30.0  # runs after which a run counts half, as applications change
_OUTLIER = 2.5  # standard deviations from the median of repeats at which a run is clipped
_PARTIAL = 4.0  # the factor by which an incomplete log counts less
_MOST_RUNS, _MOST_PEERS = 200, 40
_NO_SPREAD = 1e-12

_FEED = (0.0, 0.125, 0.5, 2.0)  # targets that one process can keep busy; each value is a hypothesis
_STRIPE_COST = 0.01  # times the square of the count's doublings
_TRANSFER = 4 * MIB  # the most that a client sends at once; smaller stripes split it
_LARGE_COST, _SMALL_COST = 0.02, 0.04  # per doubling of the size above and below that
_MISALIGNED_COST = 0.05


@dataclass(frozen=True, slots=True)
class Points:
    """Points of the response: logarithms to base 2, and whether requests fit the stripes."""

    count: Floats
    size: Floats
    processes: Floats
    misaligned: Floats
    shared: Floats  # 1 if processes share files, 0 if not, nan if unknown
    alike: Floats  # correlation with this application's response; 1 for its own runs

    @property
    def whose(self) -> Floats:
        """The group that shares a level: 0 for the application, 1 and 2 for others without and with shared files."""
        return np.where(self.alike == 1.0, 0.0, 1.0 + np.nan_to_num(self.shared))


@dataclass(frozen=True)
class Response:
    """Log throughput of some layouts under every hypothesis, their probabilities, and the noise of a single run."""

    means: Floats  # a row for each hypothesis
    likely: Floats  # probability of each hypothesis
    within: Floats  # covariance of the layouts under any one hypothesis
    noise: float

    @cached_property
    def mean(self) -> Floats:
        return np.asarray(self.likely @ self.means)

    @cached_property
    def covariance(self) -> Floats:
        """Over all hypotheses."""
        off = self.means - self.mean
        return np.asarray(self.within + (off.T * self.likely) @ off)

    def risk(self, of: int, gain: Floats | float) -> Floats:
        """Return the probability that each layout exceeds layout `of` by less than `gain` (log)."""
        variance = np.diag(self.within)
        spread = np.sqrt(np.maximum(_NO_SPREAD, variance + variance[of] - 2.0 * self.within[of]))
        above = (self.means - self.means[:, [of]] - gain) / spread
        # The logistic function is within 0.01 of the normal distribution function, and needs no library.
        return np.asarray(self.likely @ (0.5 - 0.5 * np.tanh(0.851 * above)))


def usable_runs(view: StripeView) -> tuple[Past, ...]:
    """Return the latest valid runs; counts are reduced to the stripes that their files can fill."""
    valid = [r for r in view.runs if min(r.count, r.size, r.processes) >= 1 and 0 < r.throughput < math.inf]
    latest = tuple(valid[-_MOST_RUNS:])
    if view.file_size is None:
        return latest
    return tuple(replace(r, count=min(r.count, view.useful(r.size))) for r in latest)


def respond(view: StripeView, counts: ArrayLike, sizes: ArrayLike) -> Response:
    """Predict each layout (counts[i], sizes[i]) for a run with the view's number of processes."""
    runs = usable_runs(view)
    noise = noise_of(runs)
    wanted = points(view, counts, sizes, np.full(np.shape(counts), view.processes), 1.0, math.nan)
    prior, open_ = expect_throughput(view, wanted), _covariance(wanted, wanted)
    measured, values, variances = _measurements(view, runs, noise)
    if not len(values):
        return Response(prior, np.full(len(prior), 1 / len(prior)), open_, noise)
    surprise = values - expect_throughput(view, measured)
    level = np.zeros(surprise.shape)  # the mean of each group, under every hypothesis
    for kind in np.unique(measured.whose):
        same = measured.whose == kind
        level[:, same] = surprise[:, same].mean(axis=1, keepdims=True)
    root = np.linalg.cholesky(_covariance(measured, measured) + np.diag(variances))
    cross = np.linalg.solve(root, _covariance(measured, wanted))
    odd = np.linalg.solve(root, (surprise - level).T)  # in standard deviations, a column for each hypothesis
    log = -0.5 * np.sum(odd**2, axis=0)
    weight = np.exp(log - log.max())
    means = (level[:, :1] if runs else 0.0) + prior + odd.T @ cross
    return Response(means, np.asarray(weight / weight.sum()), open_ - cross.T @ cross, noise)


def noise_of(runs: Sequence[Past]) -> float:
    """Estimate the standard deviation of log throughput between equal runs, with a prior."""
    squares, freedom = _NOISE_WEIGHT * _NOISE**2, _NOISE_WEIGHT
    for logs, _ in _repeats(runs).values():
        squares += float(np.sum((logs - logs.mean()) ** 2))
        freedom += len(logs) - 1
    return max(_LEAST_NOISE, math.sqrt(squares / freedom))


def expect_throughput(view: StripeView, at: Points) -> Floats:
    """Predict log throughput relative to one stripe before any measurement: a row for every hypothesis.

    c stripes, and processes that can keep R targets busy, give c R / (c + R). For a shared file, R
    is proportional to the number of writers; a process with its own file keeps about one target
    busy, or its share of all targets. The factor is a hypothesis, and so is an unknown pattern.
    If requests to a shared file lie side by side, large stripes leave targets idle. More stripes
    cost more.
    """
    latest = view.telling_run[1] if view.telling_run else view.processes
    writers = np.maximum(1.0, min(1.0, (view.io_processes or latest) / latest) * 2.0**at.processes)
    beside = np.log2(np.maximum(1.0, writers * max(view.request_size, MIB) / 2.0**at.size))
    # Whether processes share files, and whether their requests lie side by side: all possible cases.
    patterns = [p for p in ((True, False), (True, True), (False, False)) if view.shared_file in (None, p[0])]
    rows = []
    for feed, (shared, idle) in product(_FEED, patterns):
        together = np.where(np.isnan(at.shared), shared, at.shared == 1.0)
        busy = feed * np.where(together, writers, np.minimum(1.0, view.most / writers))
        count = np.where(together & idle, np.minimum(at.count, beside), at.count)
        rows.append(np.log1p(busy) - np.log1p(busy / 2.0**count))
    larger = at.size - math.log2(_TRANSFER)
    size_cost = _LARGE_COST * np.maximum(larger, 0.0) + _SMALL_COST * np.maximum(-larger, 0.0)
    return np.array(rows) - (_STRIPE_COST * at.count**2 + size_cost + _MISALIGNED_COST * at.misaligned)


def _repeats(runs: Sequence[Past]) -> dict[tuple[int, int, int], tuple[Floats, Floats]]:
    """Group log throughputs by processes, count and size, with the weight of each run."""
    groups: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
    for age, run in enumerate(reversed(runs)):
        counts = 0.5 ** (age / _HALF_LIFE) / (_PARTIAL if run.partial else 1.0)
        groups.setdefault((run.processes, run.count, run.size), []).append((math.log(run.throughput), counts))
    arrays = {key: np.array(group).T for key, group in sorted(groups.items())}
    return {key: (logs, counts) for key, (logs, counts) in arrays.items()}


def _measurements(view: StripeView, runs: Sequence[Past], noise: float) -> tuple[Points, Floats, Floats]:
    """Return all measurements with their variance: the mean of each layout's repeats, then other applications."""
    rows: list[tuple[int, int, int, float, float, float, float]] = []
    for key, (logs, counts) in _repeats(runs).items():
        if len(logs) > 2:  # an outlier among repeats has another cause
            logs = np.clip(logs, np.median(logs) - _OUTLIER * noise, np.median(logs) + _OUTLIER * noise)
        rows.append((*key, 1.0, math.nan, float(np.average(logs, weights=counts)), noise**2 / float(counts.sum())))
    for peer in usable_peers(view):
        alike = _LIKE if peer.shared_file == view.shared_file else _UNLIKE
        spread = _CONFOUNDED**2 + noise**2 / peer.runs
        known = (peer.processes, peer.count, peer.size, alike, float(peer.shared_file))
        rows.append((*known, math.log(peer.throughput), spread))
    processes, counts_, sizes, alikes, shared, values, variances = zip(*rows, strict=True) if rows else [()] * 7
    return points(view, counts_, sizes, processes, alikes, shared), np.array(values), np.array(variances)


def usable_peers(view: StripeView) -> list[Peers]:
    """Return the most informative peers: those with similar process counts and many runs."""

    def order(p: Peers) -> tuple[float, int, int, int, bool]:
        distance = abs(math.log2(p.processes / view.processes)) - math.log2(p.runs) / 2
        return distance, p.processes, p.count, p.size, p.shared_file

    valid = [p for p in view.peers if min(p.processes, p.count, p.size, p.runs) >= 1 and 0 < p.throughput < math.inf]
    return sorted(valid, key=order)[:_MOST_PEERS]


def points(
    view: StripeView, counts: ArrayLike, sizes: ArrayLike, processes: ArrayLike, alike: ArrayLike, shared: ArrayLike
) -> Points:
    count, size = np.asarray(counts, dtype=float), np.asarray(sizes, dtype=np.int64)
    request = view.request_size
    fits = (size % request == 0) | (request % size == 0) if request > 0 else np.ones(len(size), dtype=bool)
    return Points(
        count=np.log2(count),
        size=np.log2(size.astype(float)),
        processes=np.log2(np.asarray(processes, dtype=float)),
        misaligned=(~fits).astype(float),
        shared=np.broadcast_to(np.asarray(shared, dtype=float), count.shape),
        alike=np.broadcast_to(np.asarray(alike, dtype=float), count.shape),
    )


def _covariance(a: Points, b: Points) -> Floats:
    count, size = _near(a.count, b.count, _COUNT_REACH), _near(a.size, b.size, _SIZE_REACH)
    shape = _COUNT**2 * count + _SIZE**2 * size + _BOTH**2 * count * size
    shape += _KNEE**2 * _near(a.count, b.count, _KNEE_REACH)
    shape += _MISALIGNED**2 * np.multiply.outer(a.misaligned, b.misaligned)
    near = 0.5 ** (np.abs(np.subtract.outer(a.processes, b.processes)) / _PROCESSES_HALVE)
    same = np.equal.outer(a.whose, b.whose)
    alike = np.where(same, 1.0, np.multiply.outer(a.alike, b.alike))
    return np.asarray(near * alike * shape + same * (_LEVEL**2 + _LEVEL_STEP**2 * near))


def _near(a: Floats, b: Floats, reach: float) -> Floats:
    """Return the correlation of points on one axis (Matérn 5/2): smooth but flexible."""
    d = math.sqrt(5.0) * np.abs(np.subtract.outer(a, b)) / reach
    return np.asarray((1.0 + d + d * d / 3.0) * np.exp(-d))
