"""One simulation: a placement in, what every application and target went through out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forebay.decide.policy import Policy
from forebay.decide.schedule import schedule
from forebay.decide.view import Judge, Score, View
from forebay.model.application import Application
from forebay.model.decision import Never, Placement
from forebay.model.errors import BadInput, Refused
from forebay.model.system import System
from forebay.model.units import format_duration
from forebay.simulate.engine import HORIZON_SLACK, Engine, advance, engine, next_event

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_EVENTS = 1e12  # a day
EVENTS_PER_SLICE = 2_000_000  # half a second or so; between slices Ctrl-C is heard


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What came out over [0, horizon]; per application in the order of the applications.

    `io_seconds` are those of completed phases; `waiting` is how long the I/O under way at the
    horizon has taken. `slowdown` and `rho_con` are nan for an application that completed no
    phase or does no I/O; the means and the maximum leave those out (nan if nothing is left).
    """

    horizon: float
    events: int
    phases_done: Ints
    io_seconds: Floats
    slowdown: Floats
    rho_io: Floats
    rho_con: Floats
    waiting: Floats
    occupancy: Floats
    io_load: float
    machine_idle: float

    @property
    def mean_io_slowdown(self) -> float:
        return mean_of_known(self.slowdown)

    @property
    def max_io_slowdown(self) -> float:
        known = self.slowdown[~np.isnan(self.slowdown)]
        return float(known.max()) if known.size else float("nan")

    @property
    def mean_rho_io(self) -> float:
        return mean_of_known(np.where(np.isnan(self.slowdown), np.nan, self.rho_io))

    @property
    def mean_rho_con(self) -> float:
        return mean_of_known(self.rho_con)

    @property
    def io_spread(self) -> float:
        return float(self.occupancy.max() - self.occupancy.min())


def simulate(
    system: System,
    applications: Sequence[Application],
    placement: Placement,
    *,
    horizon: float = np.inf,
    stop_at_first_finish: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Measures:
    """Let the applications repeat their phases on the given targets over [0, horizon] seconds.

    With `stop_at_first_finish`, only until an application has done its phases. `progress` gets the time reached.
    """
    if not (horizon > 0 and (np.isfinite(horizon) or stop_at_first_finish)):
        raise ValueError(f"the horizon must be positive and finite, not {horizon:g}")
    phases = np.array([a.phases for a in applications], dtype=np.int64)
    compute = np.array([a.compute_seconds for a in applications]) / phases
    bandwidth = np.array([a.curve.at(len(own)) for a, own in zip(applications, placement, strict=True)])
    io = np.array([a.volume for a in applications]) / bandwidth
    _check_length(horizon, compute, io / phases, placement)
    state = engine(system.targets, placement, compute, io / phases, phases)
    reached = -1.0
    while reached < 0:
        reached = advance(state, horizon * (1 + HORIZON_SLACK), EVENTS_PER_SLICE, stop_at_first_finish)
        if progress is not None:
            progress(min(next_event(state), horizon))
    return _measure(system, applications, placement, bandwidth, state, min(reached, horizon))


def judge(system: System, applications: Sequence[Application], *, horizon: float) -> Judge:
    """The simulator as a judge of placements; who completes no phase counts with what it has waited so far."""
    phase_alone = np.array([a.volume / a.phases / max(a.curve.bandwidths) for a in applications])

    def score(placement: Placement) -> Score:
        measures = simulate(system, applications, placement, horizon=horizon)
        with np.errstate(divide="ignore", invalid="ignore"):
            waited = np.maximum(measures.waiting / phase_alone, measures.rho_io)
        slowdown = np.where(np.isnan(measures.slowdown), waited, measures.slowdown)
        return Score(mean_of_known(slowdown, otherwise=1.0), measures.machine_idle)

    return Judge(horizon, score)


def _measure(
    system: System,
    applications: Sequence[Application],
    placement: Placement,
    bandwidth: Floats,
    state: Engine,
    horizon: float,
) -> Measures:
    after, shared = state.applications, state.targets
    done, io_seconds = after["done"].copy(), after["io_seconds"].copy()
    waiting = np.where(after["open"] > 0, horizon - after["started"], 0.0)
    busy = shared["busy"] + np.where(shared["live"] > 0, horizon - shared["since"], 0.0)
    io = np.array([a.volume for a in applications]) / bandwidth
    total = io + [a.compute_seconds for a in applications]
    stress = np.divide(io, total, out=np.zeros_like(io), where=total > 0) * [len(own) for own in placement]
    best_bandwidth = np.array([max(a.curve.bandwidths) for a in applications])
    volume_done = np.array([a.volume / a.phases for a in applications]) * done
    known = volume_done > 0
    slowdown = np.full(done.size, np.nan)
    np.divide(io_seconds * best_bandwidth, volume_done, out=slowdown, where=known)
    rho_io = best_bandwidth / bandwidth
    nodes = np.array([a.compute_nodes for a in applications])
    return Measures(
        horizon=horizon,
        events=int(state.counters[0]),
        phases_done=done,
        io_seconds=io_seconds,
        slowdown=slowdown,
        rho_io=rho_io,
        rho_con=slowdown - rho_io,
        waiting=waiting,
        occupancy=busy / horizon,
        io_load=float(stress.sum() / system.targets),
        machine_idle=float(((io_seconds + waiting) * nodes).sum() / (horizon * system.compute_nodes)),
    )


def mean_of_known(values: Floats, *, otherwise: float = math.nan) -> float:
    """The mean of those that are not nan; `otherwise` if there is none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else otherwise


def _check_length(horizon: float, compute: Floats, io: Floats, placement: Placement) -> None:
    """Refuse what would run for weeks, or for ever because a phase is lost in the clock's last digit."""
    if np.isfinite(horizon):
        events = float((horizon / (compute + io) * [1 + len(own) for own in placement]).sum())
        if events > MOST_EVENTS:
            raise BadInput(
                "horizon", f"{format_duration(horizon)} are up to {events:.2g} events; at most {MOST_EVENTS:.0e} can be"
            )


def decide_placement(
    system: System,
    seen: tuple[Application, ...],
    allocate: Policy,
    place: Policy,
    *,
    rng: np.random.Generator,
    horizon: float,
) -> Placement:
    """Ask the policies for a placement; `horizon` is for those that simulate, and a refusal is an error (`Refused`)."""
    trial = judge(system, seen, horizon=horizon) if allocate.simulates else None
    answer = schedule(View(system, seen, rng=rng, judge=trial), allocate, place)
    if isinstance(answer, Never):
        raise Refused(f"{allocate.name}: {answer.because}")
    return answer
