"""A scenario: one machine, the applications on it, what to measure, read from a TOML file."""

from __future__ import annotations

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
from forebay.simulate.run import decide_placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One simulation's input. `fixed` holds an application's targets where the file gives them."""

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
        """The horizon in seconds; inf where there is none and none is needed."""
        if self.horizon is None and needed:
            raise BadInput(f"{self.path}: measure.horizon", "is missing: how many seconds to simulate")
        return self.horizon or math.inf

    def schedule(self, allocate: Policy, place: Policy, rng: np.random.Generator) -> Placement:
        """What the policies decide; applications with fixed targets keep them, and are seen with no other n."""
        seen = tuple(
            a if own is None else replace(a, curve=Curve.of({len(own): a.curve.at(len(own))}))
            for a, own in zip(self.applications, self.fixed, strict=True)
        )
        free, horizon = place, self.needed_horizon(allocate.simulates)
        if any(self.fixed):
            place = replace(place, decide=lambda view, counts: self._pin_targets(free.decide(view, counts)))
        return self._pin_targets(decide_placement(self.system, seen, allocate, place, rng=rng, horizon=horizon))

    def _pin_targets(self, placement: Placement) -> Placement:
        return tuple(own or chosen for own, chosen in zip(self.fixed, placement, strict=True))


def read_scenario(path: Path) -> Scenario:
    """The scenario in a TOML file; docs/model.md describes the format."""
    parsed = validate(path, load_toml(path), _File)
    try:
        system = System(targets=parsed.system.targets, compute_nodes=parsed.system.compute_nodes)
    except ValueError as error:
        raise BadInput(f"{path}: system", str(error)) from None
    if not parsed.application:
        raise BadInput(f"{path}: application", "there is none; add at least one [[application]]")
    curves = read_curves(path.parent / parsed.curves).by_name if parsed.curves else {}
    for kind in ("allocate", "place"):
        spec = getattr(parsed.policy, kind)
        if spec:
            check_policy(f"{path}: policy.{kind}", kind, spec)
    applications = [_application(path, i, one, curves, system) for i, one in enumerate(parsed.application)]
    return Scenario(
        path=path,
        system=system,
        applications=tuple(applications),
        fixed=tuple(
            _fixed_targets(f"{path}: application[{i}].targets", one.targets, applications[i], system)
            for i, one in enumerate(parsed.application)
        ),
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
    """These targets and no others. [default: what the policies decide]"""


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


def _application(
    path: Path, index: int, parsed: _Application, curves: Mapping[str, Curve], system: System
) -> Application:
    where = f"{path}: application[{index}]"
    _check_keys(where, parsed.model_extra or {})
    curve = locate_errors(f"{where}.curve", lambda: _curve(parsed.curve, curves))
    if curve.last > system.targets:
        raise BadInput(f"{where}.curve", f"has n = {curve.last}, but the system has {system.targets} targets")
    return locate_errors(
        where,
        lambda: Application(
            name=parsed.name,
            compute_nodes=parsed.compute_nodes,
            phases=parsed.phases,
            compute_seconds=parsed.compute_seconds,
            volume=parsed.volume,
            curve=curve,
            fields=dict(parsed.model_extra or {}),
        ),
    )


def _curve(parsed: dict[str, float] | str, curves: Mapping[str, Curve]) -> Curve:
    if isinstance(parsed, str):
        if parsed not in curves:
            raise ValueError(f"no curve {parsed!r} in the file that `curves` names" if curves else "needs `curves`")
        return curves[parsed]
    for n in parsed:
        if not n.isdecimal() or str(int(n)) != n:
            raise ValueError(f"{n!r} is not a number of targets")
    return Curve.of({int(n): bandwidth for n, bandwidth in parsed.items()})


def _fixed_targets(
    where: str, targets: list[int] | None, application: Application, system: System
) -> tuple[int, ...] | None:
    if targets is None:
        return None
    if len(set(targets)) != len(targets) or not all(0 <= t < system.targets for t in targets):
        raise BadInput(where, f"must be different numbers from 0 to {system.targets - 1}, not {targets}")
    locate_errors(where, lambda: application.curve.at(len(targets)))
    return tuple(sorted(targets))


def _check_keys(where: str, extra: Mapping[str, object]) -> None:
    """Keys of one's own are welcome, but not one that looks like a slip of the pen."""
    for key in extra:
        near = difflib.get_close_matches(key, _Application.model_fields, n=1, cutoff=0.8)
        if near:
            raise BadInput(f"{where}.{key}", f"is not a key; did you mean {near[0]!r}?")
