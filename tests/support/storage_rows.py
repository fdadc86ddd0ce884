"""Storage studies made up row by row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from forebay.model.arrays import Floats, Ints
from forebay.studies.burst_buffer.results import OPTIMAL, ROW, StorageResults, layout_of

TB = 10**12
GB = 10**9
SPLIT = 200 * GB
PAPER = ("random", "round-robin", "worst-fit", "best-bandwidth")
GRID = tuple(f"{capacity}TB/{layout}" for capacity in (8, 16, 32, 64) for layout in ("nNnD", "1NnD", "1N1D"))
MIXED = "32TB/heterogeneous"


def run_rows(
    mode: str,
    platform: str,
    policy: str,
    *,
    split: int = SPLIT,
    tries: int = 0,
    disks: Sequence[tuple[str, str, float, float]] = (("a", "", 0.5, 20.0), ("b", "", 0.75, 22.0)),
    capacity: int | None = None,
    **columns: Any,
) -> Any:
    """One run; each disk is a node, a kind, a maximum use and a maximum number of allocations."""
    rows = np.zeros(len(disks), dtype=ROW)
    for name in ROW.names or ():
        if ROW[name] == np.float64:
            rows[name] = np.nan
    terabytes = platform.split("TB")[0]
    rows["capacity"] = capacity or int(terabytes) * TB
    rows["mode"], rows["platform"], rows["layout"], rows["policy"] = mode, platform, layout_of(platform), policy
    rows["split"], rows["tries"], rows["interval"] = split, tries, 300.0
    rows["requests"], rows["sum_bytes"] = 100, 1000 * GB
    rows["allocated_share"] = 1.0
    for name, value in columns.items():
        rows[name] = value
    share: Floats = rows["allocated_share"]
    total: Ints = rows["sum_bytes"]
    rows["allocated_bytes"] = share * total
    if policy == OPTIMAL:
        rows["disk"] = -1
        return rows[:1]
    for index, (row, (node, kind, use, most)) in enumerate(zip(rows, disks, strict=True)):
        row["node"], row["disk"], row["kind"], row["disk_capacity"] = node, index, kind, row["capacity"] // len(disks)
        row["max_use"], row["mean_use"] = use, use / 50
        row["max_allocations"], row["mean_allocations"] = most, most / 40
    return rows


def results_of(*runs: Any, origin: str = "100 made-up requests") -> StorageResults:
    rows = np.concatenate(runs) if runs else np.zeros(0, dtype=ROW)
    return StorageResults(origin=origin, requests=100, settings={"seed": 0}, rows=rows)


def random_results(
    *,
    modes: Sequence[str] = ("storalloc", "correct"),
    platforms: Sequence[str] = GRID,
    policies: Sequence[str] = (*PAPER, "forebay"),
    splits: Sequence[int] = (0, SPLIT),
    tries: Sequence[int] = (0, 12),
    disks: int = 3,
    mixed: bool = True,
    bound: bool = True,
    slowdown: bool = False,
    capacity: int | None = None,
) -> StorageResults:
    """Random numbers in the ranges that the measures have."""
    rng = np.random.default_rng(5)

    def run(mode: str, platform: str, policy: str, split: int, again: int, kinds: Sequence[str]) -> Any:
        missed = rng.integers(0, 30, 2) if split else (0, 0)
        return run_rows(
            mode,
            platform,
            policy,
            split=split,
            tries=again,
            capacity=capacity,
            disks=[
                (f"node-{i // 2}", kind, float(rng.choice([rng.uniform(0.3, 1.0), 1.0])), float(rng.integers(5, 40)))
                for i, kind in enumerate(kinds)
            ],
            allocated_share=rng.uniform(0.4, 1.0),
            split_failed=missed[0],
            split_refused=missed[1],
            requeued=int(rng.integers(0, 3)) if again else 0,
            mean_slowdown=1 + rng.exponential() if slowdown and mode == "correct" else np.nan,
        )

    runs = [
        run(m, platform, policy, s, t, [""] * disks)
        for m, platform, s, t, policy in product(modes, platforms, splits, tries, policies)
        if m == "correct" or policy != "forebay"
    ]
    if mixed:
        runs += [
            run(m, MIXED, p, SPLIT, 0, ["SSD", "SSD", "HDD", "HDD"])
            for m, p in product(modes, policies)
            if m == "correct" or p != "forebay"
        ]
    if bound and "correct" in modes:
        runs += [
            run_rows("correct", platform, OPTIMAL, split=s, tries=t, capacity=capacity)
            for platform, s, t in product(platforms, splits, tries)
        ]
    return results_of(*runs)
