"""What more workers bring, and what they cost: the io-nodes study by processes and by a Dask cluster on this machine.

    .venv/bin/python benchmarks/workers_speed.py [--sets 6]

Goals: Dask with 2 workers at least 1.7 times as fast as one process on the io-nodes study as `forebay study io-nodes`
runs it; less than 20 ms of a worker's time lost for each piece, also where none is bundled with others. The study of
the paper's own policies alone has pieces that are 20 times as short. All workers have done some pieces before they are
timed; what it takes until then is printed. How many pieces a second go through one scheduler and one of us, whatever
is in them, is what no number of workers can beat (docs/scale.md).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bench import SEED, verdict

from forebay.profile.synthetic_curves import PAPER_COUNTS, synthetic_curves
from forebay.simulate.applications.random_sets import PAPER_APPLICATIONS, PAPER_SYSTEM
from forebay.studies.io_resources.experiment import IoResourcesStudy
from forebay.studies.io_resources.results import TRUE
from forebay.studies.runner import run_study
from forebay.work import Workers, dask_crew, run_pieces
from forebay.work.dask import connect_workers

LOADS = tuple(round(0.2 + 0.1 * n, 1) for n in range(10))
PAPER = ("random", "static", "best-bandwidth", "nsys", "tcpu", "mckp")
STUDIES = {"the paper's allocators": (PAPER, 10), "with forebay": ((*PAPER, "forebay"), 1)}
"""Allocators, and sets for each one that is asked for: pieces with `forebay` take 20 times as long."""
PIECES, MANY = 400, 4000


def main() -> int:
    parser = argparse.ArgumentParser(description="What more workers bring, and what they cost.")
    parser.add_argument("--sets", type=int, default=6, help="of each of ten loads")
    sets, cores = parser.parse_args().sets, os.cpu_count() or 1
    studies = {name: _study(allocators, times * sets) for name, (allocators, times) in STUDIES.items()}
    for study in studies.values():
        _timed(replace(study, sets=1), 1)  # compiles
    alone = {name: _timed(study, 1) for name, study in studies.items()}
    for name, study in studies.items():
        pieces = len(study.keys())
        print(f"{name}: {pieces} pieces of {1000 * alone[name] / pieces:.0f} ms, one process: {alone[name]:.1f} s")
    for count in sorted({*(2**n for n in range(1, 10) if 2**n <= cores), cores} - {1}):
        for name, study in studies.items():
            taken = _timed(study, count)
            print(f"{count} processes, with their start, {name}: {taken:.1f} s, ratio {alone[name] / taken:.2f}")
    for count in sorted({1, 2, cores}):
        _by_dask(count, studies, alone)
    return 0


def _study(allocators: Sequence[str], sets: int) -> IoResourcesStudy:
    curves = synthetic_curves("io-nodes", PAPER_COUNTS["io-nodes"], np.random.default_rng(SEED))
    return IoResourcesStudy(
        name="io-nodes",
        curves=curves.by_name,
        origin=curves.origin,
        system=PAPER_SYSTEM,
        applications=PAPER_APPLICATIONS,
        horizon=20_000,
        allocators=allocators,
        placers=("random", "greedy-non-clairvoyant", "greedy-clairvoyant"),
        sees=(TRUE,),
        seed=SEED,
        loads=LOADS,
        step=0.1,
        sets=sets,
    )


def _by_dask(count: int, studies: Mapping[str, IoResourcesStudy], alone: Mapping[str, float]) -> None:
    with _dask(count, studies.values()) as workers:
        for name, study in studies.items():
            ratio = alone[name] / _timed(study, workers)
            goal = f", goal 1.7, {verdict(ratio >= 1.7)}" if count == 2 and "forebay" in study.allocators else ""
            print(f"Dask, {count} workers, {name}: ratio {ratio:.2f}{goal}")
        if count == 2:
            _overheads(workers, count)


def _timed(study: IoResourcesStudy, workers: Workers) -> float:
    """Seconds for the whole study, without its figures."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        run_study(study, Path(folder) / "pieces", workers=workers, progress=lambda _done: None)
        return time.perf_counter() - begin


@contextmanager
def _dask(count: int, studies: Iterable[IoResourcesStudy]) -> Iterator[Workers]:
    """A cluster whose workers have loaded all code."""
    import distributed

    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make: Any = distributed.LocalCluster
        cluster = make(n_workers=count, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=60)
    try:
        with connect_workers(cluster.scheduler_address, lambda words: print(words, file=sys.stderr)) as workers:
            ready = time.perf_counter() - begin
            for study in studies:
                _timed(replace(study, sets=max(1, count // 2)), workers)
            warm = time.perf_counter() - begin
            print(f"Dask, {count} workers: connected after {ready:.1f} s, all code loaded after {warm:.1f} s")
            yield workers
    finally:
        cluster.close(timeout=10)


def _overheads(workers: Workers, count: int) -> None:
    lost = count * _through(workers, PIECES, 2) / PIECES
    rate = MANY / _through(workers, MANY, 2)
    dask_crew.MOST, bundled = 1, dask_crew.MOST
    single = count * _through(workers, PIECES, 2) / PIECES
    rate_single = MANY / _through(workers, MANY, 200)
    dask_crew.MOST = bundled
    print(f"lost for each short piece: {1000 * lost:.1f} ms, goal 20, {verdict(lost < 0.020)}")
    print(f"... for each that is sent alone: {1000 * single:.1f} ms, goal 20, {verdict(single < 0.020)}")
    print(f"empty pieces a second: {rate:,.0f} in bundles, {rate_single:,.0f} one by one with many under way")


def _through(workers: Workers, pieces: int, ahead: int) -> float:
    """Seconds for so many pieces in which nothing is to be done."""
    begin = time.perf_counter()
    with closing(run_pieces(workers, abs, range(pieces), ahead=ahead)) as results:
        assert sum(result for _, result in results if isinstance(result, int)) == pieces * (pieces - 1) // 2
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
