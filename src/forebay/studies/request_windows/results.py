"""What the study of request windows found, and what the paper says it should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forebay.model.layout import KIB
from forebay.model.situation import PATTERNS
from forebay.profile.request_watch import TALLY
from forebay.simulate.requests.workload import Experiment, Workload

PERIOD = np.dtype(
    [
        ("experiment", "i4"),  # its place in the study's list
        ("scheduler", "U80"),
        ("window", "i8"),  # nanoseconds; 0 without windows
        ("repetition", "i4"),
        ("period", "i4"),
        ("node", "i4"),
        ("run", "f8"),  # bytes a second of the whole run
        ("seconds", "f8"),
        *((name, "f4") for name in TALLY),
    ]
)
"""One period at one I/O node."""
DETECTED = np.dtype(
    [
        ("set", "U16"),  # SEEN or UNSEEN
        ("classifier", "U8"),
        ("experiment", "i4"),  # its place in the set's list
        ("operation", "U5"),
        ("pattern", "i4"),  # its place in PATTERNS
        ("window", "i8"),
        ("found", "i8", (len(PATTERNS),)),  # periods recognised as each pattern
    ]
)
DEMANDED = np.dtype(
    [
        ("experiment", "i4"),
        ("reward", "U16"),
        ("tuner", "U80"),
        ("demand", "U8"),  # one of DEMANDS
        ("bin", "i4"),
        ("precision", "f8"),
        ("share", "f8"),
    ]
)
SEEN, UNSEEN = "seen", "unseen"
STEADY, BURSTS, THINKING = DEMANDS = "steady", "bursts", "thinking"
"""Always full; full for a part of the period that changes; from processes that think for a time that changes."""
FIFO, TWINS = "fifo", "twins"

INSTANCES = {
    "A": Experiment(
        nodes=8,
        workload=Workload(processes=128, pattern="shared-strided", operation="read", request=32 * KIB),
    ),
    "B": Experiment(
        nodes=2,
        workload=Workload(processes=128, pattern="shared-contiguous", operation="write", request=32 * KIB),
    ),
    "C": Experiment(
        nodes=8,
        workload=Workload(processes=512, pattern="shared-contiguous", operation="read", request=32 * KIB),
    ),
}
"""Those of section 6.1, by the paper's letters."""
PAPER_SHARES = {"A": (0.87, 1.00), "B": (0.79, 0.99), "C": (0.95, 0.97)}
"""Of the best window's performance in the first and in the last bin, with epsilon 0.15."""
PAPER_PRECISION = {
    "read": (98.0, 99.9, 100.0, 100.0),
    "write": (53.8, 97.9, 100.0, 100.0),
    "total": (53.8, 98.9, 100.0, 100.0),
    "file-per-process": (100.0, 100.0, 100.0, 100.0),
    "shared-contiguous": (54.7, 98.0, 100.0, 100.0),
    "shared-strided": (53.8, 98.9, 100.0, 100.0),
}
"""Tables 1 and 2: least, mean, median and greatest of the experiments, in percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestWindowsResults:
    """All periods (PERIOD), what was learned (LEARNED), detected (DETECTED), and learned under changing demand."""

    settings: Mapping[str, object]
    experiments: Sequence[Experiment]
    unseen: Sequence[Experiment]
    windows: Sequence[int]
    periods: NDArray[np.void]
    learned: NDArray[np.void]
    detected: NDArray[np.void]
    demanded: NDArray[np.void]

    def runs(self) -> NDArray[np.void]:
        """One row of `periods` for each run, of which `run` is the bandwidth."""
        first: NDArray[np.void] = self.periods[(self.periods["period"] == 0) & (self.periods["node"] == 0)]
        return first

    def bandwidths(self) -> NDArray[np.float64]:
        """Mean bytes a second of each experiment, under fifo (first column) and each window."""
        runs = self.runs()
        columns = [runs["scheduler"] == FIFO]
        columns += [(runs["scheduler"] == TWINS) & (runs["window"] == window) for window in self.windows]
        return np.stack([_means(runs[own], len(self.experiments)) for own in columns], axis=1)

    def gains(self) -> NDArray[np.float64]:
        """Of each window over fifo, for each experiment: 0.1 is 10 % faster."""
        found = self.bandwidths()
        gained: NDArray[np.float64] = found[:, 1:] / found[:, :1] - 1
        return gained

    def schedulers(self) -> dict[str, NDArray[np.float64]]:
        """By name, the mean bandwidth of each experiment over fifo's in the same repetitions; twins' best window."""
        runs = self.runs()
        fifo, found = runs[runs["scheduler"] == FIFO], {}
        for name in dict.fromkeys(runs["scheduler"].tolist()):
            own = runs[runs["scheduler"] == name]
            beside = fifo[np.isin(fifo["repetition"], own["repetition"])]
            if name != TWINS:
                found[name] = _means(own, len(self.experiments)) / _means(beside, len(self.experiments))
        return found | {TWINS: self.gains().max(axis=1) + 1}

    def samples(self) -> list[list[NDArray[np.float64]]]:
        """For each experiment and window, the mean bandwidth of its I/O nodes in each whole period."""
        return samples_of(self.periods, len(self.experiments), self.windows)


def samples_of(periods: NDArray[np.void], experiments: int, windows: Sequence[int]) -> list[list[NDArray[np.float64]]]:
    """For each experiment and window, the mean bandwidth of its I/O nodes in each whole period."""
    own = whole(periods[periods["scheduler"] == TWINS])
    order = np.lexsort((own["node"], own["period"], own["repetition"], own["window"], own["experiment"]))
    own = own[order]
    starts = np.flatnonzero(np.r_[True, own["node"][1:] == 0]) if own.size else np.zeros(0, dtype=int)
    sizes = np.diff(np.r_[starts, own.size])
    moved = (own["bytes_read"].astype(np.float64) + own["bytes_written"]) / own["seconds"]
    means = np.add.reduceat(moved, starts) / sizes if own.size else moved
    heads = own[starts]
    return [
        [means[(heads["experiment"] == e) & (heads["window"] == window)] for window in windows]
        for e in range(experiments)
    ]


def whole(periods: NDArray[np.void]) -> NDArray[np.void]:
    """Without those that a run's end cut short, unless a run has no others."""
    length = periods["seconds"].max(initial=0.0)
    runs = np.stack([periods[name] for name in ("experiment", "window", "repetition")], axis=1)
    _, run = np.unique(runs, axis=0, return_inverse=True)
    long = periods["seconds"] > 0.999 * length
    has = np.zeros(run.max(initial=-1) + 1, dtype=bool)
    has[run[long]] = True
    kept: NDArray[np.void] = periods[long | ~has[run]]
    return kept


def _means(rows: NDArray[np.void], experiments: int) -> NDArray[np.float64]:
    count = np.bincount(rows["experiment"], minlength=experiments)
    return np.bincount(rows["experiment"], weights=rows["run"], minlength=experiments) / count
