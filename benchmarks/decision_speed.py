"""How long a decision takes for a whole large machine: how many targets for everybody, and which.

    .venv/bin/python benchmarks/decision_speed.py

Goal: `tcpu` with `greedy-non-clairvoyant` for 10,000 applications on 2,000 targets in under a second, once
compiled. Proves that `tcpu` answers exactly as Algorithm 1 of Bandet et al. 2024 does when it is transcribed
line by line (below, compiled in the same way), and says how much faster it is; exits 1 if they differ.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
from bench import curves, seconds, verdict, workload

from forebay.decide.allocate.tcpu import tcpu
from forebay.decide.place import greedy_non_clairvoyant
from forebay.decide.view import View
from forebay.model.application import Application
from forebay.model.decision import Placement
from forebay.model.kernels import kernel
from forebay.model.system import System

APPLICATIONS_PER_TARGET = 5
# On one target each. With the first, everybody can have the best number; with the second, the targets run out.
LOADS = (0.5, 0.7)
SIZES = (100, 1000, 10_000)
GOAL = 1.0


def main() -> int:
    measured = curves()
    print("load  applications  targets  targets given  decision s    tcpu s  listing s    ratio  equal")
    agree = True
    slowest = 0.0
    for load, count in itertools.product(LOADS, SIZES):
        system = System(targets=count // APPLICATIONS_PER_TARGET, compute_nodes=8 * count)
        applications = workload(system, measured, count, load)
        whole = seconds(lambda: decide(system, applications), 5)  # noqa: B023, called at once
        slowest = max(slowest, whole)
        view = View(system, applications)
        counts = tcpu.decide(view).counts
        own = seconds(lambda: tcpu.decide(view), 5)  # noqa: B023
        equal = counts == listing(view)
        agree &= equal
        peer = seconds(lambda: listing(view), 1)  # noqa: B023
        print(f"{load:4.1f} {count:13,} {system.targets:8,} {sum(counts):14,} {whole:11.4f}", end="")
        print(f" {own:9.5f} {peer:10.4f} {peer / own:8.1f}  {'yes' if equal else 'NO'}")
    print(f"\ndecision for {count:,} applications: {slowest:.3f} s; goal {GOAL:g} s {verdict(slowest < GOAL)}")
    return 0 if agree else 1


def decide(system: System, applications: tuple[Application, ...]) -> Placement:
    view = View(system, applications)
    placement: Placement = greedy_non_clairvoyant.decide(view, tcpu.decide(view).counts)
    return placement


def listing(view: View) -> tuple[int, ...]:
    """Algorithm 1, as it stands."""
    with np.errstate(invalid="ignore"):
        cpu_load = view.compute_nodes[:, None] * (1.0 - view.io_ratio)
    return tuple(_listing(view.n_sys, view.n_perf, view.io_stress, cpu_load, view.system.targets).tolist())


@kernel
def _listing(n_sys: Any, n_perf: Any, stress: Any, cpu_load: Any, targets: int) -> Any:
    applications = n_sys.size
    pi = n_sys.copy()  # line 1
    while True:  # lines 2, 3
        tilde = pi.copy()
        load_diff = np.full(applications, -1.0)
        load = 0.0
        for i in range(applications):
            load += stress[i, pi[i]] / targets
        for i in range(applications):  # line 7
            n = pi[i]
            while n != n_perf[i] and load_diff[i] < 0:
                n += 1
                if load + (stress[i, n] / targets - stress[i, pi[i]] / targets) <= 1:
                    load_diff[i] = cpu_load[i, n] - cpu_load[i, tilde[i]]
                    tilde[i] = n
        idx = np.argmax(load_diff)  # line 16
        if load_diff[idx] < 0:
            return pi
        pi[idx] = tilde[idx]


if __name__ == "__main__":
    sys.exit(main())
