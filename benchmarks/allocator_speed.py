"""How long `forebay` takes to decide, beside `tcpu`, which knows the same.

    .venv/bin/python benchmarks/allocator_speed.py [--curves FILE]

Goals: under 1 s for 60 applications, under 1 min for 1,000. Once compiled; medians of three, at loads 0.2 and 0.9.
How good the decisions are is what `forebay study io-nodes` tells, and `forebay study io-nodes --applications 5
--targets 8 --compute-nodes 40 --allocate tcpu,best-bandwidth,forebay,optimal --loads 0.2:0.5:0.1` how far from the
best.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from bench import curves, machine, seconds, verdict, workload

from forebay.decide.allocate.forebay import forebay
from forebay.decide.allocate.tcpu import tcpu
from forebay.decide.view import View

GOALS = {60: 1.0, 1000: 60.0}


def main() -> int:
    parser = argparse.ArgumentParser(description="How long forebay takes to decide.")
    parser.add_argument("--curves", type=Path, help="measured curves (CSV); synthetic ones if left out")
    measured = curves(parser.parse_args().curves)
    print(f"{'applications':>12}{'load':>6}{'tcpu':>12}{'forebay':>10}{'ratio':>9}")
    for applications, goal in GOALS.items():
        slowest = 0.0
        for load in (0.2, 0.9):
            system = machine(applications)
            view = View(system, workload(system, measured, applications, load))
            peer, own = (seconds(partial(policy.decide, view), 3) for policy in (tcpu, forebay))
            slowest = max(slowest, own)
            print(f"{applications:12,}{load:6.1f}{peer:10.5f} s{own:8.2f} s{own / peer:9.0f}")
        print(f"{applications:12,} applications: goal {goal:g} s {verdict(slowest < goal)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
