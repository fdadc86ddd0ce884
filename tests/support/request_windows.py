"""A study of request windows, made up: every number can be told in advance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from forebay.model.situation import PATTERNS
from forebay.simulate.requests.learning import LEARNED
from forebay.simulate.requests.workload import Experiment, Workload
from forebay.studies.request_windows.results import (
    DEMANDED,
    DEMANDS,
    DETECTED,
    INSTANCES,
    PERIOD,
    SEEN,
    UNSEEN,
    RequestWindowsResults,
)

TENTH, PAPERS = "epsilon-greedy:epsilon=0.1", "epsilon-greedy:epsilon=0.15"
TUNERS = (TENTH, PAPERS, "forebay", "my<own>")
WINDOWS = (125_000, 1_000_000, 8_000_000)
BINS = 6
# By pattern, bandwidth over fifo's with each window.
OVER = {"file-per-process": (1.0, 1.01, 0.9), "shared-contiguous": (1.1, 1.2, 0.7), "shared-strided": (1.0, 1.1, 1.25)}
# Lost in each bin: of 10 steps.
LOSES = {TENTH: 0.5, PAPERS: 0.6, "forebay": 0.2, "my<own>": 0.7}
SETTINGS: dict[str, object] = {
    "tuners": list(TUNERS),
    "repetitions": 2,
    "period": 0.25,
    "replays": 100,
    "demand replays": 30,
    "seed": 7,
}


def others() -> list[Experiment]:
    """Beside the paper's instances, through one I/O node."""
    return [
        Experiment(nodes=1, workload=Workload(processes=256, pattern=p, operation=o, request=256 * 1024))
        for p in PATTERNS
        for o in ("read", "write")
    ]


def made_up(
    experiments: Sequence[Experiment] | None = None,
    *,
    tuners: Sequence[str] = TUNERS,
    schedulers: Sequence[str] = ("hbrr", "wfq"),
) -> RequestWindowsResults:
    """The paper's three instances and six more, unless others are given."""
    experiments = [*INSTANCES.values(), *others()] if experiments is None else experiments
    letters = [n for n, e in enumerate(experiments) if e.name in {i.name for i in INSTANCES.values()}]
    return RequestWindowsResults(
        settings=SETTINGS,
        experiments=experiments,
        unseen=others(),
        windows=WINDOWS,
        periods=_periods(experiments, schedulers),
        learned=_learned(len(experiments), letters, tuners),
        learned_longer=_learned_longer(letters, tuners),
        detected=_detected(experiments),
        demanded=_demanded(letters, tuners),
    )


def _periods(experiments: Sequence[Experiment], schedulers: Sequence[str]) -> Any:
    rows = []
    for number, experiment in enumerate(experiments):
        fifo = 1e8 * experiment.nodes
        over = OVER[experiment.workload.pattern]
        ways = [("fifo", 0, 1.0), *(("twins", w, o) for w, o in zip(WINDOWS, over, strict=True))]
        ways += [(name, 0, 1.5 if name == "hbrr" else 1.0) for name in schedulers]
        for (scheduler, window, ratio), repetition, period in product(ways, range(2), range(2)):
            # Two repetitions 10 % apart, about a mean of 1.
            bandwidth = fifo * ratio * (0.95 + 0.1 * repetition)
            for node in range(experiment.nodes):
                row = np.zeros((), dtype=PERIOD)
                for name, value in (("experiment", number), ("scheduler", scheduler), ("window", window)):
                    row[name] = value
                row["repetition"], row["period"], row["node"], row["run"] = repetition, period, node, bandwidth
                row["seconds"], row["bytes_read"] = 0.25, 0.25 * bandwidth / experiment.nodes
                rows.append(row)
    return np.array(rows, dtype=PERIOD)


def _learned(experiments: int, letters: Sequence[int], tuners: Sequence[str]) -> Any:
    rows = []
    for tuner, number, b in product(tuners, range(experiments), range(BINS)):
        lost = LOSES.get(tuner, 0.3)
        figures = (0.2 + 0.1 * b, 0.88 + 0.0196 * b, lost * (b + 1))
        rows.append((tuner, False, False, number, b, *figures))
        if tuner == "forebay":
            rows.append((tuner, True, False, number, b, 0.5, 0.99, 0.1 * (b + 1)))
        if number in letters:
            rows.append((tuner, False, True, number, b, np.nan if b == 0 else figures[0], 0.95, figures[2]))
    return np.array(rows, dtype=LEARNED)


def _learned_longer(letters: Sequence[int], tuners: Sequence[str]) -> Any:
    """Precision grows from 0 to 99 % in ten times as many bins."""
    rows = [
        (tuner, False, False, number, b, 0.99 * b / (10 * BINS - 1), 0.99, 1.0)
        for tuner, number, b in product(tuners, letters, range(10 * BINS))
    ]
    return np.array(rows, dtype=LEARNED)


def _detected(experiments: Sequence[Experiment]) -> Any:
    rows = []
    for (of, every), by in product(((SEEN, experiments), (UNSEEN, others())), ("network", "tree")):
        for number, experiment in enumerate(every):
            pattern = PATTERNS.index(experiment.workload.pattern)
            wrong = 10 if (of, by, pattern) == (UNSEEN, "network", 2) else 0
            found = np.zeros(len(PATTERNS), dtype=int)
            found[pattern], found[1] = 100 - wrong, found[1] + wrong
            if pattern == 1:
                found[1] = 100
            rows.append((of, by, number, experiment.workload.operation, pattern, WINDOWS[0], found))
    return np.array(rows, dtype=DETECTED)


def _demanded(letters: Sequence[int], tuners: Sequence[str]) -> Any:
    rows = []
    for number, tuner, reward, demand, b in product(
        letters, [t for t in tuners if t in (TENTH, "forebay")], ("bandwidth", "demand"), DEMANDS, range(BINS)
    ):
        misled = reward == "bandwidth" and demand != DEMANDS[0]
        rows.append((number, reward, tuner, demand, b, 0.5, 0.8 if misled else 0.95))
    return np.array(rows, dtype=DEMANDED)
