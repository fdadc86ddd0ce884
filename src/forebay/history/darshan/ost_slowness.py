"""The slowness of each OST in a run, relative to the others, for runs of one log and of many."""

from collections.abc import Sequence
from statistics import median

FEWEST_OSTS = 3
"""The fewest OSTs of a run that are compared."""


def slowness(systems: Sequence[str], moved: Sequence[float], seconds: Sequence[float]) -> list[float | None]:
    """The seconds per byte of each OST, relative to the median of its file system in this run; None if unknown.

    >>> slowness(["/a"] * 3, [2e9, 2e9, 2e9], [1.0, 1.0, 40.0])
    [1.0, 1.0, 40.0]
    """
    relative: list[float | None] = [None] * len(systems)
    for system in set(systems):
        places = (i for i, name in enumerate(systems) if name == system and moved[i] > 0 and seconds[i] > 0)
        pace = {i: seconds[i] / moved[i] for i in places}
        if len(pace) >= FEWEST_OSTS:
            middle = median(pace.values())
            for i, value in pace.items():
                relative[i] = value / middle
    return relative
