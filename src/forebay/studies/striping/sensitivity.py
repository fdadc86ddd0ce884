"""Beyond the paper: policies when equal runs differ, and improvements when the model's numbers are off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.random import Generator

from forebay.decide.registry import find
from forebay.model.layout import KIB, Layout
from forebay.show.rows import Floats, Rows
from forebay.simulate.striping.learn import Case, first_runs, peers_of, weather
from forebay.studies.striping.results import ASSUMED, DEFAULT, NOBODY, NOISE, OTHERS, TAPP

NEAR = 0.95
SIZES = tuple(64 * KIB << k for k in range(15))  # 64 KiB to 1 GiB
NUMBERS = (
    "process_bandwidth",
    "node_bandwidth",
    "pack_bandwidth",
    "rpc_seconds",
    "client_seconds",
    "lock_seconds",
    "round_seconds",
    "call_seconds",
    "dirty_bytes",
)
FACTORS = (0.5, 1.0, 2.0)


def best_layout(case: Case) -> tuple[Layout, float]:
    """Of all powers of two the fastest, the smallest of equally fast ones, and its bytes per second."""
    counts = [1 << k for k in range(case.machine.targets.bit_length()) if 1 << k <= case.machine.targets]
    layouts = [Layout(count=count, size=size, start=0) for count, size in product(counts, SIZES)]
    best = max(layouts, key=case.throughput)
    return best, case.throughput(best)


def noise_piece(case: Case, noise: float, policies: Sequence[str], *, runs: int, rngs: Sequence[Generator]) -> Rows:
    """A NOISE row for every policy, history and generator; chance is the same for all policies."""
    case = without_others(case)
    best, default = best_layout(case)[1], case.throughput(Layout(count=1, start=0))
    rows = []
    for seed, rng in enumerate(rngs):
        known = {OTHERS: peers_of(case.machine, case.processes, noise, rng), NOBODY: ()}
        skies = weather(case, runs, noise, rng)
        for (history, peers), spec in product(known.items(), policies):
            reached = np.array([o.expected for o in first_runs(case, find("stripe", spec).decide, peers, skies)])
            about = (case.machine.name, case.program.name, case.processes, noise, history, spec, seed)
            rows.append((*about, *judge_runs(reached, best, default)))
    return np.array(rows, dtype=NOISE)


def judge_runs(expected: Floats, best: float, default: float) -> tuple[int, float, float, float]:
    """The columns `reached`, `settled`, `worst` and `total` of runs with these throughputs without noise.

    >>> judge_runs(np.array([50.0, 96.0, 48.0, 100.0]), 100.0, 50.0)
    (2, 0.5, 0.5, 0.735)
    """
    near = expected >= NEAR * best
    known = np.maximum.accumulate(np.concatenate([[default], expected[:-1]]))
    return (
        int(np.argmax(near)) + 1 if near.any() else 0,
        float(near[expected.size // 2 :].mean()),
        float((expected / known).min()),
        float(expected.mean() / best),
    )


def without_others(case: Case) -> Case:
    """Without background, which would be noise of another kind."""
    return replace(case, machine=replace(case.machine, background=0.0), others=())


def assumed_piece(panels: Iterable[tuple[int, Case]], number: str, factor: float) -> Rows:
    """An ASSUMED row for every figure and rival, with `number` of its machine times `factor`."""
    most: dict[tuple[int, str, str], float] = {}
    for figure, case in panels:
        other = replace(case.machine, **{number: factor * getattr(case.machine, number)})
        for rival, gain in _gains(without_others(replace(case, machine=other))).items():
            key = (figure, case.program.name, rival)
            most[key] = max(most.get(key, 0.0), gain)
    return np.array([(number, factor, *key, 100 * gain) for key, gain in most.items()], dtype=ASSUMED)


def _gains(case: Case) -> dict[str, float]:
    """By how much the best layout is faster than those of the policies that don't learn, without noise."""
    best = best_layout(case)[1]
    ruled = min(case.processes, case.machine.targets) if case.program.shared else 1
    return {
        DEFAULT: best / case.throughput(Layout(count=1, start=0)) - 1,
        TAPP: best / case.throughput(Layout(count=ruled, start=0)) - 1,
    }
