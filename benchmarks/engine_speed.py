"""Events per second of the simulator, and how the cost of an event grows with the machine.

    .venv/bin/python benchmarks/engine_speed.py

Goals on one core: 5 million events a second for 60 applications on 20 targets; and from 60 to 6000
applications, with targets in proportion, a cost per event that grows no faster than the logarithm of the
number of applications. The kernel is `advance`, the call all of `simulate()`. Medians over repeats.
"""

from __future__ import annotations

import math
import statistics
import time
from functools import partial

import numpy as np
from bench import curves, machine, placed, seconds, verdict, workload

from forebay.decide.allocate.baselines import best_bandwidth
from forebay.decide.place import greedy_non_clairvoyant
from forebay.model.application import Application
from forebay.model.decision import Placement
from forebay.simulate.applications.engine import advance, engine, simulate

SIZES = (60, 190, 600, 1900, 6000)
LOAD = 0.8
HORIZON = 20_000.0
GOAL = 5e6
REPEATS = 9


def main() -> None:
    measured = curves()
    print("applications  targets     events  ns/event  growth   log2  growth/log2")
    costs: list[float] = []
    excess: list[float] = []
    for count in SIZES:
        system = machine(count)
        applications = workload(system, measured, count, LOAD)
        placement = placed(system, applications, best_bandwidth, greedy_non_clairvoyant)
        # About as many events for every size.
        events, wall = kernel(system.targets, applications, placement, HORIZON * SIZES[-1] / count)
        costs.append(wall / events)
        growth, logarithm = costs[-1] / costs[0], math.log2(count) / math.log2(SIZES[0])
        excess.append(growth / logarithm)
        print(f"{count:12,} {system.targets:8,} {events:10,} {costs[-1] * 1e9:9.1f}", end="")
        print(f" {growth:7.2f} {logarithm:6.2f} {excess[-1]:12.2f}")
        if count == SIZES[0]:
            run = partial(simulate, system, applications, placement, horizon=HORIZON)
            call = run().events / seconds(run, 10 * REPEATS)
    worst = max(excess[1:])
    print(f"\ngrowth: at most {worst:.2f} of the logarithm's; goal 1 {verdict(worst <= 1)}")
    for what, rate in (("kernel", 1 / costs[0]), ("call", call)):
        print(f"{what}, {SIZES[0]} applications: {rate / 1e6:.2f} million events/s; goal 5 {verdict(rate >= GOAL)}")


def kernel(
    targets: int, applications: tuple[Application, ...], placement: Placement, horizon: float
) -> tuple[int, float]:
    """Events and median seconds of `advance` alone."""
    phases = np.array([a.phases for a in applications])
    compute = np.array([a.compute_seconds for a in applications]) / phases
    work = np.array([a.io_seconds(len(own)) for a, own in zip(applications, placement, strict=True)]) / phases
    times = []
    for _ in range(REPEATS + 1):  # the first one compiles
        state = engine(targets, placement, compute, work, phases)
        begin = time.perf_counter()
        advance(state, horizon, 2**62, False)
        times.append(time.perf_counter() - begin)
    return int(state.counters[0]), statistics.median(times[1:])


if __name__ == "__main__":
    main()
