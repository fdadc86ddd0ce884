"""What is learned when demand changes: by bandwidth, as in the paper, and by what was asked for.

Demand changes from time to time, and not by the window's doing. In bursts: each period has so many bytes to move, and
the rest of it is idle. Thinking: processes wait between their requests.
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
from forebay.simulate.requests.run import NANO, Forwarding, Simulation, simulate_requests
from forebay.simulate.requests.workload import Experiment, Workload
from forebay.studies.request_windows.results import BURSTS, DEMANDED, STEADY, THINKING, TWINS

Seen = Sequence[Sequence[Sequence[Sequence[Observation]]]]
"""What was seen, by window, demand, period and I/O node."""
SHARES = (0.5, 0.25, 0.1)
"""Of what fifo would move in a period, the bytes of a burst."""
THINKS = (0.02, 0.1, 0.5)
"""Seconds that processes think on average."""
STAYS = 5  # periods that demand stays as it is, on average
PERIODS = 6  # observed of each window and demand
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
    """DEMANDED rows of each tuner and reward, under each kind of demand."""
    rows = []
    for demand, seen in _observe_all(experiment, windows, period, seed).items():
        worth = _worth(seen, demand)
        for spec, reward in product(tuners, REWARDS):
            seeds = (zlib.crc32(f"{seed} {number} {r}".encode()) for r in range(repetitions))
            taken = np.array([_learn(seen, spec, reward, steps, chance) for chance in seeds])
            for b in range(steps // BIN):
                arms, demands = (taken[:, b * BIN : (b + 1) * BIN, k] for k in range(2))
                precision = float((worth.argmax(axis=0)[demands] == arms).mean())
                share = float(worth[arms, demands].sum() / worth.max(axis=0)[demands].sum())
                rows.append((number, reward, spec, demand, b, precision, share))
    return np.array(rows, dtype=DEMANDED)


def _observe_all(experiment: Experiment, windows: Sequence[int], period: float, seed: int) -> dict[str, Seen]:
    """By kind of demand; full demand is the first of each."""
    fifo = simulate_requests(Forwarding(nodes=experiment.nodes), experiment.workload, seed=seed).bandwidth
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
    """What all I/O nodes saw in each of PERIODS periods.

    Each begins with a `burst` of so many bytes, or all are one run, after a period in which processes begin.
    """
    layer = Forwarding(nodes=experiment.nodes, scheduler=TWINS, window=window)
    work, processes = experiment.workload, experiment.workload.processes

    def start(work: Workload, seed: int) -> Simulation:
        return Simulation(layer, [work], seed=seed, period=period, periods=PERIODS + 1)

    if burst is None:
        # A think time of nearly nothing, so that all go the same way.
        run = start(replace(work, total=_ENDLESS, think=max(think, 1e-9)), seed)
        run.advance(round((PERIODS + 1) * period * NANO))
        seen = run.rows[1:]
    else:
        seen = []
        for number in range(PERIODS):
            run = start(replace(work, total=max(int(burst), processes * work.request)), seed + number)
            run.advance(round(period * NANO))
            run.end_period(round(period * NANO))
            seen.append(run.rows[0])
    each = processes // experiment.nodes
    return [[make_observation(row, period, processes=each) for row in rows] for rows in seen]


def _worth(seen: Seen, demand: str) -> Any:
    """Of each window under each demand: its bandwidth; in bursts, whose bytes are given, that of the busy time."""

    def rate(once: Observation) -> float:
        return once.bandwidth / once.busy if demand == BURSTS and once.busy else once.bandwidth

    return np.array([[np.mean([[rate(o) for o in nodes] for nodes in periods]) for periods in row] for row in seen])


def _learn(seen: Seen, spec: str, reward: str, steps: int, seed: int) -> list[tuple[int, int]]:
    """The windows that a tuner takes, and the demand it meets, drawn from a state of its own: the same for all."""
    policy, chance, weather = find("tune", spec), seed_state(seed), seed_state(seed + 1)
    stack, demand, taken = new_stack(policy, reward, len(seen), ordered=True), 0, []
    before: Sequence[Observation] = seen[0][0][0]
    for _ in range(steps):
        if draw(weather, STAYS) == 0:
            demand = int(draw(weather, len(seen[0])))
        arm = pick(policy, current(stack, before), chance)
        periods = seen[arm][demand]
        before = periods[int(draw(chance, len(periods)))]
        credit(stack, arm, before)
        taken.append((arm, demand))
    return taken
