"""Whether the numbers of a log can be true. A log may be whole, and yet have been written over.

One impossible number would spoil the sums over all runs, or not even fit into the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from forebay.history.limits import LARGEST

_ANY = ("job_id", "uid", "stripe_offset")


def impossible(row: Mapping[str, Any]) -> str | None:
    """What can't be true of a row of `runs` with its modules and OSTs, in words; None if all of it can.

    >>> impossible({"total_bytes": -5, "module_rows": [], "osts": {}})
    'total_bytes of -5'
    """
    for name, value in _numbers(row):
        if not 0 <= value <= LARGEST:  # which NaN is not, either
            return f"{name} of {value}"
    return None


def _numbers(row: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    for part in (row, *row["module_rows"]):
        yield from ((n, v) for n, v in part.items() if isinstance(v, int | float) and n not in _ANY)
    for name, column in row["osts"].items():
        yield from ((name, value) for value in column if value is not None)
