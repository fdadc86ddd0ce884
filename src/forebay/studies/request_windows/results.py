"""The results, and what the paper says they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forebay.model.layout import KIB
from forebay.model.situation import PATTERNS
from forebay.profile.request_watch import TALLY
from forebay.show.rows import Floats, Rows, distinct, select
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
        nodes=8, workload=Workload(processes=128, pattern="shared-strided", operation="read", request=32 * KIB)
    ),
    "B": Experiment(
        nodes=2, workload=Workload(processes=128, pattern="shared-contiguous", operation="write", request=32 * KIB)
    ),
    "C": Experiment(
        nodes=8, workload=Workload(processes=512, pattern="shared-contiguous", operation="read", request=32 * KIB)
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
    periods: Rows
    learned: Rows
    detected: Rows
    demanded: Rows

    def instances(self) -> dict[str, int]:
        """By the paper's letters, those of its instances that are among the experiments."""
        return find_instances(self.experiments)

    def runs(self) -> Rows:
        """One row of `periods` for each run, of which `run` is the bandwidth."""
        return select(self.periods, period=0, node=0)

    def bandwidths(self) -> Floats:
        """Mean bytes a second of each experiment, under fifo (first column) and each window."""
        runs = self.runs()
        columns = [select(runs, scheduler=FIFO)]
        columns += [select(runs, scheduler=TWINS, window=window) for window in self.windows]
        return np.stack([_means(rows, len(self.experiments)) for rows in columns], axis=1)

    def gains(self) -> Floats:
        """Of each window over fifo, for each experiment: 0.1 is 10 % faster."""
        bandwidths = self.bandwidths()
        gained: Floats = bandwidths[:, 1:] / bandwidths[:, :1] - 1
        return gained

    def schedulers(self) -> dict[str, Floats]:
        """By name, the mean bandwidth of each experiment over fifo's in the same repetitions; twins' best window."""
        runs, count = self.runs(), len(self.experiments)
        fifo, over = select(runs, scheduler=FIFO), {}
        for name in distinct(runs, "scheduler"):
            rows = select(runs, scheduler=name)
            beside = fifo[np.isin(fifo["repetition"], rows["repetition"])]
            if name != TWINS:
                over[name] = _means(rows, count) / _means(beside, count)
        return over | {TWINS: self.gains().max(axis=1) + 1}

    def samples(self) -> list[list[Floats]]:
        """For each experiment and window, the mean bandwidth of its I/O nodes in each whole period."""
        return samples_of(self.periods, len(self.experiments), self.windows)


def find_instances(experiments: Sequence[Experiment]) -> dict[str, int]:
    """By the paper's letters, where in the list its instances are, those that are there."""
    names = [e.name for e in experiments]
    return {letter: names.index(e.name) for letter, e in INSTANCES.items() if e.name in names}


def samples_of(periods: Rows, experiments: int, windows: Sequence[int]) -> list[list[Floats]]:
    """For each experiment and window, the mean bandwidth of its I/O nodes in each whole period."""
    rows = whole(select(periods, scheduler=TWINS))
    order = np.lexsort((rows["node"], rows["period"], rows["repetition"], rows["window"], rows["experiment"]))
    rows = rows[order]
    starts = np.flatnonzero(np.r_[True, rows["node"][1:] == 0]) if rows.size else np.zeros(0, dtype=int)
    sizes = np.diff(np.r_[starts, rows.size])
    moved = (rows["bytes_read"].astype(np.float64) + rows["bytes_written"]) / rows["seconds"]
    means = np.add.reduceat(moved, starts) / sizes if rows.size else moved
    heads = rows[starts]
    return [
        [means[(heads["experiment"] == e) & (heads["window"] == window)] for window in windows]
        for e in range(experiments)
    ]


def whole(periods: Rows) -> Rows:
    """Without those that a run's end cut short, unless a run has no others."""
    length = periods["seconds"].max(initial=0.0)
    runs = np.stack([periods[name] for name in ("experiment", "window", "repetition")], axis=1)
    _, run = np.unique(runs, axis=0, return_inverse=True)
    long = periods["seconds"] > 0.999 * length
    has = np.zeros(run.max(initial=-1) + 1, dtype=bool)
    has[run[long]] = True
    kept: Rows = periods[long | ~has[run]]
    return kept


def _means(rows: Rows, experiments: int) -> Floats:
    count = np.bincount(rows["experiment"], minlength=experiments)
    return np.bincount(rows["experiment"], weights=rows["run"], minlength=experiments) / count
