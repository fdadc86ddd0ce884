"""Numbers that tables, figures and findings share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.model.units import plural
from forebay.show.phrases import format_binary
from forebay.show.rows import Floats, Rows, distinct, select
from forebay.simulate.requests.learning import BIN
from forebay.simulate.requests.workload import Experiment
from forebay.studies.request_windows.results import RequestWindowsResults

GREEDY = "epsilon-greedy"
TENTH, PAPERS = f"{GREEDY}:epsilon=0.1", f"{GREEDY}:epsilon=0.15"
FOREBAY = "forebay"
NOTABLE = 0.02  # below so much over fifo or under it, a window makes no difference
NEAR = 0.99  # of the best window's performance, from which on it is called reached
SHORT = {"file-per-process": "file per process", "shared-contiguous": "shared, contiguous"}
SHORT |= {"shared-strided": "shared, strided"}


@dataclass(frozen=True, slots=True, order=True)
class Way:
    """A tuner by itself in each situation, or one that had heard of `similar` ones before."""

    tuner: str
    similar: bool = False

    @property
    def label(self) -> str:
        return tuner_label(self.tuner) + (", after similar situations" if self.similar else "")


def tuner_label(tuner: str) -> str:
    """
    >>> tuner_label("epsilon-greedy:epsilon=0.1"), tuner_label("ucb:width=2.0")
    ('epsilon 0.1', 'ucb:width=2.0')
    """
    name, _, options = tuner.partition(":epsilon=")
    return f"epsilon {options}" if name == GREEDY and options and ":" not in options else tuner


def ways(results: RequestWindowsResults) -> list[Way]:
    """In the order asked for; one that heard of others comes right after itself."""
    learned = select(results.learned, together=False)
    pairs, order = set(distinct(learned, "tuner", "similar")), distinct(learned, "tuner")
    tuners: Any = results.settings.get("tuners") or ()
    wanted = [name for name in tuners if name in order] or order
    return [Way(name, similar) for name in wanted for similar in (False, True) if (name, similar) in pairs]


def learned_alone(results: RequestWindowsResults, way: Way) -> Rows:
    """What it learned in every situation by itself."""
    return select(results.learned, together=False, tuner=way.tuner, similar=way.similar)


def learned_together(results: RequestWindowsResults, tuner: str) -> Rows:
    """What it learned in the instances that took turns."""
    return select(results.learned, together=True, tuner=tuner)


def over_steps(rows: Rows, column: str) -> tuple[Floats, Floats]:
    """At the last step of each bin, the mean of all situations that have a value in it."""
    rows = rows[np.isfinite(rows[column])]
    bins, of = np.unique(rows["bin"], return_inverse=True)
    means = np.bincount(of, weights=rows[column]) / np.bincount(of)
    return (bins + 1.0) * BIN, means


def last_values(rows: Rows, column: str) -> Floats:
    """In the last bin, by situation."""
    rows = select(rows, bin=rows["bin"].max(initial=0))
    values: Floats = rows[column][np.argsort(rows["experiment"], kind="stable")]
    return values


def steps(results: RequestWindowsResults) -> int:
    """That each tuner has."""
    rows = select(results.learned, together=False)
    return (int(rows["bin"].max()) + 1) * BIN if rows.size else 0


def step_reached(rows: Rows) -> float:
    """The step from which on the mean share of the best is NEAR it for good; nan if it never is."""
    at, share = over_steps(rows, "share")
    below = np.flatnonzero(share < NEAR)
    first = int(below[-1]) + 1 if below.size else 0
    return float(at[first]) if first < at.size else float("nan")


def find_experiments(results: RequestWindowsResults, **wanted: object) -> NDArray[np.int64]:
    """Places of the experiments that have these values: of `nodes` or of anything that a workload has."""
    return np.array(
        [i for i, e in enumerate(results.experiments) if all(_value(e, k) == v for k, v in wanted.items())],
        dtype=np.int64,
    )


def values_of(results: RequestWindowsResults, name: str) -> list[Any]:
    """All that there are, in the order in which they come."""
    return list(dict.fromkeys(_value(e, name) for e in results.experiments))


def describe_experiment(experiment: Experiment) -> str:
    """A situation in words."""
    w = experiment.workload
    nodes = plural(experiment.nodes, "I/O node")
    return f"{plural(w.processes, 'process')}, {SHORT[w.pattern]} {w.operation}s of {format_binary(w.request)}, {nodes}"


def milliseconds(window: int) -> str:
    """
    >>> milliseconds(125_000), milliseconds(8_000_000)
    ('0.125', '8')
    """
    return f"{window / 1e6:g}"


def percent(share: float, digits: int = 0) -> str:
    """With its sign.

    >>> percent(0.123), percent(-0.5), percent(-0.0001)
    ('+12 %', '-50 %', '0 %')
    """
    text = f"{100 * share:+.{digits}f}"
    return ("0" if float(text) == 0 else text) + " %"


def _value(experiment: Experiment, name: str) -> Any:
    return experiment.nodes if name == "nodes" else getattr(experiment.workload, name)
