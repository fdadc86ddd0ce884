"""Numbers of a study of request windows that its tables, figures and words share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.model.layout import KIB
from forebay.model.units import plural
from forebay.simulate.requests.learning import BIN
from forebay.simulate.requests.workload import Experiment
from forebay.studies.request_windows.results import INSTANCES, RequestWindowsResults

Rows = NDArray[np.void]
Floats = NDArray[np.float64]

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
        return called(self.tuner) + (", after similar situations" if self.similar else "")


def called(tuner: str) -> str:
    """
    >>> called("epsilon-greedy:epsilon=0.1"), called("ucb:width=2.0")
    ('epsilon 0.1', 'ucb:width=2.0')
    """
    name, _, options = tuner.partition(":epsilon=")
    return f"epsilon {options}" if name == GREEDY and options and ":" not in options else tuner


def ways(results: RequestWindowsResults) -> list[Way]:
    """In the order asked for; one that heard of others comes right after itself."""
    own = results.learned[~results.learned["together"]]
    found = set(zip(own["tuner"].tolist(), own["similar"].tolist(), strict=True))
    order = list(dict.fromkeys(own["tuner"].tolist()))
    asked = [str(name) for name in _listed(results.settings.get("tuners")) if name in order] or order
    return [Way(name, similar) for name in asked for similar in (False, True) if (name, similar) in found]


def alone(results: RequestWindowsResults, way: Way) -> Rows:
    """What it learned in every situation by itself."""
    rows = results.learned
    own: Rows = rows[~rows["together"] & (rows["tuner"] == way.tuner) & (rows["similar"] == way.similar)]
    return own


def together(results: RequestWindowsResults, tuner: str) -> Rows:
    """What it learned in the instances that took turns."""
    own: Rows = results.learned[results.learned["together"] & (results.learned["tuner"] == tuner)]
    return own


def over_steps(rows: Rows, column: str) -> tuple[Floats, Floats]:
    """At the last step of each bin, the mean of all situations that have a value in it."""
    own = rows[np.isfinite(rows[column])]
    bins, of = np.unique(own["bin"], return_inverse=True)
    means = np.bincount(of, weights=own[column]) / np.bincount(of)
    return (bins + 1.0) * BIN, means


def last(rows: Rows, column: str) -> Floats:
    """In the last bin, by situation."""
    own = rows[rows["bin"] == rows["bin"].max(initial=0)]
    values: Floats = own[column][np.argsort(own["experiment"], kind="stable")]
    return values


def steps(results: RequestWindowsResults) -> int:
    """That each tuner has."""
    own = results.learned[~results.learned["together"]]
    return (int(own["bin"].max()) + 1) * BIN if own.size else 0


def reached(rows: Rows) -> float:
    """The step from which on the mean share of the best is NEAR it for good; nan if it never is."""
    at, share = over_steps(rows, "share")
    below = np.flatnonzero(share < NEAR)
    first = int(below[-1]) + 1 if below.size else 0
    return float(at[first]) if first < at.size else float("nan")


def instances(results: RequestWindowsResults) -> dict[str, int]:
    """By the paper's letters, those of its instances that are among the experiments."""
    names = [e.name for e in results.experiments]
    return {letter: names.index(e.name) for letter, e in INSTANCES.items() if e.name in names}


def of_experiment(rows: Rows, number: int) -> Rows:
    own: Rows = rows[rows["experiment"] == number]
    return own


def chosen(results: RequestWindowsResults, **wanted: object) -> NDArray[np.int64]:
    """Places of the experiments that have these values: of `nodes` or of anything that a workload has."""
    return np.array(
        [i for i, e in enumerate(results.experiments) if all(_value(e, k) == v for k, v in wanted.items())],
        dtype=np.int64,
    )


def values_of(results: RequestWindowsResults, name: str) -> list[Any]:
    """All that there are, in the order in which they come."""
    return list(dict.fromkeys(_value(e, name) for e in results.experiments))


def told(experiment: Experiment) -> str:
    """A situation in words."""
    w = experiment.workload
    nodes = plural(experiment.nodes, "I/O node")
    return f"{plural(w.processes, 'process')}, {SHORT[w.pattern]} {w.operation}s of {size(w.request)}, {nodes}"


def size(request: int) -> str:
    """
    >>> size(32768), size(10000)
    ('32 KiB', '10000 B')
    """
    return f"{request} B" if request % KIB else f"{request // KIB} KiB"


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


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()
