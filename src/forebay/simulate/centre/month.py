"""One month of a centre: jobs start and end, and the active decisions are made then."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from forebay.decide.policy import Policy
from forebay.decide.registry import find
from forebay.decide.storage.policies import OTHER, number
from forebay.decide.storage.policy_memory import turn
from forebay.decide.storage.request_placement import PART, PLACING, try_place
from forebay.decide.stripe.view import Past, StripeView
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.errors import BadInput
from forebay.model.kernels import Array, kernel
from forebay.model.layout import ANY, Target
from forebay.model.ledger import book, has_room, ledger, shorten, widen
from forebay.model.system import Platform, System
from forebay.simulate.applications.engine import decide_placement
from forebay.simulate.centre import engine
from forebay.simulate.centre.engine import DRAINS, FLASH_PART
from forebay.simulate.centre.layouts import Laid, alone, on_flash, record
from forebay.simulate.centre.machine import Centre
from forebay.simulate.centre.random_month import App, Drawn
from forebay.simulate.centre.request_gains import Gain, gain_of
from forebay.simulate.centre.workload import Workload
from forebay.simulate.sharing import with_more_seats

STORAGE, STRIPE, ALLOCATE, REQUESTS = DECISIONS = ("storage", "stripe", "allocate", "requests")
_HEADROOM = 1.25  # factor on requested space, as profiles can be too small
_FREE = 10**15
_MORE = 3600.0  # seconds by which to prolong the grant of a job that still runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The final JOB of every job, and totals."""

    jobs: NDArray[np.void]
    stripes: NDArray[np.int64]  # of each job's files
    moved: NDArray[np.float64]  # bytes to each target: disks, then flash
    refused: int  # requests for space
    events: int


def run_month(
    centre: Centre, workload: Workload, drawn: Drawn, on: frozenset[str], gains: tuple[Gain, ...], *, seed: int
) -> Outcome:
    """Simulate the month with the decisions in `on`; random draws do not depend on them."""
    return _Month(centre, workload, drawn, on, gains, seed).run()


