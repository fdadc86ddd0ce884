"""What the benchmarks share: inputs drawn as in the paper, and medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from forebay.decide.place import choose_targets
from forebay.decide.policy import Policy
from forebay.decide.view import View
from forebay.history.curves import read_curves
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Never, Placement
from forebay.model.system import System
from forebay.profile.synthetic_curves import PAPER_COUNTS, synthetic_curves
from forebay.simulate.applications.random_sets import PAPER_APPLICATIONS, PAPER_SYSTEM, draw

SEED = 20240521


def curves(path: Path | None = None) -> Mapping[str, Curve]:
    """Those in the file, or synthetic ones like those of I/O nodes."""
    if path is not None:
        return read_curves(path).by_name
    return synthetic_curves("io-nodes", PAPER_COUNTS["io-nodes"], np.random.default_rng(SEED)).by_name


def machine(applications: int) -> System:
    """The paper's machine, scaled to as many applications per target and node as it has with 60."""
    scale = applications / PAPER_APPLICATIONS
    return System(targets=round(PAPER_SYSTEM.targets * scale), compute_nodes=PAPER_SYSTEM.compute_nodes * scale)


def workload(system: System, measured: Mapping[str, Curve], applications: int, load: float) -> tuple[Application, ...]:
    """The same set on every call."""
    return draw(system, measured, applications=applications, load=load, rng=np.random.default_rng(SEED))


def placed(system: System, applications: tuple[Application, ...], allocate: Policy, place: Policy) -> Placement:
    view = View(system, applications, rng=np.random.default_rng(SEED))
    placement = choose_targets(view, allocate, place)
    assert not isinstance(placement, Never)
    return placement


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Median wall time of a call, after one call that compiles and warms up."""
    work()
    return statistics.median(_once(work) for _ in range(repeats))


def verdict(reached: bool) -> str:
    return "reached" if reached else "NOT reached"


def _once(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
