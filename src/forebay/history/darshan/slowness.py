"""How slow each OST was in one run, compared with the others in the same run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

FEWEST_OSTS = 3
"""With fewer OSTs in a run, they are not compared."""
COMPARABLE_BYTES = 1 << 20
"""A file that moved less shows latency rather than the speed of its OST."""


def relative_to_median(moved: Mapping[int, tuple[float, float]]) -> dict[int, float]:
    """Seconds per byte over the median of all OSTs, from the bytes and seconds of each.

    >>> relative_to_median({0: (2e9, 1.0), 1: (2e9, 1.0), 7: (2e9, 40.0)})
    {0: 1.0, 1: 1.0, 7: 40.0}
    """
    pace = {ost: s / b for ost, (b, s) in moved.items() if b > 0 and s > 0}
    if len(pace) < FEWEST_OSTS:
        return {}
    middle = median(pace.values())
    return {ost: p / middle for ost, p in pace.items()}


def slowness(systems: Sequence[str], moved: Sequence[float], seconds: Sequence[float]) -> list[float | None]:
    """The slowness of each OST compared with the others of its file system; None if unknown."""
    result: list[float | None] = [None] * len(systems)
    for system in set(systems):
        osts = {i: (moved[i], seconds[i]) for i, name in enumerate(systems) if name == system}
        for i, slow in relative_to_median(osts).items():
            result[i] = slow
    return result
