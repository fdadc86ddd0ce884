"""Tables of results as structured arrays, selected by the values of their columns."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.history.toml import load_toml
from forebay.model.arrays import Bools, Floats

Rows = NDArray[np.void]
Record = dict[str, Any]


def read_columns(module: str) -> dict[str, list[tuple[str, str]]]:
    """Read the columns of each kind of rows from the TOML file next to the module of the results."""
    tables = load_toml(Path(module).with_suffix(".toml"))
    return {kind: list(columns.items()) for kind, columns in tables.items()}


def match_rows(rows: Rows, **wanted: object) -> Bools:
    """Which rows have these values in their columns."""
    chosen = np.ones(rows.size, dtype=bool)
    for column, value in wanted.items():
        chosen &= rows[column] == value
    return chosen


def select(rows: Rows, **wanted: object) -> Rows:
    """The rows whose columns have these values."""
    selected: Rows = rows[match_rows(rows, **wanted)]
    return selected


def distinct_values(rows: Rows, *columns: str) -> list[Any]:
    """The values of a column, or the tuples of several, in the order in which they first occur."""
    values = rows[columns[0]].tolist() if len(columns) == 1 else rows[list(columns)].tolist()
    return list(dict.fromkeys(values))


def group(rows: Rows, columns: Sequence[str]) -> list[tuple[Record, Rows]]:
    """The groups of rows with equal values in these columns, each with these values."""
    members: dict[tuple[Any, ...], list[int]] = {}
    for index, key in enumerate(rows[list(columns)].tolist()):
        members.setdefault(key, []).append(index)
    return [(dict(zip(columns, key, strict=True)), rows[indices]) for key, indices in members.items()]


def records(rows: Rows, columns: Sequence[str] = ()) -> list[Record]:
    """A record for each row, with all or some columns, in Python's own types."""
    names = columns or rows.dtype.names or ()
    values = [rows[name].tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def finite_values(values: Any) -> Floats:
    """The values without nan and infinity."""
    every: Floats = np.asarray(values, dtype=float)
    return every[np.isfinite(every)]
