"""What hangs on the model's numbers: the most that a layout can improve, with each one halved and doubled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from forebay.model.layout import Layout
from forebay.simulate.striping.learn import Case
from forebay.studies.striping.noise import alone, best_layout
from forebay.studies.striping.results import ASSUMED, DEFAULT, TAPP

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


def assumed_piece(panels: Iterable[tuple[int, Case]], number: str, factor: float) -> Any:
    """An ASSUMED row for every figure and rival, with `number` of its machine times `factor`."""
    found: dict[tuple[int, str, str], float] = {}
    for figure, case in panels:
        other = replace(case.machine, **{number: factor * getattr(case.machine, number)})
        for rival, gain in _gains(alone(replace(case, machine=other))).items():
            key = (figure, case.program.name, rival)
            found[key] = max(found.get(key, 0.0), gain)
    return np.array([(number, factor, *key, 100 * gain) for key, gain in found.items()], dtype=ASSUMED)


def _gains(case: Case) -> dict[str, float]:
    """By how much the best layout is faster than those of the policies that don't learn, without noise."""
    best = best_layout(case)[1]
    ruled = min(case.processes, case.machine.targets) if case.program.shared else 1
    return {
        DEFAULT: best / case.expected(Layout(count=1, start=0)) - 1,
        TAPP: best / case.expected(Layout(count=ruled, start=0)) - 1,
    }
