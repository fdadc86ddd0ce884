"""Forebay against SimGrid on the same input: equal results, and how much faster.

    .venv/bin/python benchmarks/simgrid_peer.py [--curves FILE]

Draws the paper's workload (60 applications, 20 targets, 20,000 s) for several loads and policies, and lets
both simulate it. Proves that every application completes the same phases with the same I/O seconds (1e-6
relative), else exits 1. Times the whole `simulate()` call once compiled, against SimGrid's event loop alone,
in the two formulations of simgrid/phases.cpp: `callbacks`, the fastest that we found, each phase by kernel
timers and completion signals, and `actors`, the one that SimGrid's manual teaches. Goal: 25 times faster.

The model is chaotic for a few sets of applications in a hundred: who comes a hair later shares with others,
and the hair grows. `one ulp` is what Forebay's own I/O seconds change by when all computing times change in
their last bit; no two programs can be expected to agree better than that, so ten times as much is let pass.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench import curves, placed, seconds, verdict, workload

from forebay.decide.allocate.baselines import best_bandwidth
from forebay.decide.allocate.baselines import random as random_allocation
from forebay.decide.allocate.tcpu import tcpu
from forebay.decide.place import greedy_clairvoyant, greedy_non_clairvoyant
from forebay.decide.place import random as random_placement
from forebay.model.application import Application
from forebay.model.arrays import Floats, Ints
from forebay.model.decision import Placement
from forebay.simulate.applications.engine import HORIZON_SLACK, Measures, simulate
from forebay.simulate.applications.random_sets import PAPER_APPLICATIONS, PAPER_SYSTEM

HORIZON = 20_000.0
TOLERANCE = 1e-6
GOAL = 25.0
CASES = [
    (load, allocate, place)
    for load in (0.2, 0.6, 1.0)
    for allocate, place in (
        (best_bandwidth, greedy_non_clairvoyant),
        (tcpu, greedy_clairvoyant),
        (random_allocation, random_placement),
    )
]
# The fastest CPU model for each formulation; `Full` is slower for both. SimGrid's default precision of
# 10 microseconds would be the only difference that one sees.
FORMULATIONS = {"callbacks": "TI", "actors": "Lazy"}
OPTIONS = [
    "--cfg=contexts/factory:raw",
    "--cfg=surf/precision:1e-9",
    "--cfg=maxmin/precision:1e-9",
    "--log=root.thres:error",
]


class Outcome(NamedTuple):
    seconds: float
    phases: Ints
    io_seconds: Floats


def main() -> int:
    parser = argparse.ArgumentParser(description="Forebay against SimGrid on the same input.")
    parser.add_argument("--curves", type=Path, help="measured curves (CSV); synthetic ones if left out")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch, "phases")
        problem = build(program)
        if problem:
            print(f"not compared with SimGrid: {problem}")
            return 0
        return compare(program, arguments.curves, arguments.repeats)


def compare(program: Path, curve_file: Path | None, repeats: int) -> int:
    measured = curves(curve_file)
    print(f"{'':45}{'':>7}{'largest difference':>20}{'seconds':^30}{'times faster than':>19}")
    print(f"{'load, allocation + placement':45}{'events':>7}{'SimGrid':>10}{'one ulp':>10}", end="")
    print(f"{'callbacks':>10}{'actors':>10}{'Forebay':>10}{'callbacks':>10}{'actors':>9}")
    ratios: dict[str, list[float]] = {name: [] for name in FORMULATIONS}
    differences, agree = [], True
    for load, allocate, place in CASES:
        applications = workload(PAPER_SYSTEM, measured, PAPER_APPLICATIONS, load)
        placement = placed(PAPER_SYSTEM, applications, allocate, place)
        run = partial(simulate, PAPER_SYSTEM, applications, placement, horizon=HORIZON)
        ours = run()
        own_seconds = seconds(run, 5 * repeats)
        peers = simgrid(program, applications, placement, repeats)
        difference = max(apart(peer, ours) for peer in peers.values())
        noise = one_ulp(applications, placement, ours)
        agree &= difference <= max(TOLERANCE, 10 * noise)  # where noise is inf, nothing can be said
        differences.append(difference)
        for name, peer in peers.items():
            ratios[name].append(peer.seconds / own_seconds)
        print(
            f"{f'{load:.1f}, {allocate.name} + {place.name}':45}{ours.events:7,}{difference:10.1e}{noise:10.1e}", end=""
        )
        print(*(f"{peer.seconds:10.5f}" for peer in peers.values()), f"{own_seconds:10.5f}", sep="", end="")
        print(*(f"{own[-1]:9.1f}" for own in ratios.values()))
    close = sum(d <= TOLERANCE for d in differences)
    print(f"\nresults {'equal' if agree else 'DIFFER'}: {close} of {len(CASES)} cases within {TOLERANCE:g}")
    for name, own in ratios.items():
        middle = statistics.median(own)
        print(f"times faster than {name}: median {middle:.1f}; goal {GOAL:.0f} {verdict(middle >= GOAL)}")
    return 0 if agree and 2 * close > len(CASES) else 1


def apart(other: Outcome, ours: Measures) -> float:
    """The largest relative difference in I/O seconds; inf if the phases differ."""
    if not np.array_equal(other.phases, ours.phases_done):
        return float("inf")
    return float(np.max(np.abs(other.io_seconds - ours.io_seconds) / np.maximum(ours.io_seconds, 1e-300)))


def one_ulp(applications: tuple[Application, ...], placement: Placement, ours: Measures) -> float:
    """How far apart our results are when all computing times are the next smaller or larger numbers."""
    found = []
    for direction in (0.0, np.inf):
        moved = [replace(a, compute_seconds=float(np.nextafter(a.compute_seconds, direction))) for a in applications]
        again = simulate(PAPER_SYSTEM, moved, placement, horizon=HORIZON)
        found.append(apart(Outcome(0.0, again.phases_done, again.io_seconds), ours))
    return max(found)


def simgrid(
    program: Path, applications: tuple[Application, ...], placement: Placement, repeats: int
) -> dict[str, Outcome]:
    """What SimGrid finds in each formulation, and its median seconds."""
    given = program.with_name("input.txt")
    lines = [f"{PAPER_SYSTEM.targets} {len(applications)} {HORIZON * (1 + HORIZON_SLACK)!r}"]
    for a, own in zip(applications, placement, strict=True):
        compute, work = a.compute_seconds / a.phases, a.io_seconds(len(own)) / a.phases
        lines.append(f"{compute!r} {work!r} {len(own)} {' '.join(map(str, own))}")
    given.write_text("\n".join(lines))
    found = {}
    for name, model in FORMULATIONS.items():
        command = [str(program), str(given), name, f"--cfg=cpu/optim:{model}", *OPTIONS]
        runs = [outcome(subprocess.check_output(command, text=True)) for _ in range(repeats)]
        found[name] = runs[0]._replace(seconds=statistics.median(run.seconds for run in runs))
    return found


def outcome(text: str) -> Outcome:
    wall, *rows = text.splitlines()
    cells = [row.split() for row in rows]
    return Outcome(float(wall), np.array([int(c[0]) for c in cells]), np.array([float(c[1]) for c in cells]))


def build(program: Path) -> str:
    """Compile the SimGrid program, with SimGrid from Debian if need be; why that is impossible, or nothing."""
    if compiled(program):
        return ""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return "libsimgrid-dev is not installed, and only root on Debian can install it"
    for step in (["update"], ["install", "-y", "--no-install-recommends", "g++", "libsimgrid-dev"]):
        if subprocess.run(["apt-get", "-qq", *step], stdout=sys.stderr, check=False).returncode != 0:
            return f"apt-get {step[0]} failed"
    return "" if compiled(program) else "simgrid/phases.cpp doesn't compile with this SimGrid"


def compiled(program: Path) -> bool:
    source = Path(__file__).parent / "simgrid" / "phases.cpp"
    command = ["g++", "-O2", "-std=c++17", str(source), "-o", str(program), "-lsimgrid"]
    return bool(shutil.which("g++")) and subprocess.run(command, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
