"""How long jobs wait under `forebay`, over what they wait under `sjf-bb`; `plan:alpha=1` beside it.

    .venv/bin/python benchmarks/schedule_quality.py [--kth FOLDER] [--seeds N ...] [--only NAME ...]

Goals, as means over the parts of KTH with burst buffers, each divided by `sjf-bb`: at most 0.70 of the waiting and 0.75
of the bounded slowdown, less than `plan:alpha=1` of both, no part worse than `sjf-bb` in both, and a longest wait that
is not longer. Also ahead of both policies with transfers, with half and double the space, and with wall times that are
exact or five times too long. "redrawn" gives the burst buffers to other jobs, "unknown users" hides the users.
"known run times" is a bound, not a goal: both policies get the run times as wall times, `sjf-bb` does not.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from bench import verdict
from numpy.typing import NDArray

from forebay.decide.registry import find
from forebay.history.jobs import read_jobs
from forebay.model.jobs import Jobs, reject_oversized
from forebay.simulate.jobs.run import JobMachine, simulate_jobs
from forebay.studies.jobs.variations import SPACE, WALLTIMES, Variation

KTH = Path(__file__).resolve().parents[2] / "shared" / "data" / "kth"
NODES, BYTES, BANDWIDTH = 96, 480 * 10**9, 1.25e9
REFERENCE, PLAN, FOREBAY = "sjf-bb", "plan:alpha=1", "forebay"
MOST_WAIT, MOST_SLOWDOWN = 0.70, 0.75
KNOWN = "known run times"


def redraw_bytes(jobs: Jobs) -> Jobs:
    rows = jobs.rows.copy()
    per_node = (rows["bytes"] // rows["nodes"])[np.random.default_rng(0).permutation(len(rows))]
    rows["bytes"] = rows["bytes_in"] = rows["bytes_out"] = per_node * rows["nodes"]
    return replace(jobs, rows=rows)


def hide_users(jobs: Jobs) -> Jobs:
    rows = jobs.rows.copy()
    rows["user"] = -1
    return replace(jobs, rows=rows)


CASES: dict[str, tuple[str, Variation, Callable[[Jobs], Jobs]]] = {
    "as they are": ("alloc-only", Variation(), lambda jobs: jobs),
    "transfers": ("io-aware", Variation(), lambda jobs: jobs),
    "half the space": ("alloc-only", Variation(SPACE, 0.5), lambda jobs: jobs),
    "double the space": ("alloc-only", Variation(SPACE, 2.0), lambda jobs: jobs),
    "exact wall times": ("alloc-only", Variation(WALLTIMES, 1.0), lambda jobs: jobs),
    "five times the run time": ("alloc-only", Variation(WALLTIMES, 5.0), lambda jobs: jobs),
    "redrawn": ("alloc-only", Variation(), redraw_bytes),
    "unknown users": ("alloc-only", Variation(), hide_users),
    KNOWN: ("alloc-only", Variation(), lambda jobs: jobs),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="How long jobs wait under forebay.")
    parser.add_argument("--kth", type=Path, default=KTH, help="the folder with the parts")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of the policies that draw")
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES), help="the cases to run")
    options = parser.parse_args()
    print(f"over {REFERENCE}, means over parts: waiting, slowdown, longest wait (worst part); parts worse in both")
    for name in options.only:
        kind, variation, change = CASES[name]
        files = sorted(options.kth.glob(f"{kind}-*.csv.gz"))
        if not files:
            parser.error(f"{options.kth} has no {kind}-*.csv.gz")
        bandwidth = BANDWIDTH if kind == "io-aware" else np.inf
        machine = JobMachine(nodes=NODES, space=variation.scale_space(BYTES), bandwidth=bandwidth)
        parts = [
            reject_oversized(variation.change_jobs(change(read_jobs(str(file)))), machine.nodes, machine.space)
            for file in files
        ]
        references = [measure(part, machine, REFERENCE, 0) for part in parts]
        if name == KNOWN:
            parts = [Variation(WALLTIMES, 1.0).change_jobs(part) for part in parts]
        ratios = {policy: compare(parts, machine, policy, references, options.seeds) for policy in (PLAN, FOREBAY)}
        for policy, values in ratios.items():
            wait, slowdown, mean = values.mean(axis=0)
            longest = f"{mean:.2f} ({values[:, 2].max():.2f})"
            worse = int((values[:, :2] > 1).all(axis=1).sum())
            goal = ""
            if policy == FOREBAY and name != KNOWN:
                limits = (MOST_WAIT, MOST_SLOWDOWN, 1.0) if name == "as they are" else (1.0, 1.0, 1.0)
                means, others = values.mean(axis=0), ratios[PLAN].mean(axis=0)
                goal = verdict(bool((means <= limits).all() and (means[:2] < others[:2]).all() and not worse))
            print(f"  {name:24} {policy:13} {wait:.3f} {slowdown:.3f} {longest}  {worse}  {goal}", flush=True)
    return 0


def compare(
    parts: list[Jobs], machine: JobMachine, policy: str, references: list[NDArray[np.float64]], seeds: list[int]
) -> NDArray[np.float64]:
    """Return a row for each part: the means over the seeds, over the reference."""
    means = [np.mean([measure(part, machine, policy, seed) for seed in seeds], axis=0) for part in parts]
    return np.array(means) / np.array(references)


def measure(jobs: Jobs, machine: JobMachine, policy: str, seed: int) -> NDArray[np.float64]:
    """Return the mean wait, the mean bounded slowdown and the longest wait."""
    run = simulate_jobs(jobs, machine, find("schedule", policy), seed=seed)
    waits = run.starts - jobs.rows["submit"]
    slowdowns = (run.ends - jobs.rows["submit"]) / np.maximum(run.ends - run.starts, 600)
    return np.array([waits.mean(), np.maximum(slowdowns, 1).mean(), waits.max()])


if __name__ == "__main__":
    raise SystemExit(main())
