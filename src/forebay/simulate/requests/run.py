"""Runs workloads through a forwarding layer in virtual time: how long it takes, and what its I/O nodes see."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forebay.decide.order.queue import set_window, take, take_of
from forebay.decide.registry import find
from forebay.model.errors import BadInput, PolicyError
from forebay.model.observation import Observation
from forebay.model.random_numbers import seed_state
from forebay.profile.request_watch import TALLY, make_observation, new_watch
from forebay.simulate.requests.events import advance, end_period, start
from forebay.simulate.requests.layer import Forwarding, lognormal, middles, new_queue, new_state, processes_of
from forebay.simulate.requests.servers import built_in
from forebay.simulate.requests.state import FROM_PERIODS, NEVER
from forebay.simulate.requests.workload import Workload

NANO = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run from the first request sent to the last answer: `periods` has, for each period, every I/O node's row.

    Rows have the columns of `profile.request_watch.TALLY`; the last period is the rest, shorter than the others.
    """

    seconds: float
    bytes: int
    requests: int
    messages: int  # served by the servers
    period: float
    last: float  # seconds of the last period
    periods: Any

    @property
    def bandwidth(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds

    def observed(self, period: int, node: int) -> Observation:
        """What the I/O node saw in the period."""
        seconds = self.last if period == len(self.periods) - 1 else self.period
        return make_observation(self.periods[period, node], seconds)


class Simulation:
    """A run that can be stopped at any time, to look at it and to change the window."""

    def __init__(
        self,
        layer: Forwarding,
        workloads: Sequence[Workload],
        *,
        seed: int = 0,
        period: float = 1.0,
        periods: int = 1000,
    ) -> None:
        model, processes = layer.server.model(), processes_of(layer, workloads)
        each, files = int(np.bincount(processes["node"]).max()), int(processes["file"].max()) + 1
        slots = each * ((int(processes["size"].max()) - 2) // layer.stripe + 2)
        taking = take_of(find("order", layer.scheduler) if isinstance(layer.scheduler, str) else layer.scheduler)
        self._choose = None if taking is take else taking
        self._time = None if model.time is built_in else model.time
        self._state = new_state(
            layer,
            processes,
            slots,
            round(period * NANO),
            queues=np.stack([new_queue(layer, node, slots, files, len(workloads)) for node in range(layer.nodes)]),
            watches=np.stack([new_watch(files) for _ in range(layer.nodes)]),
            rows=np.zeros((periods, layer.nodes, len(TALLY))),
            floats=np.concatenate([lognormal(model.noise), -np.log1p(-middles()), model.numbers]),
            chance=seed_state(seed),
        )
        self._layer = self._state.layer[0]
        self._now = 0
        rng = np.random.default_rng([seed % 2**32, 0])
        starts = np.concatenate([workload.starts(rng) for workload in workloads])
        for process in np.argsort(starts, kind="stable"):
            start(self._state, starts[process], process)

    @property
    def done(self) -> bool:
        return bool(self._layer["left"] == 0)

    @property
    def now(self) -> int:
        """Nanoseconds: up to where it has been advanced, or its last event."""
        return self._now

    @property
    def processes(self) -> Any:
        """A PROCESS for each."""
        return self._state.processes

    @property
    def rows(self) -> Any:
        """What each I/O node saw in each period that has ended."""
        return self._state.rows[: self._layer["rows"]]

    def advance(self, until: int = NEVER - 1) -> None:
        """Go on up to a time in nanoseconds, or to the end."""
        with warnings.catch_warnings():
            # A model of the user's own can't be kept on disk, which numba warns of.
            warnings.simplefilter("ignore")
            advance(self._choose, self._time, self._state, until)
        self._now = int(self._layer["now"]) if self.done else until

    def end_period(self, now: int) -> None:
        """A period ends at that time (nanoseconds), even if the run has ended before; does nothing twice."""
        if self._state.when[FROM_PERIODS] <= now:
            end_period(self._state, now)

    def set_window(self, window: int) -> None:
        """Nanoseconds, on all I/O nodes."""
        for queue in self._state.queues:
            set_window(queue, window)

    def set_think(self, seconds: float) -> None:
        """How long each process thinks on average from its next answer on."""
        if not self._layer["thinks"]:
            raise BadInput("think", "was 0 for all processes at the beginning and stays so")
        self.processes["think"] = round(seconds * NANO)

    def outcome(self) -> Outcome:
        """After the end."""
        layer, processes = self._layer, self.processes
        ended = int(layer["rows"])
        end_period(self._state, int(layer["now"]))
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
    """Run the workloads, which begin together, to their end; the same seed gives the same run."""
    simulation = Simulation(layer, workloads, seed=seed, period=period, periods=periods)
    simulation.advance()
    if not simulation.done:
        name = layer.scheduler if isinstance(layer.scheduler, str) else layer.scheduler.name
        raise PolicyError(f"{name}: leaves requests waiting for ever")
    return simulation.outcome()
