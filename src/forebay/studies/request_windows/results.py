"""The results, and the numbers of the paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.history.toml import load_toml
from forebay.model.arrays import Floats, Ints
from forebay.model.layout import KIB
from forebay.model.situation import PATTERNS
from forebay.model.units import format_binary, plural
from forebay.profile.request_watch import TALLY
from forebay.show.rows import Rows, distinct_values, match_rows, read_columns, select
from forebay.simulate.requests.learning import BIN
from forebay.simulate.requests.workload import Experiment, Workload

_COLUMNS = read_columns(__file__)
PERIOD = np.dtype([*_COLUMNS["period"], *((name, "f4") for name in TALLY)])
"""One period at one I/O node."""
DETECTED = np.dtype([*_COLUMNS["detected"], ("found", "i8", (len(PATTERNS),))])
"""The number of periods of a run that were recognised as each pattern."""
DEMANDED = np.dtype(_COLUMNS["demanded"])
SEEN, UNSEEN = "seen", "unseen"
STEADY, BURSTS, THINKING = DEMANDS = "steady", "bursts", "thinking"
"""Always full; full for a changing share of the period; from processes with a changing think time."""
FIFO, TWINS = "fifo", "twins"

PAPER = load_toml(Path(__file__).with_name("paper.toml"))
INSTANCES = {
    letter: Experiment(nodes=instance["nodes"], workload=Workload(**instance["workload"], request=32 * KIB))
    for letter, instance in PAPER["instances"].items()
}


@dataclass(frozen=True, slots=True, order=True)
class Way:
    """A tuner that starts anew in each situation, or one that has met `similar` situations before."""

    tuner: str
    similar: bool = False

    @property
    def label(self) -> str:
        return tuner_label(self.tuner) + (", after similar situations" if self.similar else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestWindowsResults:
    """All periods (PERIOD), what tuners learned (LEARNED, DEMANDED), and what classifiers detected (DETECTED).

    `learned_longer` has what tuners learned in the paper's instances over many more steps.
    """

    settings: Mapping[str, object]
    experiments: Sequence[Experiment]
    unseen: Sequence[Experiment]
    windows: Sequence[int]
    periods: Rows
    learned: Rows
    learned_longer: Rows
    detected: Rows
    demanded: Rows

    def instances(self) -> dict[str, int]:
        """Return, by letter, the places of the paper's instances among the experiments."""
        return find_instances(self.experiments)

    def runs(self) -> Rows:
        """Return one row of `periods` for each run; its column `run` is the bandwidth of the run."""
        return select(self.periods, period=0, node=0)

    def bandwidths(self) -> Floats:
        """Return the mean bytes per second of each experiment, under fifo (first column) and each window."""
        runs = self.runs()
        columns = [select(runs, scheduler=FIFO)]
        columns += [select(runs, scheduler=TWINS, window=window) for window in self.windows]
        return np.stack([_means(rows, len(self.experiments)) for rows in columns], axis=1)

    def gains(self) -> Floats:
        """Return the gain of each window over fifo, for each experiment: 0.1 is 10 % faster."""
        bandwidths = self.bandwidths()
        gained: Floats = bandwidths[:, 1:] / bandwidths[:, :1] - 1
        return gained

    def schedulers(self) -> dict[str, Floats]:
        """Return, by scheduler, each experiment's bandwidth over fifo's in the same repetitions; twins' best window."""
        runs, count = self.runs(), len(self.experiments)
        fifo, over = select(runs, scheduler=FIFO), {}
        for name in distinct_values(runs, "scheduler"):
            rows = select(runs, scheduler=name)
            beside = fifo[np.isin(fifo["repetition"], distinct_values(rows, "repetition"))]
            if name != TWINS:
                over[name] = _means(rows, count) / _means(beside, count)
        return over | {TWINS: self.gains().max(axis=1) + 1}

    def ways(self) -> list[Way]:
        """Return the ways in the order of the request; a tuner after similar situations follows the tuner alone."""
        learned = select(self.learned, together=False)
        pairs, order = set(distinct_values(learned, "tuner", "similar")), distinct_values(learned, "tuner")
        tuners: Any = self.settings.get("tuners") or ()
        wanted = [name for name in tuners if name in order] or order
        return [Way(name, similar) for name in wanted for similar in (False, True) if (name, similar) in pairs]

    def learned_alone(self, way: Way) -> Rows:
        """Return what the tuner learned in each situation alone."""
        return select(self.learned, together=False, tuner=way.tuner, similar=way.similar)

    def learned_together(self, tuner: str) -> Rows:
        """Return what the tuner learned in the instances that took turns."""
        return select(self.learned, together=True, tuner=tuner)

    @property
    def steps(self) -> int:
        """The number of steps of each tuner."""
        rows = select(self.learned, together=False)
        return (int(rows["bin"].max()) + 1) * BIN if rows.size else 0

    def find_experiments(self, **wanted: object) -> NDArray[np.int64]:
        """Return the places of the experiments with these values of `nodes` or of fields of the workload."""
        chosen = [all(value_of(e, k) == v for k, v in wanted.items()) for e in self.experiments]
        return np.flatnonzero(chosen)

    def describe_experiment(self, number: int) -> str:
        """Describe a situation in words."""
        w, nodes = self.experiments[number].workload, plural(self.experiments[number].nodes, "I/O node")
        requests = f"{SHORT[w.pattern]} {w.operation}s of {format_binary(w.request)}"
        return f"{plural(w.processes, 'process')}, {requests}, {nodes}"

    def values_of(self, name: str) -> list[Any]:
        """Return the distinct values, in the order of the experiments."""
        return list(dict.fromkeys(value_of(e, name) for e in self.experiments))


