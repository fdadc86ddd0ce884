"""The decisions of a council while the benchmark runs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forebay.act.forward.bench.client_processes import LayerAccess
from forebay.act.forward.bench.layer import BenchLayer

WINDOWS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Milliseconds: the values of the paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision: `seconds` after the first, the window in seconds, the reason, and the bandwidth of the last period
    in bytes per second."""

    seconds: float
    window: float | None
    because: str
    bandwidth: float
    patterns: tuple[str, ...]


def values(dilation: float) -> str:
    """The windows to choose from, as an option; dilation makes them longer.

    >>> values(10)
    '1.25ms,2.5ms,5ms,10ms,20ms,40ms,80ms'
    """
    return ",".join(f"{window * (dilation or 1):g}ms" for window in WINDOWS)


def add_council_nodes(layer: BenchLayer, name: str, scheduler: str, *options: str) -> LayerAccess:
    """New I/O nodes with a council."""
    council = ("--log", str(decision_log(layer, name)), "--values", values(layer.shape.dilation), *options)
    return LayerAccess(layer.nodes(name, "--scheduler", scheduler, council=council), layer.key)


def decision_log(layer: BenchLayer, name: str) -> Path:
    return layer.folder / f"{name}.log"


def read_decisions(log: Path) -> list[Decision]:
    """The decisions in a council's log, oldest first, without an incomplete last line."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else ()
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    return [
        Decision(
            seconds=row["time"] - rows[0]["time"],
            window=row["value"] / 1e9 if isinstance(row["value"], int | float) else None,
            because=row["because"],
            bandwidth=row["bandwidth"],
            patterns=tuple(row["patterns"]),
        )
        for row in rows
    ]


def busy_decisions(all_decisions: Sequence[Decision]) -> list[Decision]:
    """The decisions for periods with I/O."""
    return [decision for decision in all_decisions if decision.bandwidth > 0]
