"""Learning under changing demand, with bandwidth as the reward, as in the paper, or bandwidth over demand.

Demand changes from time to time, independently of the window. In bursts, each period has some bytes to move and is
idle afterwards. With thinking, processes wait between their requests.
"""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from forebay.decide.registry import find
from forebay.decide.tune.reward import REWARDS, credit, current, new_stack
from forebay.decide.tune.tuners import pick
from forebay.model.observation import Observation
from forebay.model.random_numbers import draw, seed_state
from forebay.profile.request_watch import make_observation
from forebay.show.rows import Rows
from forebay.simulate.requests.learning import BIN
from forebay.simulate.requests.run import NANO, Simulation, build_layer, simulate_requests
from forebay.simulate.requests.workload import Experiment, Workload
from forebay.studies.request_windows.results import BURSTS, DEMANDED, FIFO, STEADY, THINKING, TWINS

Observations = Sequence[Sequence[Sequence[Sequence[Observation]]]]
"""Observations by window, demand, period and I/O node."""
SHARES = (0.5, 0.25, 0.1)
"""The bytes of a burst, as shares of what fifo would move in a period."""
THINKS = (0.02, 0.1, 0.5)
"""Mean think times of processes, in seconds."""
STAYS = 5  # periods between changes of demand, on average
PERIODS = 6  # observed for each window and demand
_ENDLESS = 1 << 44  # bytes


def learn_under_demand(
    experiment: Experiment,
    number: int,
    tuners: Sequence[str],
    windows: Sequence[int],
    *,
    period: float,
    steps: int,
    repetitions: int,
    seed: int,
) -> Rows:
    """Return DEMANDED rows for each tuner and reward, under each kind of demand."""
    rows = []
    for demand, observed in _observe_all(experiment, windows, period, seed).items():
        worth = _rate_windows(observed, demand)
        for spec, reward in product(tuners, REWARDS):
            seeds = (zlib.crc32(f"{seed} {number} {r}".encode()) for r in range(repetitions))
            choices = np.array([_learn(observed, spec, reward, steps, chance) for chance in seeds])
            for b in range(steps // BIN):
                arms, demands = (choices[:, b * BIN : (b + 1) * BIN, k] for k in range(2))
                precision = float((worth.argmax(axis=0)[demands] == arms).mean())
                share = float(worth[arms, demands].sum() / worth.max(axis=0)[demands].sum())
                rows.append((number, reward, spec, demand, b, precision, share))
    return np.array(rows, dtype=DEMANDED)


def _observe_all(experiment: Experiment, windows: Sequence[int], period: float, seed: int) -> dict[str, Observations]:
    """Observe every window under each kind of demand. Full demand is the first of each kind."""
    fifo = simulate_requests(build_layer(experiment, FIFO), experiment.workload, seed=seed).bandwidth
    observers = [partial(_observe, experiment, window, period, seed) for window in windows]
    full = [observe(think=0.0) for observe in observers]
    both = list(zip(full, observers, strict=True))
    return {
        STEADY: [[always] for always in full],
        BURSTS: [[always, *(observe(burst=share * fifo * period) for share in SHARES)] for always, observe in both],
        THINKING: [[always, *(observe(think=think) for think in THINKS)] for always, observe in both],
    }


def _observe(
    experiment: Experiment, window: int, period: float, seed: int, *, think: float = 0.0, burst: float | None = None
) -> list[list[Observation]]:
    """Return what all I/O nodes observe in each of PERIODS periods.

    Each begins with a burst of `burst` bytes. Without `burst`, all belong to one run, whose first period is left out.
    """
    layer = build_layer(experiment, TWINS, window)
    work, processes = experiment.workload, experiment.workload.processes

    def start(work: Workload, seed: int) -> Simulation:
        return Simulation(layer, [work], seed=seed, period=period, periods=PERIODS + 1)

    if burst is None:
        # A tiny think time, so that all runs take the same path through the simulator.
        run = start(replace(work, total=_ENDLESS, think=max(think, 1e-9)), seed)
        run.advance(round((PERIODS + 1) * period * NANO))
        tallies = run.rows[1:]
    else:
        tallies = []
        for number in range(PERIODS):
            run = start(replace(work, total=max(int(burst), processes * work.request)), seed + number)
            run.advance(round(period * NANO))
            run.end_period(round(period * NANO))
            tallies.append(run.rows[0])
    each = processes // experiment.nodes
    return [[make_observation(row, period, processes=each) for row in rows] for rows in tallies]


def _rate_windows(observed: Observations, demand: str) -> Any:
    """Return the mean bandwidth of each window under each demand; in bursts, with fixed bytes, of the busy time."""

    def rate(once: Observation) -> float:
        return once.bandwidth / once.busy if demand == BURSTS and once.busy else once.bandwidth

    return np.array([[np.mean([[rate(o) for o in nodes] for nodes in periods]) for periods in row] for row in observed])


def _learn(observed: Observations, spec: str, reward: str, steps: int, seed: int) -> list[tuple[int, int]]:
    """Return the windows that a tuner takes and the demand that it meets, which is the same for all tuners."""
    policy, chance, weather = find("tune", spec), seed_state(seed), seed_state(seed + 1)
    stack, demand, choices = new_stack(policy, reward, len(observed), ordered=True), 0, []
    before: Sequence[Observation] = observed[0][0][0]
    for _ in range(steps):
        if draw(weather, STAYS) == 0:
            demand = int(draw(weather, len(observed[0])))
        arm = pick(policy, current(stack, before), chance)
        periods = observed[arm][demand]
        before = periods[int(draw(chance, len(periods)))]
        credit(stack, arm, before)
        choices.append((arm, demand))
    return choices
