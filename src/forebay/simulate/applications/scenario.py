"""A scenario from a TOML file: a machine, its applications, and what to measure."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from forebay.decide.policy import Policy
from forebay.decide.registry import check_policy
from forebay.history.curves import read_curves
from forebay.history.toml import (
    Bytes,
    BytesPerSecond,
    Field,
    OpenTable,
    Seconds,
    Table,
    load_toml,
    locate_errors,
    validate,
)
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Placement
from forebay.model.errors import BadInput
from forebay.model.system import System
from forebay.simulate.applications.engine import decide_placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The input of a simulation. `fixed` has the targets of an application if the file gives them."""

    path: Path
    system: System
    applications: tuple[Application, ...]
    fixed: tuple[tuple[int, ...] | None, ...]
    horizon: float | None
    stop_at_first_finish: bool
    allocate: str | None
    place: str | None

    @property
    def all_fixed(self) -> bool:
        return None not in self.fixed

    def needed_horizon(self, needed: bool) -> float:
        """Return the horizon in seconds; inf if there is none and none is needed."""
        if self.horizon is None and needed:
            raise BadInput(f"{self.path}: measure.horizon", "is missing; give the seconds to simulate")
        return self.horizon or math.inf

    def schedule(self, allocate: Policy, place: Policy, rng: np.random.Generator) -> Placement:
        """Ask the policies for a placement. Applications keep fixed targets, and policies see only their number."""
        applications = tuple(
            a if targets is None else replace(a, curve=Curve.of({len(targets): a.curve.at(len(targets))}))
            for a, targets in zip(self.applications, self.fixed, strict=True)
        )
        free, horizon = place, self.needed_horizon(allocate.simulates)
        if any(self.fixed):
            place = replace(place, decide=lambda view, counts: self._pin_targets(free.decide(view, counts)))
        return self._pin_targets(decide_placement(self.system, applications, allocate, place, rng=rng, horizon=horizon))

    def _pin_targets(self, placement: Placement) -> Placement:
        return tuple(targets or chosen for targets, chosen in zip(self.fixed, placement, strict=True))


def read_scenario(path: Path) -> Scenario:
    """Read a scenario from a TOML file; docs/model.md describes the format."""
    document = load_toml(path)
    if "storage" in document and "system" not in document:
        raise BadInput(f"{path}: system", "is missing; a file with [storage] is for forebay simulate")
    parsed = validate(path, document, _File)
    system = locate_errors(f"{path}: system", lambda: System(**parsed.system.model_dump()))
    if not parsed.application:
        raise BadInput(f"{path}: application", "is missing; add at least one [[application]]")
    curves = read_curves(path.parent / parsed.curves).by_name if parsed.curves else {}
    for kind in ("allocate", "place"):
        spec = getattr(parsed.policy, kind)
        if spec:
            check_policy(f"{path}: policy.{kind}", kind, spec)
    applications = tuple(
        _application(f"{path}: application[{i}]", application, curves, system.targets)
        for i, application in enumerate(parsed.application)
    )
    return Scenario(
        path=path,
        system=system,
        applications=applications,
        fixed=tuple(None if a.targets is None else tuple(sorted(a.targets)) for a in parsed.application),
        horizon=parsed.measure.horizon,
        stop_at_first_finish=parsed.measure.until == "first-finish",
        allocate=parsed.policy.allocate,
        place=parsed.policy.place,
    )


class _System(Table):
    targets: int
    """How many I/O nodes or OSTs there are."""
    compute_nodes: float
    """How many compute nodes are shared out."""


class _Measure(Table):
    horizon: Annotated[Seconds, Field(gt=0, allow_inf_nan=False)] | None = None
    """How long to simulate."""
    until: Literal["horizon", "first-finish"] = "horizon"
    """`first-finish`: stop when the first application is done."""


class _Policy(Table):
    allocate: str | None = None
    """How many targets each gets; `forebay policies` lists them. [default: forebay]"""
    place: str | None = None
    """Which targets. [default: greedy-non-clairvoyant]"""


class _Application(OpenTable):
    name: str
    """What it is called."""
    compute_nodes: float
    """How many compute nodes it has for itself."""
    phases: int
    """How often it computes and then does I/O."""
    compute_seconds: Seconds
    """How long it computes, in all phases together."""
    volume: Bytes
    """What it reads and writes, in all phases together."""
    curve: dict[str, BytesPerSecond] | str
    """Its bandwidth alone on n targets, as a table { 1 = "0.9 GB/s", … }; or the name of one in `curves`."""
    targets: list[int] | None = None
    """These targets only. [default: the policies decide]"""


class _File(Table):
    system: _System
    """The machine."""
    measure: _Measure = _Measure()
    """What to measure."""
    policy: _Policy = _Policy()
    """By which policies, where the command does not say."""
    curves: str | None = None
    """A CSV file with curves, which applications name; relative to this file."""
    application: list[_Application] = Field(default_factory=list)
    """An application, one table for each. Keys of your own are kept, and policies see them."""


def _application(where: str, parsed: _Application, curves: Mapping[str, Curve], targets: int) -> Application:
    for key in parsed.model_extra or {}:  # other keys are allowed, except probable typing errors
        near = difflib.get_close_matches(key, _Application.model_fields, n=1, cutoff=0.8)
        if near:
            raise BadInput(f"{where}.{key}", f"unknown key; did you mean {near[0]!r}?")
    curve = locate_errors(f"{where}.curve", lambda: _curve(parsed.curve, curves))
    if curve.last > targets:
        raise BadInput(f"{where}.curve", f"has n = {curve.last}, but the system has {targets} targets")
    fixed = parsed.targets
    if fixed is not None:
        if len(set(fixed)) != len(fixed) or not all(0 <= t < targets for t in fixed):
            raise BadInput(f"{where}.targets", f"must be different numbers from 0 to {targets - 1}, not {fixed}")
        locate_errors(f"{where}.targets", lambda: curve.at(len(fixed)))
    values = parsed.model_dump(exclude={"curve", "targets", *(parsed.model_extra or ())})
    return locate_errors(where, lambda: Application(**values, curve=curve, fields=dict(parsed.model_extra or {})))


def _curve(parsed: dict[str, float] | str, curves: Mapping[str, Curve]) -> Curve:
    if isinstance(parsed, str):
        if parsed not in curves:
            raise ValueError(f"no curve {parsed!r} in the `curves` file" if curves else "needs a `curves` file")
        return curves[parsed]
    for n in parsed:
        if not n.isdecimal() or str(int(n)) != n:
            raise ValueError(f"{n!r} is not a whole number of targets")
    return Curve.of({int(n): bandwidth for n, bandwidth in parsed.items()})
