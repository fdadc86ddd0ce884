"""What an allocation or placement policy sees of the machine and its applications."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from forebay.model.application import Application
from forebay.model.arrays import Floats, Ints
from forebay.model.decision import Placement
from forebay.model.errors import BadInput
from forebay.model.system import System


@dataclass(frozen=True, slots=True)
class Score:
    """The quality of a schedule: mean I/O slowdown and machine idle time; lower is better."""

    mean_io_slowdown: float
    machine_idle: float

    def combine(self, weight: float) -> float:
        """Combine both into one number, lower is better; slowdown counts with `weight`, computing with 1 - `weight`."""
        check_weight(weight)
        computing = max(1.0 - self.machine_idle, 1e-9)
        return float(self.mean_io_slowdown**weight / computing ** (1.0 - weight))


def check_weight(weight: float) -> None:
    if not 0 <= weight <= 1:
        raise BadInput("policy option", f"weight must be between 0 and 1, not {weight:g}")


@dataclass(frozen=True, slots=True)
class Judge:
    """Scores a placement over [0, horizon]. Callers pass it in, because `decide` does not import the simulator."""

    horizon: float
    score: Callable[[Placement], Score]


def _array(name: str, dtype: type[Any] = np.float64) -> cached_property[Any]:
    """Return a property that holds one attribute of every application as an array."""
    get = attrgetter(name)
    return cached_property(lambda view: np.array([get(a) for a in view.applications], dtype=dtype))


@dataclass(frozen=True)
class View:
    """The applications and the machine, read-only, as values and as arrays.

    Two-dimensional arrays have a row for each application and a column for each n from 0 to
    the largest. Where a curve is not defined, they hold inf (seconds, stress) or 0 (bandwidth),
    so that no minimum or maximum selects that n.

    `rng` is the only source of randomness, and `judge` the only way to try a schedule.
    `places` names the placement policy that follows an allocation, and `place` is its
    function, if the caller knows it.
    """

    system: System
    applications: tuple[Application, ...]
    rng: np.random.Generator | None = None
    judge: Judge | None = None
    place: Callable[[View, Sequence[int]], Placement] | None = None
    places: str | None = None

    first = _array("curve.first", np.int64)  # the smallest n of each application
    last = _array("curve.last", np.int64)
    n_perf = _array("curve.n_perf", np.int64)
    compute_nodes = _array("compute_nodes")
    compute_seconds = _array("compute_seconds")
    volume = _array("volume")

    @cached_property
    def bandwidth(self) -> Floats:
        """b(n), 0 where it is not defined."""
        table = np.zeros((len(self.applications), int(self.last.max()) + 1))
        for row, application in zip(table, self.applications, strict=True):
            row[application.curve.first : application.curve.last + 1] = application.curve.table()
        return table

    @cached_property
    def io_seconds(self) -> Floats:
        """T_cf_io(n), inf where b(n) is not defined."""
        table = np.full(self.bandwidth.shape, np.inf)
        np.divide(self.volume[:, None], self.bandwidth, out=table, where=self.bandwidth > 0)
        return table

    @cached_property
    def io_ratio(self) -> Floats:
        """T_cf_io / (T_cpu + T_cf_io), inf where b(n) is not defined."""
        total = self.compute_seconds[:, None] + self.io_seconds
        table = np.where(np.isfinite(self.io_seconds), 0.0, np.inf)
        np.divide(self.io_seconds, total, out=table, where=np.isfinite(total) & (total > 0))
        return table

    @cached_property
    def io_stress(self) -> Floats:
        """I/O-Stress(n), inf where b(n) is not defined."""
        n = np.arange(self.io_ratio.shape[1])
        n[0] = 1  # no curve is defined for 0, and inf must stay inf
        return self.io_ratio * n

    @cached_property
    def n_sys(self) -> Ints:
        best: Ints = np.argmin(self.io_stress, axis=1)
        return best

    def io_load(self, counts: Sequence[int] | Ints) -> float:
        """I/O-load of an allocation (Bandet et al. 2024, Eq. 3)."""
        rows: Any = np.arange(len(self.applications))
        return float(self.io_stress[rows, np.asarray(counts)].sum() / self.system.targets)
