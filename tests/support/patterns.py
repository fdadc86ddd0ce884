"""Periods that show an access pattern, made up."""

from __future__ import annotations

from typing import Any

from forebay.model.observation import Observation
from forebay.model.situation import PATTERNS


def made_up(count: int, rng: Any) -> list[tuple[Observation, str]]:
    """So many of each pattern, of all sizes; the classes overlap a little."""
    return [(_period(pattern, rng), pattern) for _ in range(count) for pattern in PATTERNS]


def _period(pattern: str, rng: Any) -> Observation:
    size, processes = int(2 ** rng.uniform(12, 22)), int(2 ** rng.uniform(1, 8))
    spread = {"file-per-process": 0.0, "shared-contiguous": rng.uniform(0.15, 0.4), "shared-strided": 0.0}[pattern]
    if pattern == "shared-strided":
        spread = float(rng.lognormal(-4, 1.0))
    largest = size * int(rng.choice([1, 1, 4]))
    return Observation(
        seconds=1.0,
        files=processes if pattern == "file-per-process" else 1,
        reads=500,
        bytes_read=500 * size,
        smallest=size,
        mean=(size + largest) / 2,
        largest=largest,
        spread=spread,
        processes=processes,
    )
