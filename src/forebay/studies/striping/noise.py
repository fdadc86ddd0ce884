"""How soon, how safely and how well each policy finds the best layout when equal runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.random import Generator

from forebay.decide.registry import find
from forebay.model.layout import KIB, Layout
from forebay.simulate.striping.learn import Case, first_runs, weather
from forebay.simulate.striping.peers import peers_of
from forebay.studies.striping.results import NOBODY, NOISE, OTHERS

NEAR = 0.95
SIZES = tuple(64 * KIB << k for k in range(15))  # 64 KiB to 1 GiB


def best_layout(case: Case) -> tuple[Layout, float]:
    """Of all powers of two the fastest, the smallest of equally fast ones, and its bytes per second."""
    counts = [1 << k for k in range(case.machine.targets.bit_length()) if 1 << k <= case.machine.targets]
    layouts = [Layout(count=count, size=size, start=0) for count, size in product(counts, SIZES)]
    best = max(layouts, key=case.expected)
    return best, case.expected(best)


def noise_piece(case: Case, noise: float, policies: Sequence[str], *, runs: int, rngs: Sequence[Generator]) -> Any:
    """A NOISE row for every policy, history and generator; chance is the same for all policies."""
    case = alone(case)
    best, default = best_layout(case)[1], case.expected(Layout(count=1, start=0))
    rows = []
    for seed, rng in enumerate(rngs):
        known = {OTHERS: peers_of(case.machine, case.processes, noise, rng), NOBODY: ()}
        skies = weather(case, runs, noise, rng)
        for (history, peers), spec in product(known.items(), policies):
            reached = np.array([o.expected for o in first_runs(case, find("stripe", spec).decide, peers, skies)])
            about = (case.machine.name, case.program.name, case.processes, noise, history, spec, seed)
            rows.append((*about, *judged(reached, best, default)))
    return np.array(rows, dtype=NOISE)


def judged(expected: Any, best: float, default: float) -> tuple[int, float, float, float]:
    """The columns `reached`, `settled`, `worst` and `total` of runs with these throughputs without noise.

    >>> judged(np.array([50.0, 96.0, 48.0, 100.0]), 100.0, 50.0)
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


def alone(case: Case) -> Case:
    """Without background, which would be noise of another kind."""
    return replace(case, machine=replace(case.machine, background=0.0), others=())
