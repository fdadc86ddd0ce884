"""How long questions to a large history take.

    .venv/bin/python benchmarks/history_speed.py [--runs 1284643] [--db postgresql://…]

Goals, with the 1,284,643 runs of 1,163 applications of two months of Cori (drawn; stripe counts and sizes as Kim et al.
2022 count them in Tables 2 and 3): `advise` under 50 ms, `history stats` under 2 s, and `history watch` under 30 s.
The peer is the same answer by going through all runs, in the same database.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from bench import SEED, seconds, verdict

from forebay.act.advice import JobRequest, advise
from forebay.act.filesystems.filesystem import numbered_targets
from forebay.act.filesystems.lustre.filesystem import Lustre
from forebay.decide.registry import find, policies
from forebay.history.store import Store, open_store
from forebay.history.store.runs import add_runs
from forebay.history.store.schema import runs
from forebay.history.store.totals import app_count, layout_sums, top_apps
from forebay.profile.filesystem_usage import usage
from forebay.profile.watch.report import watch_history

RUNS, APPLICATIONS, OSTS = 1_284_643, 1_163, 256
COUNTS = {1: 1_275_869, 2: 39, 4: 62, 8: 269, 16: 6_850, 32: 443, 64: 374, 128: 450, 256: 287}
SIZES = {1: 1_283_980, 4: 1, 8: 480, 16: 162, 32: 6, 48: 4, 64: 9, 96: 1}  # MiB
BATCH = 20_000
REPEATS = 9
MIB = 1 << 20


def main() -> int:
    parser = argparse.ArgumentParser(description="How long questions to a large history take.")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--db", help="an empty database; a SQLite file that is thrown away if left out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open_store(arguments.db or f"{folder}/history.db") as store:
        begin = time.perf_counter()
        fill(store, arguments.runs)
        took = time.perf_counter() - begin
        kind = "SQLite" if store.is_sqlite else "PostgreSQL"
        print(f"{kind}: {arguments.runs:,} runs drawn and stored in {took:.0f} s")
        _stats(store)
        _advise(store)
        _watch(store)
    return 0


def fill(store: Store, count: int) -> None:
    """Applications by Zipf's law; runs of one application have its number of processes, pattern and volume."""
    rng = np.random.default_rng(SEED)
    weights = 1 / np.arange(1, APPLICATIONS + 1)
    kinds = [_application(rng) for _ in range(APPLICATIONS)]
    done = 0
    while done < count:
        some = min(BATCH, count - done)
        whose = rng.choice(APPLICATIONS, some, p=weights / weights.sum())
        stripes = rng.choice(list(COUNTS), some, p=np.array(list(COUNTS.values())) / sum(COUNTS.values()))
        sizes = rng.choice(list(SIZES), some, p=np.array(list(SIZES.values())) / sum(SIZES.values()))
        noise = rng.lognormal(0, 0.3, some)
        with store.open_writer() as connection:
            add_runs(connection, list(_rows(done, whose, stripes, sizes, noise, kinds)))
        done += some


def _application(rng: np.random.Generator) -> dict[str, Any]:
    processes = int(2 ** rng.integers(0, 13))
    return {
        "nprocs": processes,
        "shared": bool(rng.random() < 0.4),
        "bytes": int(rng.lognormal(np.log(2e9), 2)),
        "pace": float(rng.lognormal(np.log(3e8), 1)),
        "requests": int(rng.lognormal(np.log(5e3), 1)),
    }


