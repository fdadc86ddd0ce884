"""Runs workloads through a forwarding layer in virtual time, and records what I/O nodes observe."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from forebay.decide.order.queue import IN_FLIGHT, new_queue, set_window, take, take_of
from forebay.decide.policy import Policy
from forebay.decide.registry import find
from forebay.model.errors import BadInput, PolicyError
from forebay.model.kernels import Array
from forebay.model.layout import KIB
from forebay.model.observation import Observation
from forebay.model.process_mapping import BLOCK, check_mapping, node_of
from forebay.model.random_numbers import seed_state
from forebay.profile.request_watch import TALLY, make_observation, new_watch
from forebay.simulate.requests import engine
from forebay.simulate.requests.engine import NEVER, QUANTILES, State
from forebay.simulate.requests.servers import ServerModel, built_in, contended_servers
from forebay.simulate.requests.workload import Experiment, Workload

NANO = 1_000_000_000
_MIDDLES = (np.arange(QUANTILES) + 0.5) / QUANTILES


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarding:
    """I/O nodes in front of data servers; a node accepts one request after the other. Seconds and bytes."""

    nodes: int
    mapping: str = BLOCK  # of processes to I/O nodes
    servers: int = 4
    server: ServerModel = field(default_factory=contended_servers)
    stripe: int = 64 * KIB
    scheduler: Policy | str = "fifo"
    window: int | None = None  # nanoseconds; 0: no windows; None: the scheduler's default
    aggregate: int | None = None
    in_flight: int | None = 32  # messages of a node; None: as a live node has it with this scheduler
    to_client: float = 200e-6  # network delays, one way
    to_server: float = 40e-6
    reading: float = 26e-6  # time to accept a request
    writing: float = 51e-6

    def __post_init__(self) -> None:
        check_mapping(self.mapping)
        for name in ("nodes", "servers", "stripe", "in_flight"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise BadInput(name, f"must be 1 or more, not {getattr(self, name)}")
        for name in ("to_client", "to_server", "reading", "writing"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadInput(name, f"must be from 0 to 1 second, not {getattr(self, name):g}")


def build_layer(experiment: Experiment, scheduler: Policy | str, window: int = 0) -> Forwarding:
    """Return the layer of an experiment; a window of 0 is the scheduler's default."""
    return Forwarding(nodes=experiment.nodes, mapping=experiment.mapping, scheduler=scheduler, window=window or None)


class Outcome(NamedTuple):
    """A run from the first request to the last answer; `periods` has the TALLY of every I/O node in each period."""

    seconds: float
    bytes: int
    requests: int
    messages: int  # served by the servers
    period: float
    last: float  # seconds of the last period, which may be shorter
    periods: Array

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.bytes / self.seconds

    def observe(self, period: int, node: int) -> Observation:
        """Return what an I/O node observed in a period."""
        seconds = self.last if period == len(self.periods) - 1 else self.period
        return make_observation(self.periods[period, node], seconds)


class Simulation:
    """A run that can be stopped at any time, to inspect it and to change the window."""

    def __init__(
        self,
        layer: Forwarding,
        workloads: Sequence[Workload],
        *,
        seed: int = 0,
        period: float = 1.0,
        periods: int = 1000,
    ) -> None:
        scheduler = find("order", layer.scheduler) if isinstance(layer.scheduler, str) else layer.scheduler
        taking, timing = take_of(scheduler), layer.server.time
        self._choose = None if taking is take else taking
        self._time = None if timing is built_in else timing
        self._state = _new_state(layer, workloads, seed, round(period * NANO), periods)
        self._layer, self.processes = self._state.layer[0], self._state.processes  # a PROCESS for each
        self.now = 0  # nanoseconds: the time reached, or that of the last event
        rng = np.random.default_rng([seed % 2**32, 0])
        starts = np.concatenate([workload.starts(rng) for workload in workloads])
        for process in np.argsort(starts, kind="stable"):
            engine.start(self._state, starts[process], process)

    @property
    def is_over(self) -> bool:
        return bool(self._layer["left"] == 0)

    @property
    def rows(self) -> Array:
        """What each I/O node observed in each completed period."""
        return self._state.rows[: self._layer["rows"]]

    def advance(self, until: int = NEVER - 1) -> None:
        """Advance to a time in nanoseconds, or to the end."""
        with warnings.catch_warnings():
            # Numba warns that it cannot cache a model of the user.
            warnings.simplefilter("ignore")
            engine.advance(self._choose, self._time, self._state, until)
        self.now = int(self._layer["now"]) if self.is_over else until

    def end_period(self, now: int) -> None:
        """End a period at a time in nanoseconds, even after the end of the run; a second call does nothing."""
        if self._state.when[engine.FROM_PERIODS] <= now:
            engine.end_period(self._state, now)

    def set_window(self, window: int) -> None:
        """Set the window of all I/O nodes, in nanoseconds."""
        for queue in self._state.queues:
            set_window(queue, window)

    def set_think(self, seconds: float) -> None:
        """Set the mean think time of each process, from its next answer on."""
        if not self._layer["thinks"]:
            raise BadInput("think", "was 0 for all processes at the start, so it cannot change")
        self.processes["think"] = round(seconds * NANO)

    def outcome(self) -> Outcome:
        """Return the outcome; call it after the end."""
        layer, processes = self._layer, self.processes
        ended = int(layer["rows"])
        engine.end_period(self._state, int(layer["now"]))
        return Outcome(
            seconds=int(layer["end"]) / NANO,
            bytes=int((processes["requests"] * processes["size"]).sum()),
            requests=int(processes["requests"].sum()),
            messages=int(layer["served"]),
            period=int(layer["period"]) / NANO,
            last=(int(layer["now"]) - ended * int(layer["period"])) / NANO,
            periods=self.rows.copy(),
        )


