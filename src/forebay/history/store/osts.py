"""What runs did on each OST, and how slow it was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy import Connection, Select

from forebay.history.store.schema import filesystems, osts, runs

OBSERVATION = np.dtype([("run", "i8"), ("ost", "i8"), ("files", "i8"), ("slowness", "f8")])
"""One OST in one run: the files on it alone, and their seconds per byte over the median of the run's OSTs."""
_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OstSums:
    """What all runs did on one OST: bytes, and the seconds that processes spent on them. `filesystem` is its mount
    point, "" if unknown."""

    filesystem: str = ""
    ost: int
    runs: int
    files: int
    total_bytes: int
    io_time: float


def filesystem_ids(connection: Connection) -> dict[str, int]:
    """The ids of all file systems with known OSTs, by mount point."""
    used = sa.exists().where(osts.c.filesystem_id == filesystems.c.filesystem_id)
    query = sa.select(filesystems.c.filesystem, filesystems.c.filesystem_id).where(used)
    return {row.filesystem: row.filesystem_id for row in connection.execute(query.order_by(filesystems.c.filesystem))}


def highest_target(connection: Connection, filesystem: str | None = None) -> int | None:
    """The highest index of an OST that any run used, on any file system or on one; if no OST of that one is known, on
    unknown file systems."""
    highest = sa.select(sa.func.max(osts.c.ost))
    if filesystem is None:
        return connection.execute(highest).scalar()
    named = highest.join_from(osts, filesystems)
    indices = (connection.execute(named.where(filesystems.c.filesystem == name)).scalar() for name in (filesystem, ""))
    return next((index for index in indices if index is not None), None)


def osts_by_filesystem(
    connection: Connection, since: float | None = None, until: float | None = None, only: str | None = None
) -> list[tuple[list[OstSums], npt.NDArray[np.void]]]:
    """`ost_sums` and `observations` of each file system, or of only one."""
    return [
        (
            [replace(s, filesystem=name) for s in ost_sums(connection, since, until, number)],
            observations(connection, since, until, number),
        )
        for name, number in filesystem_ids(connection).items()
        if only is None or name == only
    ]


def ost_sums(connection: Connection, since: float | None, until: float | None, filesystem_id: int) -> list[OstSums]:
    """The sums of each OST of a file system, ascending, over runs that started in [since, until)."""
    volume = [sa.func.sum(osts.c[name]) for name in ("files", "total_bytes", "io_time")]
    query = sa.select(osts.c.ost, sa.func.count(), *volume).where(osts.c.filesystem_id == filesystem_id)
    query = _between(query.group_by(osts.c.ost).order_by(osts.c.ost), since, until)
    return [
        OstSums(ost=ost, runs=int(number), files=int(files), total_bytes=int(size), io_time=float(seconds))
        for ost, number, files, size, seconds in connection.execute(query)
    ]


def observations(
    connection: Connection, since: float | None, until: float | None, filesystem_id: int
) -> npt.NDArray[np.void]:
    """Every OST of a file system in every run with a known slowness, as `OBSERVATION`, by run."""
    columns = [osts.c[name] for name in ("run_id", "ost", "alone_files", "slowness")]
    known = sa.and_(osts.c.slowness.is_not(None), osts.c.filesystem_id == filesystem_id)
    query: Select[Any] = sa.select(*columns).where(known)
    query = _between(query.order_by(osts.c.run_id, osts.c.ost), since, until)
    partitions = connection.execute(query, execution_options={"yield_per": _AT_ONCE}).partitions()
    parts = [np.array([tuple(row) for row in rows], dtype=OBSERVATION) for rows in partitions]
    return np.concatenate(parts) if parts else np.empty(0, dtype=OBSERVATION)


def _between(query: Select[Any], since: float | None, until: float | None) -> Select[Any]:
    if since is None and until is None:
        return query
    # Not a join: SQLite would look up the run of every row.
    started = sa.select(runs.c.run_id)
    if since is not None:
        started = started.where(runs.c.start_time >= since)
    if until is not None:
        started = started.where(runs.c.start_time < until)
    return query.where(osts.c.run_id.in_(started))
