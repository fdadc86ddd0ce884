"""The event loop: applications that compute, then do I/O on their targets, again and again.

An I/O phase over n targets is n independent transfers of equal work; it ends with the last one
(Bandet et al. 2024, section III). The engine jumps from event to event: one tournament holds the
next finish on every target, another the end of every computation.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from forebay.decide.place import choose_targets
from forebay.decide.policy import Policy
from forebay.decide.view import Judge, Score, View
from forebay.model.application import Application
from forebay.model.arrays import Floats, Ints
from forebay.model.decision import Never, Placement
from forebay.model.errors import BadInput, Refused
from forebay.model.kernels import Array, hot_kernel
from forebay.model.system import System
from forebay.model.units import format_duration
from forebay.simulate.sharing import arrive, depart, next_finish, resources
from forebay.simulate.tournament import first, put, tournament

# A phase that ends on the horizon counts, even if rounding errors put it slightly behind.
HORIZON_SLACK = 1e-9
MOST_EVENTS = 1e12  # about a day
EVENTS_PER_SLICE = 2_000_000  # about half a second; Ctrl-C takes effect between slices

# 32 bits where possible: the data of thousands of applications must fit into the cache.
APPLICATION = np.dtype(
    [
        ("begin", np.int32),  # its transfers are `transfers[begin:end]`
        ("end", np.int32),
        ("open", np.int32),  # transfers still under way
        ("goal", np.int32),  # phases of a complete run; the loop can stop when one application reaches it
        ("done", np.int64),  # phases completed
        ("compute", np.float64),  # seconds of computing per phase
        ("work", np.float64),  # seconds that one transfer takes alone
        ("started", np.float64),  # when the I/O under way began
        ("io_seconds", np.float64),  # I/O seconds of completed phases
    ]
)
TRANSFER = np.dtype([("target", np.int32), ("seat", np.int32)])


class Engine(NamedTuple):
    """All state of one simulation."""

    applications: Array
    targets: Array  # see sharing.RESOURCE
    marks: Array
    transfers: Array  # each application's, ascending by target
    owner: Array  # the application of each seat, over all targets
    finishing: Array  # tournament: when the next transfer on each target ends
    computing: Array  # tournament: when each application's computation ends
    counters: Array  # [events so far]


def engine(targets: int, placement: Placement, compute: Array, work: Array, goal: Array) -> Engine:
    """Return the initial state: all applications begin to compute at time 0."""
    applications = np.zeros(len(placement), dtype=APPLICATION)
    counts = np.array([len(chosen) for chosen in placement], dtype=np.int64)
    applications["end"] = np.cumsum(counts)
    applications["begin"] = applications["end"] - counts
    applications["compute"], applications["work"], applications["goal"] = compute, work, goal
    transfers = np.zeros(counts.sum(), dtype=TRANSFER)
    used = np.array([t for chosen in placement for t in chosen], dtype=np.int64)
    if used.size and not 0 <= used.min() <= used.max() < targets:
        raise ValueError(f"targets are numbered from 0 to {targets - 1}")
    idle, marks = resources(np.bincount(used, minlength=targets))
    by_target = np.argsort(used, kind="stable")
    first_seat: Ints = idle["seats"]
    transfers["target"] = used
    transfers["seat"][by_target] = np.arange(by_target.size) - first_seat[used[by_target]]
    return Engine(
        applications=applications,
        targets=idle,
        marks=marks,
        transfers=transfers,
        owner=np.repeat(np.arange(len(placement), dtype=np.int32), counts)[by_target],
        finishing=tournament(np.full(targets, np.inf)),
        computing=tournament(compute),
        counters=np.zeros(1, dtype=np.int64),
    )


@hot_kernel
def advance(state: Array, until: float, most: int, stop_at_goal: bool) -> float:
    """Process events up to and including time `until`, at most `most` of them.

    Returns the time reached: `until`, or when the first application reached its goal. Returns
    -1 after `most` events; then call again.
    """
    # Read from the tuple only once: numba counts references at each access.
    applications, targets, marks, transfers = state.applications, state.targets, state.marks, state.transfers
    owner, finishing, computing = state.owner, state.finishing, state.computing
    mark_bits, finish_bits, compute_bits = marks.view(np.int64), finishing.view(np.int64), computing.view(np.int64)
    finishers, computers = finishing.size // 2, computing.size // 2
    for event in range(most):
        transfer_ends = finishing[1] <= computing[1]
        now = finishing[1] if transfer_ends else computing[1]
        if now > until:
            state.counters[0] += event
            return until
        if transfer_ends:  # the last transfer of an application ends its phase
            t = first(finish_bits, 0, finishers)
            target = targets[np.uint64(t)]
            a = owner[np.uint64(target.seats + depart(target, marks, mark_bits, now))]
            put(finishing, 0, finishers, t, next_finish(target, marks))
            application = applications[np.uint64(a)]
            application.open -= 1
            if application.open == 0:
                application.done += 1
                application.io_seconds += now - application.started
                put(computing, 0, computers, a, now + application.compute)
                if stop_at_goal and application.done >= application.goal:
                    state.counters[0] += event + 1
                    return now  # type: ignore[no-any-return]
        else:  # a computation ends: its application starts a transfer on every target
            a = first(compute_bits, 0, computers)
            put(computing, 0, computers, a, np.inf)
            application = applications[np.uint64(a)]
            application.started = now
            application.open = application.end - application.begin
            for k in range(np.uint64(application.begin), np.uint64(application.end)):
                transfer = transfers[k]
                target = targets[np.uint64(transfer.target)]
                arrive(target, marks, transfer.seat, application.work, now)
                put(finishing, 0, finishers, transfer.target, next_finish(target, marks))
    state.counters[0] += most
    return -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The results over [0, horizon]; arrays are in the order of the applications.

    `io_seconds` covers completed phases; `waiting` is the time spent so far in the I/O phase under
    way at the horizon. `slowdown` and `rho_con` are nan for an application that completed no
    phase or does no I/O; the means and the maximum ignore nan (and are nan if nothing is left).
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
    """Run the applications' phases repeatedly on the given targets over [0, horizon] seconds.

    With `stop_at_first_finish`, stop when an application completes its phases. `progress` gets the time reached.
    """
    if not (horizon > 0 and (np.isfinite(horizon) or stop_at_first_finish)):
        raise ValueError(f"the horizon must be positive and finite, not {horizon:g}")
    view = View(system, tuple(applications))
    phases = np.array([a.phases for a in applications], dtype=np.int64)
    compute = view.compute_seconds / phases
    bandwidth = np.array([a.curve.at(len(targets)) for a, targets in zip(applications, placement, strict=True)])
    io = view.volume / bandwidth
    if np.isfinite(horizon):
        # Refuse runs of weeks, and endless ones, in which a phase is shorter than the clock's resolution.
        events = float((horizon / (compute + io / phases) * [1 + len(targets) for targets in placement]).sum())
        if events > MOST_EVENTS:
            length = f"{format_duration(horizon)} needs up to {events:.2g} events"
            raise BadInput("horizon", f"{length}, more than {MOST_EVENTS:.0e}; choose a shorter horizon")
    state = engine(system.targets, placement, compute, io / phases, phases)
    reached = -1.0
    while reached < 0:
        reached = advance(state, horizon * (1 + HORIZON_SLACK), EVENTS_PER_SLICE, stop_at_first_finish)
        if progress is not None:
            progress(min(float(state.finishing[1]), float(state.computing[1]), horizon))
    return _measure(view, placement, bandwidth, state, min(reached, horizon))


def judge(system: System, applications: Sequence[Application], *, horizon: float) -> Judge:
    """Return the simulator as a judge; an application without a completed phase counts with its waiting time."""
    phase_alone = np.array([a.volume / a.phases / max(a.curve.bandwidths) for a in applications])

    def score(placement: Placement) -> Score:
        measures = simulate(system, applications, placement, horizon=horizon)
        with np.errstate(divide="ignore", invalid="ignore"):
            waited = np.maximum(measures.waiting / phase_alone, measures.rho_io)
        slowdown = np.where(np.isnan(measures.slowdown), waited, measures.slowdown)
        return Score(mean_of_known(slowdown, otherwise=1.0), measures.machine_idle)

    return Judge(horizon, score)


def _measure(view: View, placement: Placement, bandwidth: Floats, state: Engine, horizon: float) -> Measures:
    after, shared, applications = state.applications, state.targets, view.applications
    done, io_seconds = after["done"].copy(), after["io_seconds"].copy()
    waiting = np.where(after["open"] > 0, horizon - after["started"], 0.0)
    busy = shared["busy"] + np.where(shared["live"] > 0, horizon - shared["since"], 0.0)
    io = view.volume / bandwidth
    total = io + view.compute_seconds
    stress = np.divide(io, total, out=np.zeros_like(io), where=total > 0) * [len(targets) for targets in placement]
    best_bandwidth = np.array([max(a.curve.bandwidths) for a in applications])
    volume_done = np.array([a.volume / a.phases for a in applications]) * done
    known = volume_done > 0
    slowdown = np.full(done.size, np.nan)
    np.divide(io_seconds * best_bandwidth, volume_done, out=slowdown, where=known)
    rho_io = best_bandwidth / bandwidth
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
        io_load=float(stress.sum() / view.system.targets),
        machine_idle=float(((io_seconds + waiting) * view.compute_nodes).sum() / (horizon * view.system.compute_nodes)),
    )


def mean_of_known(values: Floats, *, otherwise: float = math.nan) -> float:
    """Return the mean of the values that are not nan; `otherwise` if all are."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else otherwise


def decide_placement(
    system: System,
    applications: tuple[Application, ...],
    allocate: Policy,
    place: Policy,
    *,
    rng: np.random.Generator,
    horizon: float,
) -> Placement:
    """Ask the policies for a placement; `horizon` is for those that simulate. Raises `Refused` if they refuse."""
    trial = judge(system, applications, horizon=horizon) if allocate.simulates else None
    answer = choose_targets(View(system, applications, rng=rng, judge=trial), allocate, place)
    if isinstance(answer, Never):
        raise Refused(f"{allocate.name}: {answer.because}")
    return answer