class _Month:
    def __init__(
        self, centre: Centre, workload: Workload, drawn: Drawn, on: frozenset[str], gains: tuple[Gain, ...], seed: int
    ) -> None:
        self._centre, self._workload, self._drawn, self._on, self._gains = centre, workload, drawn, on, gains
        policies = workload.policies
        self._stripe, self._allocate = find("stripe", policies.stripe), find("allocate", policies.allocate)
        self._place = find("place", policies.place)
        self._space = Space(centre.platform, find("storage", policies.storage), int(policies.split), seed)
        self._rng = np.random.default_rng([seed, 1])
        self._first = np.random.default_rng([seed, 2]).integers(centre.targets, size=drawn.jobs.size)
        self._state = engine.state(
            drawn.jobs.copy(), drawn.start, centre.targets, centre.flash.osts, centre.capacity.pools
        )
        self._running: dict[int, Laid] = {}
        self._seen: dict[int, Application] = {}  # their profiles
        self._runs: dict[int, list[Past]] = {}
        self._latest: dict[int, Laid] = {}  # the latest layout of each application's files
        self._stripes = np.zeros(drawn.jobs.size, dtype=np.int64)

    def run(self) -> Outcome:
        drawn = self._drawn
        for j in range(drawn.jobs.size):
            self._lay(j, self._app(j).laid, self._app(j).laid)
        for j in np.argsort(drawn.start, kind="stable").tolist():
            if drawn.jobs["decided"][j]:
                self._advance(float(drawn.start[j]))
                self._start(j, float(drawn.start[j]))
        self._advance(np.inf)
        s = self._state
        return Outcome(
            jobs=s.jobs,
            stripes=self._stripes,
            moved=s.moved,
            refused=self._space.refused,
            events=int(s.counters[engine.EVENTS]),
        )

    def _advance(self, until: float) -> None:
        while (event := engine.advance(self._state, until)) != engine.NOTHING:
            if event == engine.NO_SEAT:
                self._state = self._state._replace(flows=with_more_seats(self._state.flows))
            else:
                self._end(event, int(self._state.counters[engine.WHO]))

    def _app(self, j: int) -> App:
        return self._drawn.apps[int(self._drawn.app[j])]

    def _start(self, j: int, now: float) -> None:
        """Start a job with decisions: its layout, then its targets, then its space."""
        app, key = self._app(j), int(self._drawn.app[j])
        laid = self._decided_layout(j) if STRIPE in self._on else app.laid
        self._lay(j, self._latest.get(key, app.laid), laid)
        self._latest[key] = self._running[j] = laid
        if ALLOCATE in self._on:
            self._seen[j] = self._profiled_application(j)
            self._share_out()
        if STORAGE in self._on and not self._state.jobs["reads"][j]:
            self._ask_for_space(j, now)

    def _end(self, event: int, j: int) -> None:
        """Handle a job that has ENDED, or whose data in the burst buffer is DRAINED."""
        s = self._state
        if event == engine.ENDED:
            self._note(j, self._running.pop(j))
            if ALLOCATE in self._on:
                del self._seen[j]
                self._share_out()
        if event == engine.DRAINED or not s.draining[j].any():
            self._space.release(j, max(float(s.jobs[j]["end"]), float(s.flows.resources["since"].max())))

    def _lay(self, j: int, before: Laid, now: Laid) -> None:
        """Store the layouts of the job's input and of its own files."""
        s = self._state
        s.layouts[j, 0] = self._record(j, before, float(s.jobs["input"][j]), True, self._centre.targets)
        self._lay_own(j, now)

    def _lay_own(self, j: int, laid: Laid) -> None:
        jobs = self._state.jobs
        targets = int(jobs["pools"][j]) * self._centre.width
        layout = self._record(j, laid, float(jobs["volume"][j]), bool(jobs["reads"][j]), targets)
        self._state.layouts[j, 1] = layout
        self._stripes[j] = layout["count"]

    def _record(self, j: int, laid: Laid, volume: float, reads: bool, targets: int) -> Array:
        app, gain = self._app(j), 1.0
        if REQUESTS in self._on:
            operation = "read" if reads else "write"
            gain = gain_of(self._gains, operation, app.style.pattern, int(app.style.request))
        layout = record(self._centre, app.style, app.nodes, laid, volume, reads=reads, gain=gain, targets=targets)
        layout["first"] = self._first[j] if laid.start == ANY else laid.start
        return layout

    def _note(self, j: int, laid: Laid) -> None:
        """Add a run to the history, as Darshan would measure it."""
        job, key = self._state.jobs[j], int(self._drawn.app[j])
        seconds = float(job["waited"] - job["input_waited"])
        if seconds > 0 and not job["buffered"]:  # runs on the burst buffer do not measure the disks
            reached = float(job["volume"] * job["phases"]) / seconds
            past = self._past(j, j, int(self._stripes[j]), laid.size, reached)
            self._runs.setdefault(key, []).append(past)

    def _past(self, j: int, number: int, count: int, size: int, throughput: float) -> Past:
        processes = self._app(j).nodes * self._centre.compute.processes
        return Past(run=number, processes=processes, count=count, size=size, throughput=throughput)

    def _decided_layout(self, j: int) -> Laid:
        """Ask the striping policy about all targets; allocation chooses the job's targets later."""
        app, key, centre = self._app(j), int(self._drawn.app[j]), self._centre
        processes = app.nodes * centre.compute.processes
        users = np.zeros(centre.targets, dtype=np.int64)
        for other in self._running:
            if other != j:
                users[self._occupied_targets(other)] += 1
        view = StripeView(
            application=str(key),
            processes=processes,
            targets=tuple(Target(index=t, free_bytes=_FREE, users=n) for t, n in enumerate(users.tolist())),
            runs=(*self._known_before(j), *self._runs.get(key, ())),
            shared_file=app.style.shared,
            io_processes=processes,
            request_size=int(app.style.block),
        )
        laid = Laid.of(self._stripe.decide(view).layout)
        return replace(laid, count=min(laid.count, centre.layout.most))  # limit of the centre

    def _known_before(self, j: int) -> list[Past]:
        """Return runs of earlier months, with the users' layout."""
        app, job = self._app(j), self._state.jobs[j]
        volume = float(job["volume"])
        layout = record(self._centre, app.style, app.nodes, app.laid, volume, reads=bool(job["reads"]))
        reached = float(alone(layout, volume, self._centre.targets)) * app.wrong[2]
        runs = self._workload.profiles.runs
        return [self._past(j, k - runs, int(layout["count"]), app.laid.size, reached) for k in range(runs)]

    def _occupied_targets(self, j: int) -> Array:
        s, width = self._state, self._centre.width
        pools = s.pools[j, : s.jobs["pools"][j]].astype(np.int64)
        targets, layout = (pools[:, None] * width + np.arange(width)).ravel(), s.layouts[j, 1]
        count = min(int(layout["count"]), targets.size) + (layout["head"] > 0)
        stripes = min(targets.size, int(layout["files"]) * count)
        return targets[(int(layout["first"]) + np.arange(stripes)) % targets.size]

    def _ask_for_space(self, j: int, now: float) -> None:
        app, job, centre = self._app(j), self._state.jobs[j], self._centre
        believed = float(job["volume"]) * app.wrong[0]
        lasts = float(job["compute"] * job["phases"]) * app.wrong[1] + 3600.0
        parts = self._space.ask(j, max(1, int(DRAINS * _HEADROOM * believed)), now, now + lasts)
        if parts is None:
            return
        size = int(parts["bytes"].sum())
        shares = np.zeros(parts.size, dtype=FLASH_PART)
        shares["disk"], shares["share"] = parts["disk"], parts["bytes"] / size
        seconds, floor = on_flash(centre, app.style, app.nodes, parts.size)
        there = max(floor, float(shares["share"].max()) * seconds)
        here = alone(self._state.layouts[j, 1], float(job["volume"]), centre.targets) * app.wrong[2]
        if there * here >= 1:  # by its profile, the disks are at least as fast
            self._space.release(j, now)
            return
        job["slots"] = min(DRAINS, int(size // max(float(job["volume"]), 1.0)))
        job["flash_seconds"], job["flash_floor"] = seconds, floor
        s = self._state
        used = int(s.jobs["last"].max())  # parts are never removed; a month has some hundred thousand
        if used + shares.size > s.parts.size:
            more = np.zeros(2 * s.parts.size + shares.size, FLASH_PART)
            self._state = s = s._replace(parts=np.concatenate([s.parts, more]))
        s.parts[used : used + shares.size] = shares
        job["part"], job["last"] = used, used + shares.size

    def _share_out(self) -> None:
        """Ask the policies for the pools of every running application; later writes go there."""
        if not self._seen:
            return
        centre, s = self._centre, self._state
        system = System(targets=centre.capacity.pools, compute_nodes=float(centre.compute.nodes))
        placement = decide_placement(
            system, tuple(self._seen.values()), self._allocate, self._place, rng=self._rng, horizon=86_400.0
        )
        for j, pools in zip(self._seen, placement, strict=True):
            s.pools[j, : len(pools)] = pools
            s.jobs["pools"][j] = len(pools)
            self._lay_own(j, self._running[j])

    def _profiled_application(self, j: int) -> Application:
        """Return the job as its profile describes it."""
        app, job, centre = self._app(j), self._state.jobs[j], self._centre
        volume, reads = float(job["volume"]), bool(job["reads"])
        counts = np.arange(1, centre.capacity.pools + 1)
        curve = np.empty(counts.size)
        for at, targets in enumerate((counts * centre.width).tolist()):
            if at == 0 or targets <= self._running[j].count + centre.width:  # with more, the layout stays the same
                layout = self._record(j, self._running[j], volume, reads, targets)
            curve[at] = alone(layout, volume, targets) * app.wrong[2]
        return Application(
            name=str(j),
            compute_nodes=float(app.nodes),
            phases=int(job["phases"]),
            compute_seconds=float(job["compute"] * job["phases"]) * app.wrong[1],
            volume=volume * float(job["phases"]) * app.wrong[0],
            curve=Curve(tuple(counts.tolist()), tuple(curve.tolist())),
        )


@dataclass(slots=True)
class _Grant:
    parts: Array  # PART
    start: float
    end: float


class Space:
    """The space of the burst buffer and its grants. Times are in seconds and must not go back."""

    def __init__(self, platform: Platform, policy: Policy, split: int, seed: int) -> None:
        if number(policy) == OTHER:
            raise BadInput("policies.storage", f"must be a built-in policy, not {policy.name!r}")
        self._ledger = ledger(platform, bookings=4096)
        self._turn = turn(self._ledger, seed=seed)
        self._policy, self._split = number(policy), split
        self._held: dict[int, _Grant] = {}
        self.refused = 0

    def ask(self, job: int, size: int, now: float, end: float) -> Array:
        """Return the job's parts (disks and bytes); None if the request is refused."""
        self._pass_time(now)
        most = max(self._ledger.disks.size, size // self._split + 1)
        self._widen(most)
        parts, cursor = np.zeros(most, dtype=PART), np.zeros(1, dtype=np.dtype(PLACING))
        count = try_place(self._ledger, self._turn, parts, cursor, size, now, end, self._policy, self._split)
        if not count:
            self.refused += 1
            return None
        self._held[job] = grant = _Grant(parts[:count], now, end)
        _book_all(self._ledger, grant.parts, now, end)
        return grant.parts

    def release(self, job: int, now: float) -> None:
        self._pass_time(now)
        grant = self._held.pop(job, None)
        if grant is not None:
            _shorten_all(self._ledger, grant.parts, grant.start, grant.end, now)

    def _pass_time(self, now: float) -> None:
        """Prolong grants that should have ended, and forget the past."""
        for grant in self._held.values():
            while grant.end <= now:
                self._widen(len(grant.parts))
                grant.start, grant.end = grant.end, grant.end + _MORE
                _book_all(self._ledger, grant.parts, grant.start, grant.end)
        self._ledger.horizon[0] = now

    def _widen(self, bookings: int) -> None:
        while not has_room(self._ledger, bookings):
            self._ledger = widen(self._ledger)


@kernel
def _book_all(space: Array, parts: Array, start: float, end: float) -> None:
    for part in parts:
        part.booking = book(space, part.disk, start, end, part.bytes)


@kernel
def _shorten_all(space: Array, parts: Array, start: float, end: float, sooner: float) -> None:
    for part in parts:
        shorten(space, part.disk, start, end, sooner, part.booking)
