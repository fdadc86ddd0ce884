"""How slow each OST was in one run, against the others of the same run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

FEWEST_OSTS = 3
"""With fewer OSTs in a run none can be called slower than the others."""
TELLING_BYTES = 1 << 20
"""What moved less says more about latency than about its OST."""


def relative_to_median(moved: Mapping[int, tuple[float, float]]) -> dict[int, float]:
    """From (bytes, seconds) per OST to seconds per byte over the median of all OSTs.

    >>> relative_to_median({0: (2e9, 1.0), 1: (2e9, 1.0), 7: (2e9, 40.0)})
    {0: 1.0, 1: 1.0, 7: 40.0}
    """
    pace = {ost: s / b for ost, (b, s) in moved.items() if b > 0 and s > 0}
    if len(pace) < FEWEST_OSTS:
        return {}
    middle = median(pace.values())
    return {ost: p / middle for ost, p in pace.items()}


def slowness(systems: Sequence[str], moved: Sequence[float], seconds: Sequence[float]) -> list[float | None]:
    """The slowness of each OST against the others of its file system; None where it is not known."""
    found: list[float | None] = [None] * len(systems)
    for system in set(systems):
        own = {i: (moved[i], seconds[i]) for i, of in enumerate(systems) if of == system}
        for i, slow in relative_to_median(own).items():
            found[i] = slow
    return found
