"""What is learned when demand changes: by bandwidth, as in the paper, and by what was asked for.

Demand changes from time to time, and not by the window's doing. In bursts: each period has so many bytes to move, and
the rest of it is idle. Thinking: processes wait between their requests.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
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
    for demand, seen in _all_seen(experiment, windows, period, seed).items():
        worth = _worth(seen, demand)
        for spec in tuners:
            for reward in REWARDS:
                seeds = (zlib.crc32(f"{seed} {number} {r}".encode()) for r in range(repetitions))
                taken = np.array([_one(seen, spec, reward, steps, chance) for chance in seeds])
                rows += [(number, reward, spec, demand, b, *_figures(worth, taken, b)) for b in range(steps // BIN)]
    return np.array(rows, dtype=DEMANDED)


def _figures(worth: Any, taken: Any, b: int) -> tuple[float, float]:
    """Precision, and what the windows were worth as a share of what the best for each demand were."""
    arms, demands = (taken[:, b * BIN : (b + 1) * BIN, k] for k in range(2))
    best = worth.max(axis=0)[demands]
    return float((worth.argmax(axis=0)[demands] == arms).mean()), float(worth[arms, demands].sum() / best.sum())


def _all_seen(experiment: Experiment, windows: Sequence[int], period: float, seed: int) -> dict[str, Seen]:
    """By kind of demand; full demand is the first of each."""
    fifo = simulate_requests(Forwarding(nodes=experiment.nodes), experiment.workload, seed=seed).bandwidth
    full = [_going_on(experiment, w, 0.0, period, seed) for w in windows]
    return {
        STEADY: [[seen] for seen in full],
        BURSTS: [
            [seen, *(_bursts(experiment, w, share * fifo * period, period, seed) for share in SHARES)]
            for seen, w in zip(full, windows, strict=True)
        ],
        THINKING: [
            [seen, *(_going_on(experiment, w, think, period, seed) for think in THINKS)]
            for seen, w in zip(full, windows, strict=True)
        ],
    }


def _worth(seen: Seen, demand: str) -> Any:
    """Of each window under each demand: its bandwidth; in bursts, whose bytes are given, that of the busy time."""

    def rate(seen_once: Observation) -> float:
        return seen_once.bandwidth / seen_once.busy if demand == BURSTS and seen_once.busy else seen_once.bandwidth

    return np.array([[np.mean([[rate(o) for o in nodes] for nodes in periods]) for periods in row] for row in seen])


def _going_on(experiment: Experiment, window: int, think: float, period: float, seed: int) -> list[list[Observation]]:
    """What all I/O nodes saw in each of PERIODS periods, after one in which processes begin."""
    # A think time of nearly nothing, so that all go the same way.
    run = _begun(experiment, window, replace(experiment.workload, total=_ENDLESS, think=max(think, 1e-9)), period, seed)
    run.advance(round((PERIODS + 1) * period * NANO))
    return [_observed(experiment, nodes, period) for nodes in run.rows[1:]]


def _bursts(experiment: Experiment, window: int, size: float, period: float, seed: int) -> list[list[Observation]]:
    """What all I/O nodes saw in each of PERIODS periods that begin with a burst of `size` bytes."""
    work, observations = experiment.workload, []
    whole = max(int(size), work.processes * work.request)
    for number in range(PERIODS):
        run = _begun(experiment, window, replace(work, total=whole), period, seed + number)
        run.advance(round(period * NANO))
        run.end_period(round(period * NANO))
        observations.append(_observed(experiment, run.rows[0], period))
    return observations


def _observed(experiment: Experiment, rows: Any, period: float) -> list[Observation]:
    return [make_observation(row, period, processes=experiment.workload.processes // experiment.nodes) for row in rows]


def _begun(experiment: Experiment, window: int, work: Workload, period: float, seed: int) -> Simulation:
    layer = Forwarding(nodes=experiment.nodes, scheduler=TWINS, window=window)
    return Simulation(layer, [work], seed=seed, period=period, periods=PERIODS + 1)


def _one(seen: Seen, spec: str, reward: str, steps: int, seed: int) -> list[tuple[int, int]]:
    """The windows that a tuner takes, and the demand it meets, drawn from a state of its own: the same for all.

    As a council does, it goes by the demand of the period before.
    """
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