def _rows(
    first: int, whose: Any, stripes: Any, sizes: Any, noise: Any, kinds: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    empty: dict[str, Any] = {c.name: 0 for c in runs.columns if c.name not in ("run_id", "app_id")}
    empty |= {"modules": "POSIX,LUSTRE,STDIO", "log_ver": "3.10", "logs": 1, "partial_flag": False}
    empty |= {"pool": None, "components": None}
    for i, (app, count, size, factor) in enumerate(
        zip(whose.tolist(), stripes.tolist(), sizes.tolist(), noise.tolist(), strict=True)
    ):
        kind, number = kinds[app], first + i
        perf = kind["pace"] * min(count, kind["nprocs"]) ** 0.5 * factor
        moved = int(kind["bytes"] * factor)
        ost = number % OSTS
        yield empty | {
            "run_key": f"drawn-{number}",
            "app": f"app{app:04}",
            "exe": f"/apps/app{app:04}",
            "user": f"user{app % 500}",
            "uid": app % 500,
            "job_id": number,
            "nprocs": kind["nprocs"],
            "io_procs": kind["nprocs"],
            "start_time": 1_506_816_000.0 + 4.1 * number,
            "end_time": 1_506_816_600.0 + 4.1 * number,
            "run_time": 600.0,
            "total_bytes": moved,
            "bytes_written": moved,
            "shared_bytes": moved if kind["shared"] else 0,
            "time_by_slowest": moved / perf,
            "perf_by_slowest": perf,
            "total_files": 1 if kind["shared"] else kind["nprocs"],
            "write_requests": kind["requests"],
            "pattern_requests": kind["requests"],
            "seq_requests": kind["requests"] // 2,
            "io_1k_to_100k": kind["requests"] // 3,
            "seq_pct": 50.0,
            "read_sizes": "0,0,0,0,0,0,0,0,0,0",
            "write_sizes": "0,0,0,0,0,0,0,0,0,0",
            "common_size": MIB,
            "stripe_count": count,
            "file_stripe_count": count,
            "stripe_size": size * MIB,
            "stripe_offset": ost,
            "pfl_components": 1,
            "module_rows": [],
            "filesystem": "/scratch",
            "osts": {
                "filesystem": ["/scratch"],
                "ost": [ost],
                "files": [1],
                "total_bytes": [moved],
                "io_time": [1.0],
                "slowness": [None],
            },
        }


def _stats(store: Store) -> None:
    def ours() -> object:
        with store.open_reader() as connection:
            top = [top_apps(connection, by, 10) for by in ("runs", "total_bytes")]
            return usage(layout_sums(connection)), app_count(connection), top

    def by_all_runs() -> object:
        """Only the two tables of stripes, which is the least of what `stats` tells."""
        with store.open_reader() as connection:
            return [
                connection.execute(sa.select(column, sa.func.count()).group_by(column)).all()
                for column in (runs.c.stripe_count, runs.c.stripe_size)
            ]

    took, peer = seconds(ours, REPEATS), seconds(by_all_runs, 3)
    print(f"history stats: {1000 * took:.1f} ms, goal 2 s, {verdict(took < 2)}; ", end="")
    print(f"its two tables by going through all runs: {1000 * peer:.0f} ms, ratio {peer / took:.0f}")


def _advise(store: Store) -> None:
    targets, files = numbered_targets(OSTS), Lustre(known_targets=OSTS)
    for name in policies("stripe"):
        for app, what in (("app0000", "the most-run application"), ("nobody", "a new application")):
            asked = JobRequest(app=app, nprocs=32, now=2e9, chance=0.5, job="17", until=2e9 + 60)
            took = seconds(partial(advise, store, asked, find("stripe", name), files, targets), REPEATS)
            print(f"advise, {name}, {what}: {1000 * took:.1f} ms, goal 50, {verdict(took < 0.05)}")


def _watch(store: Store) -> None:
    """All runs are in the period; the peer only counts the runs of each application and user, one by one."""
    begin = time.perf_counter()
    with store.open_reader() as connection:
        report = watch_history(connection, 0.0, 3e9)
    took = time.perf_counter() - begin
    begin = time.perf_counter()
    with store.open_reader() as connection:
        counts = Counter((app, uid) for app, uid in connection.execute(sa.select(runs.c.app_id, runs.c.uid)))
    peer = time.perf_counter() - begin
    status = Path("/proc/self/status").read_text().splitlines()
    peak = 1024 * int(next(line.split()[1] for line in status if line.startswith("VmHWM")))
    assert report.runs == counts.total()
    print(f"history watch: {took:.1f} s, goal 30, {verdict(took < 30)}; ", end="")
    print(f"{peak / 1e6:,.0f} MB at most, goal 2,000; counting the runs alone: {peer:.1f} s, ratio {peer / took:.2f}")


if __name__ == "__main__":
    sys.exit(main())