def find_instances(experiments: Sequence[Experiment]) -> dict[str, int]:
    """Return, by the paper's letters, the places of its instances in the list; missing ones are left out."""
    names = [e.name for e in experiments]
    return {letter: names.index(e.name) for letter, e in INSTANCES.items() if e.name in names}


def samples_of(periods: Rows, experiments: int, windows: Sequence[int]) -> list[list[Floats]]:
    """Return, for each experiment and window, the mean bandwidth of its I/O nodes in each whole period."""
    rows = whole(select(periods, scheduler=TWINS))
    order = np.lexsort((rows["node"], rows["period"], rows["repetition"], rows["window"], rows["experiment"]))
    rows = rows[order]
    starts = np.flatnonzero(np.r_[True, rows["node"][1:] == 0]) if rows.size else np.zeros(0, dtype=int)
    sizes = np.diff(np.r_[starts, rows.size])
    read: Floats = rows["bytes_read"].astype(np.float64)
    written: NDArray[np.float32] = rows["bytes_written"]
    seconds: Floats = rows["seconds"]
    moved = (read + written) / seconds
    means = np.add.reduceat(moved, starts) / sizes if rows.size else moved
    heads = rows[starts]
    return [[means[match_rows(heads, experiment=e, window=window)] for window in windows] for e in range(experiments)]


def whole(periods: Rows) -> Rows:
    """Drop the periods that the end of a run cut short, unless the run has no others."""
    length = periods["seconds"].max(initial=0.0)
    columns: list[Ints] = [periods[name].astype(np.int64) for name in ("experiment", "window", "repetition")]
    runs = np.stack(columns, axis=1)
    _, run = np.unique(runs, axis=0, return_inverse=True)
    long = periods["seconds"] > 0.999 * length
    has = np.zeros(run.max(initial=-1) + 1, dtype=bool)
    has[run[long]] = True
    kept: Rows = periods[long | ~has[run]]
    return kept


def _means(rows: Rows, experiments: int) -> Floats:
    of: NDArray[np.int32] = rows["experiment"]
    count = np.bincount(of, minlength=experiments)
    return np.bincount(of, weights=rows["run"], minlength=experiments) / count


GREEDY = "epsilon-greedy"
TENTH, PAPERS = f"{GREEDY}:epsilon=0.1", f"{GREEDY}:epsilon=0.15"
FOREBAY = "forebay"
PAPER_PRECISION = 0.88  # of decisions, in hundreds of steps (section 8)
NOTABLE = 0.02  # a smaller gain or loss against fifo counts as no difference
NEAR = 0.99  # share of the best window's performance that counts as reached
SHORT = {"file-per-process": "file per process", "shared-contiguous": "shared, contiguous"}
SHORT |= {"shared-strided": "shared, strided"}


def tuner_label(tuner: str) -> str:
    """
    >>> tuner_label("epsilon-greedy:epsilon=0.1"), tuner_label("ucb:width=2.0")
    ('epsilon 0.1', 'ucb:width=2.0')
    """
    name, _, options = tuner.partition(":epsilon=")
    return f"epsilon {options}" if name == GREEDY and options and ":" not in options else tuner


def over_steps(rows: Rows, column: str) -> tuple[Floats, Floats]:
    """Return the last step of each bin, and the mean over the situations that have a value in it."""
    values: Floats = rows[column]
    number: Ints = rows["bin"].astype(np.int64)
    known = np.isfinite(values)
    bins, of = np.unique(number[known], return_inverse=True)
    means = np.bincount(of, weights=values[known]) / np.bincount(of)
    return (bins.astype(np.float64) + 1.0) * BIN, means


def last_values(rows: Rows, column: str) -> Floats:
    """Return the values in the last bin, by situation."""
    rows = select(rows, bin=rows["bin"].max(initial=0))
    values: Floats = rows[column][np.argsort(rows["experiment"], kind="stable")]
    return values


def step_reached(rows: Rows) -> float:
    """Return the step from which the mean share of the best stays above NEAR, or nan."""
    at, share = over_steps(rows, "share")
    below = np.flatnonzero(share < NEAR)
    first = int(below[-1]) + 1 if below.size else 0
    return float(at[first]) if first < at.size else float("nan")


def milliseconds(window: int) -> str:
    """
    >>> milliseconds(125_000), milliseconds(8_000_000)
    ('0.125', '8')
    """
    return f"{window / 1e6:g}"


def percent(share: float, digits: int = 0) -> str:
    """Format a share in percent, with its sign.

    >>> percent(0.123), percent(-0.5), percent(-0.0001)
    ('+12 %', '-50 %', '0 %')
    """
    text = f"{100 * share:+.{digits}f}"
    return ("0" if float(text) == 0 else text) + " %"


def value_of(experiment: Experiment, name: str) -> Any:
    """Return `nodes`, or a field of the workload."""
    return experiment.nodes if name == "nodes" else getattr(experiment.workload, name)
