"""Bez et al. 2019, sections 5 and 6.2: how well classifiers recognise access patterns of known and unknown sizes."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.model.observation import Observation
from forebay.model.situation import OPERATIONS, PATTERNS
from forebay.profile.pattern_detector import FEATURES, Classifier, Detector, classify, features
from forebay.show.rows import Rows, match_rows, select
from forebay.simulate.requests.run import build_layer, simulate_requests
from forebay.simulate.requests.workload import Experiment, Workload
from forebay.studies.request_windows.results import DETECTED, FIFO, SEEN, TWINS, UNSEEN, whole

CLASSIFIERS: tuple[Classifier, ...] = ("network", "tree")
_UNSEEN_WINDOWS = (0, 1_000_000)
EDGES = 1  # periods left out at each end of a run, if the run has others


def unseen_experiments() -> tuple[Experiment, ...]:
    """Return experiments whose sizes of requests and files and numbers of processes are not in the training data."""
    nodes, processes = (3, 6), (48, 200)
    requests, totals = (10_000, 100_000, 600_000), (150_000_000, 900_000_000)
    return tuple(
        Experiment(
            nodes=n, workload=Workload(processes=p, pattern=pattern, operation=operation, request=r, total=total)
        )
        for pattern, operation, n, p, r, total in product(PATTERNS, OPERATIONS, nodes, processes, requests, totals)
        if total >= 4 * p * r
    )


def periods_of(experiment: Experiment, window: int, *, seed: int, period: float) -> Iterator[Observation]:
    """Yield what each I/O node observes in each period of a run, without the edges of the run."""
    layer = build_layer(experiment, TWINS if window else FIFO, window)
    outcome = simulate_requests(layer, experiment.workload, seed=seed, period=period)
    count = len(outcome.periods)
    inner = range(EDGES, count - EDGES) if count > 2 * EDGES else range(count)
    for at, node in product(inner, range(experiment.nodes)):
        yield outcome.observe(at, node)


def detect_seen(periods: Any, experiments: Sequence[Experiment], detector: Detector) -> Rows:
    """Return DETECTED rows for every experiment and window, from whole periods with requests."""
    busy = whole(select(periods, scheduler=TWINS))
    reads: NDArray[np.float32] = busy["reads"]
    writes: NDArray[np.float32] = busy["writes"]
    busy = busy[reads + writes > 0]
    measured = np.stack([busy[name].astype(np.float64) for name in FEATURES], axis=1)
    rows = []
    for by in CLASSIFIERS:
        classes = classify(measured, detector, by)
        for e, window in np.unique(busy[["experiment", "window"]]).tolist():
            here = classes[match_rows(busy, experiment=e, window=window)]
            rows.append(_make_row(SEEN, by, e, experiments[e], window, here))
    return np.array(rows, dtype=DETECTED)


def detect_unseen(experiments: Sequence[Experiment], first: int, detector: Detector, seed: int) -> Rows:
    """Return DETECTED rows for experiments of other sizes, which are numbered from `first` on."""
    rows = []
    for e, experiment in enumerate(experiments, start=first):
        for window in _UNSEEN_WINDOWS:
            observed = [o for o in periods_of(experiment, window, seed=seed + e, period=0.05) if o.requests]
            for by in CLASSIFIERS:
                rows.append(_make_row(UNSEEN, by, e, experiment, window, classify(features(observed), detector, by)))
    return np.array(rows, dtype=DETECTED)


def confusion(detected: Rows, of: str, by: str) -> Any:
    """Count periods: a row for each detected and a column for each true pattern, as in Fig. 3."""
    rows = select(detected, set=of, classifier=by)
    table = np.zeros((len(PATTERNS), len(PATTERNS)), dtype=np.int64)
    for row in rows:
        table[:, row["pattern"]] += row["found"]
    return table


def precisions(detected: Rows, of: str, by: str) -> dict[str, tuple[float, float, float, float]]:
    """Return Tables 1 and 2: least, mean, median and greatest percentage of recognised periods in an experiment."""
    rows = select(detected, set=of, classifier=by)
    right = 100.0 * rows["found"][np.arange(rows.size), rows["pattern"]] / rows["found"].sum(axis=1)
    groups = {operation: rows["operation"] == operation for operation in OPERATIONS}
    groups |= {"total": np.ones(rows.size, dtype=bool)}
    groups |= {pattern: rows["pattern"] == number for number, pattern in enumerate(PATTERNS)}
    return {
        name: tuple(float(f(right[here])) for f in (np.min, np.mean, np.median, np.max))  # type: ignore[misc]
        for name, here in groups.items()
        if here.any()
    }


def _make_row(of: str, by: str, e: int, experiment: Experiment, window: int, classes: Any) -> tuple[Any, ...]:
    counts = np.bincount(classes, minlength=len(PATTERNS))
    w = experiment.workload
    return of, by, e, w.operation, PATTERNS.index(w.pattern), window, counts
