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
from forebay.simulate.requests.state import (
    END,
    FILE,
    FROM_PERIODS,
    LEFT,
    NEVER,
    NODE,
    NOW,
    PARTS,
    PERIOD,
    PROCESS,
    PROCESSES,
    REQUESTS,
    ROWS,
    SERVED,
    SIZE,
    THINK,
    THINKS,
    WHEN,
)
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
        each, files = int(np.bincount(processes[:, NODE]).max()), int(processes[:, FILE].max()) + 1
        slots = each * ((int(processes[:, SIZE].max()) - 2) // layer.stripe + 2)
        taking = take_of(find("order", layer.scheduler) if isinstance(layer.scheduler, str) else layer.scheduler)
        self._choose = None if taking is take else taking
        self._time = None if model.time is built_in else model.time
        self._rows = np.zeros((periods, layer.nodes, len(TALLY)))
        self._floats = np.concatenate([lognormal(model.noise), -np.log1p(-middles()), model.numbers])
        self._chance = seed_state(seed)
        self._queues = np.stack([new_queue(layer, node, slots, files, len(workloads)) for node in range(layer.nodes)])
        self._watches = np.stack([new_watch(files) for _ in range(layer.nodes)])
        self._state = new_state(layer, model.lanes, processes, slots, round(period * NANO))
        self._state[THINKS] = any(w.think > 0 for w in workloads)
        self._now = 0
        rng = np.random.default_rng([seed % 2**32, 0])
        starts = np.concatenate([workload.starts(rng) for workload in workloads])
        for process in np.argsort(starts, kind="stable"):
            start(self._state, self._floats, self._chance, starts[process], process)

    @property
    def done(self) -> bool:
        return bool(self._state[LEFT] == 0)

    @property
    def now(self) -> int:
        """Nanoseconds: up to where it has been advanced, or its last event."""
        return self._now

    @property
    def processes(self) -> Any:
        """A row for each, with the columns of state.py."""
        at = self._state[PROCESSES]
        return self._state[at : self._state[PARTS]].reshape(-1, PROCESS)

    @property
    def rows(self) -> Any:
        """What each I/O node saw in each period that has ended."""
        return self._rows[: self._state[ROWS]]

    def advance(self, until: int = NEVER - 1) -> None:
        """Go on up to a time in nanoseconds, or to the end."""
        state = self._state, self._queues, self._watches, self._rows, self._floats, self._chance
        with warnings.catch_warnings():
            # A model of the user's own can't be kept on disk, which numba warns of.
            warnings.simplefilter("ignore")
            advance(self._choose, self._time, *state, until)
        self._now = int(self._state[NOW]) if self.done else until

    def end_period(self, now: int) -> None:
        """A period ends at that time (nanoseconds), even if the run has ended before; does nothing twice."""
        if self._state[WHEN + FROM_PERIODS] <= now:
            end_period(self._state, self._watches, self._rows, now)

    def set_window(self, window: int) -> None:
        """Nanoseconds, on all I/O nodes."""
        for queue in self._queues:
            set_window(queue, window)

    def set_think(self, seconds: float) -> None:
        """How long each process thinks on average from its next answer on."""
        if not self._state[THINKS]:
            raise BadInput("think", "was 0 for all processes at the beginning and stays so")
        self.processes[:, THINK] = round(seconds * NANO)

    def outcome(self) -> Outcome:
        """After the end."""
        s, processes = self._state, self.processes
        ended = int(s[ROWS])
        end_period(s, self._watches, self._rows, int(s[NOW]))
        return Outcome(
            seconds=int(s[END]) / NANO,
            bytes=int((processes[:, REQUESTS] * processes[:, SIZE]).sum()),
            requests=int(processes[:, REQUESTS].sum()),
            messages=int(s[SERVED]),
            period=int(s[PERIOD]) / NANO,
            last=(int(s[NOW]) - ended * int(s[PERIOD])) / NANO,
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
