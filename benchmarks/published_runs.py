"""How near the 256 published runs of StorAlloc come out, on requests like theirs and by their rules.

    .venv/bin/python benchmarks/published_runs.py published_runs.csv [--seeds 3]

Goal: nine of ten within 2 points of the published share, for every seed. The file has a row for each run, with the
columns capacity_tb, layout, algorithm, split_gb, requeue and pct_allocated.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import numpy as np
from bench import verdict

from forebay.decide.registry import find
from forebay.model.reference_platforms import reference_platform
from forebay.model.space_requests import Requests
from forebay.profile.synthetic_theta_2020 import theta_2020
from forebay.simulate.storage.rules import SPLIT, TRIES, Rules
from forebay.simulate.storage.run import run_storage


def main() -> int:
    parser = argparse.ArgumentParser(description="How near the published runs of StorAlloc come out.")
    parser.add_argument("file", type=Path, nargs="?", help="the published runs (CSV)")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.file is None:
        print("published runs: left out, for want of a file with them")
        return 0
    with options.file.open(newline="") as file:
        published = [row for row in csv.DictReader(file) if row["set"].startswith("full")]
    for seed in range(options.seeds):
        requests = theta_2020(np.random.default_rng(seed))
        off = np.array([abs(_share(row, requests, seed) - float(row["pct_allocated"])) for row in published])
        near, nearer = int((off <= 2).sum()), int((off <= 1).sum())
        reached = verdict(near >= 0.9 * off.size)
        print(f"seed {seed}: {near} of {off.size} within 2 points, {nearer} within 1, worst {off.max():.2f}; {reached}")
    return 0


def _share(row: dict[str, str], requests: Requests, seed: int) -> float:
    rules = Rules(mode="storalloc", split=SPLIT if row["split_gb"] else 0, tries=TRIES if row["requeue"] == "1" else 0)
    platform = reference_platform(f"{row['capacity_tb']}TB/{row['layout']}")
    run = run_storage(platform, requests, find("storage", row["algorithm"].replace("_", "-")), rules, seed=seed)
    return 100 * float(run.total["put"]) / float(run.parts["bytes"].sum())


if __name__ == "__main__":
    sys.exit(main())