def simulate_requests(
    layer: Forwarding, *workloads: Workload, seed: int = 0, period: float = 1.0, periods: int = 1000
) -> Outcome:
    """Run workloads that begin together to their end; the same seed gives the same run."""
    simulation = Simulation(layer, workloads, seed=seed, period=period, periods=periods)
    simulation.advance()
    if not simulation.is_over:
        name = layer.scheduler if isinstance(layer.scheduler, str) else layer.scheduler.name
        raise PolicyError(f"{name}: leaves requests waiting for ever; check it with check_order")
    return simulation.outcome()


def _new_state(layer: Forwarding, workloads: Sequence[Workload], seed: int, period: int, periods: int) -> State:
    model, nodes, servers = layer.server, layer.nodes, layer.servers
    processes = _processes(layer, workloads)
    each, files = int(np.bincount(processes["node"]).max()), int(processes["file"].max()) + 1
    slots = each * ((int(processes["size"].max()) - 2) // layer.stripe + 2)
    record, lanes = np.zeros(1, dtype=engine.LAYER), np.zeros((servers, model.lanes), dtype=engine.LANE)
    record["nodes"], record["servers"], record["lanes"], record["slots"] = nodes, servers, model.lanes, slots
    record["stripe"], record["period"], record["left"] = layer.stripe, period, processes["requests"].sum()
    for name in ("to_client", "to_server", "reading", "writing"):
        record[name] = round(getattr(layer, name) * NANO)
    record["thinks"] = processes["think"].any()
    lanes["until"] = NEVER
    when = np.full(engine.FROM_SERVERS + servers, NEVER)
    when[engine.FROM_PERIODS] = period
    process_rings, process_cells = engine.new_rings(2 + nodes, len(processes) * (2 if record["thinks"] else 1))
    process_cells["time"][engine.CLIENTS] = NEVER
    message_rings, message_cells = engine.new_rings(2 + servers, nodes * min(slots, layer.in_flight or IN_FLIGHT))
    queues = [
        new_queue(
            layer.scheduler,
            servers=servers,
            slots=slots,
            files=files,
            flows=len(workloads),
            node=node,
            in_flight=layer.in_flight,
            window=layer.window,
            aggregate=layer.aggregate,
        )
        for node in range(nodes)
    ]
    return State(
        layer=record,
        when=when,
        enters=np.full(nodes, NEVER),
        wakes=np.full(nodes, NEVER),
        processes=processes,
        parts=np.zeros(nodes * slots, dtype=engine.PART),
        lanes=lanes,
        memories=np.full((servers, engine.MEMORY), -1),
        present=np.zeros((servers, nodes + 1), dtype=np.int64),
        process_rings=process_rings,
        process_cells=process_cells,
        message_rings=message_rings,
        message_cells=message_cells,
        queues=np.stack(queues),
        watches=np.stack([new_watch(files) for _ in range(nodes)]),
        rows=np.zeros((periods, nodes, len(TALLY))),
        floats=np.concatenate([_lognormal(model.noise), -np.log1p(-_MIDDLES), model.numbers]),
        chance=seed_state(seed),
    )


def _processes(layer: Forwarding, workloads: Sequence[Workload]) -> Array:
    """Return the processes of all workloads, assigned to I/O nodes."""
    processes, file = [], 0
    for flow, workload in enumerate(workloads):
        rows = workload.rows(file)
        rows["flow"] = flow
        rows["node"] = node_of(layer.mapping, np.arange(workload.processes), workload.processes, layer.nodes)
        rows["start"] %= layer.servers
        file += workload.files
        processes.append(rows)
    return np.concatenate(processes)


@lru_cache
def _lognormal(sigma: float) -> Array:
    """Return quantiles of the lognormal distribution with median 1: a draw is a look-up, not an exponential."""
    return np.exp([sigma * NormalDist().inv_cdf(share) for share in _MIDDLES])
