"""What the history knows of each OST."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy import Connection, Select

from forebay.history.store.schema import osts, runs

OBSERVED = np.dtype([("run", "i8"), ("ost", "i8"), ("files", "i8"), ("slowness", "f8")])
"""One OST in one run: how many files lie on it only, and their seconds per byte over the median of the run's OSTs."""
_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OstSums:
    """What all runs together did on one OST: bytes, and the seconds that processes spent on them."""

    ost: int
    runs: int
    files: int
    total_bytes: int
    io_time: float


def ost_sums(connection: Connection, since: float | None = None, until: float | None = None) -> list[OstSums]:
    """One for each OST, of runs that started in [since, until), ascending."""
    volume = [sa.func.sum(osts.c[name]) for name in ("files", "total_bytes", "io_time")]
    query = sa.select(osts.c.ost, sa.func.count(), *volume).group_by(osts.c.ost).order_by(osts.c.ost)
    return [
        OstSums(ost=ost, runs=int(number), files=int(files), total_bytes=int(size), io_time=float(seconds))
        for ost, number, files, size, seconds in connection.execute(_between(query, since, until))
    ]


def observations(
    connection: Connection, since: float | None = None, until: float | None = None
) -> npt.NDArray[np.void]:
    """Every OST in every run where its slowness is known, as `OBSERVED`, by run."""
    columns = [osts.c[name] for name in ("run_id", "ost", "alone_files", "slowness")]
    query: Select[Any] = sa.select(*columns).where(osts.c.slowness.is_not(None))
    query = _between(query.order_by(osts.c.run_id, osts.c.ost), since, until)
    parts = [np.array(part, dtype=OBSERVED) for part in _parts(connection, query)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=OBSERVED)


def _parts(connection: Connection, query: Select[Any]) -> Iterator[list[tuple[Any, ...]]]:
    for part in connection.execute(query, execution_options={"yield_per": _AT_ONCE}).partitions():
        yield [tuple(row) for row in part]


def _between(query: Select[Any], since: float | None, until: float | None) -> Select[Any]:
    if since is None and until is None:
        return query
    # Not a join, for which SQLite would look up the run of every row.
    started = sa.select(runs.c.run_id)
    if since is not None:
        started = started.where(runs.c.start_time >= since)
    if until is not None:
        started = started.where(runs.c.start_time < until)
    return query.where(osts.c.run_id.in_(started))
