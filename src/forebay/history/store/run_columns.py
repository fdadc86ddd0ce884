"""All runs as columns, for questions about how the history develops."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.store.bulk import select_in
from forebay.history.store.schema import apps, filesystems, findings, jobs, osts, runs

_AT_ONCE = 20_000
_RUN = {
    "run_id": "i8", "app_id": "i4", "uid": "i8", "job_id": "i8", "nprocs": "i4", "start_time": "f8", "end_time": "f8",
    "run_time": "f8", "bytes_read": "i8", "total_bytes": "i8", "time_by_slowest": "f8", "partial_flag": "i1",
    "stripe_count": "i4", "stripe_offset": "i4",
}  # fmt: skip
RUN = np.dtype([*_RUN.items(), ("filesystem", "i4"), ("user", "i4")])
"""Columns of `runs` (see schema.toml), 0 if unknown (-1 for `stripe_offset`), and the indices of two names."""
SHARE = np.dtype([("run_id", "i8"), ("filesystem_id", "i8"), ("ost", "i8"), ("total_bytes", "i8")])
SLOWNESS = np.dtype(
    [("run_id", "i8"), ("filesystem_id", "i8"), ("ost", "i8"), ("alone_files", "i8"), ("slowness", "f8")]
)
Records = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRuns:
    """Runs as `RUN` records in the order of their start, and the names that these refer to."""

    rows: Records
    apps: dict[int, str]
    filesystems: list[str]
    users: list[str]


def read_watched_runs(connection: Connection, until: float) -> WatchedRuns:
    """All runs that started before `until`."""
    unknown = {"stripe_count": 0, "stripe_offset": -1}
    columns = [sa.func.coalesce(runs.c[n], unknown[n]) if n in unknown else runs.c[n] for n in _RUN]
    names = [sa.func.coalesce(runs.c[name], "") for name in ("filesystem", "user")]
    mounts: dict[str, int] = {}
    users: dict[str, int] = {}

    def fill(part: Records, values: Sequence[Sequence[Any]]) -> None:
        *numbers, systems, persons = values
        for name, column in zip(_RUN, numbers, strict=True):
            part[name] = column
        part["filesystem"] = [mounts.setdefault(mount, len(mounts)) for mount in systems]
        part["user"] = [users.setdefault(user, len(users)) for user in persons]

    every = _read(connection, sa.select(*columns, *names).where(runs.c.start_time < until), RUN, fill)
    ordered = every[np.lexsort((every["run_id"], every["start_time"]))]
    known = {row.app_id: row.app for row in connection.execute(sa.select(apps))}
    return WatchedRuns(rows=ordered, apps=known, filesystems=list(mounts), users=list(users))


def newest_start(connection: Connection, until: float) -> float | None:
    """When the newest run started before `until`; None without any."""
    return connection.execute(sa.select(sa.func.max(runs.c.start_time)).where(runs.c.start_time < until)).scalar()


def read_shares(connection: Connection, first: int, last: int) -> Records:
    """The bytes on each OST of the runs with these numbers and all between, as `SHARE` records."""
    return _read(connection, sa.select(*_ost_columns(SHARE)).where(osts.c.run_id.between(first, last)), SHARE)


def read_slowness(connection: Connection, first: int, last: int) -> Records:
    """How slow OSTs were in these runs, as `SLOWNESS` records, where that is known."""
    known = sa.and_(osts.c.run_id.between(first, last), osts.c.slowness.is_not(None))
    return _read(connection, sa.select(*_ost_columns(SLOWNESS)).where(known), SLOWNESS)


def _ost_columns(kind: np.dtype[Any]) -> Iterable[sa.Column[Any]]:
    return (osts.c[name] for name in kind.names or ())


def read_nodes(connection: Connection, since: float, until: float) -> dict[int, int]:
    """The nodes of the runs that started in [since, until), as far as Slurm's accounting was ingested."""
    query = sa.select(runs.c.run_id, jobs.c.nodes).join_from(runs, jobs, jobs.c.job_id == runs.c.job_id)
    query = query.where(runs.c.start_time >= since, runs.c.start_time < until, jobs.c.nodes > 0)
    return {row.run_id: row.nodes for row in connection.execute(query)}


def read_best_gains(connection: Connection, since: float, until: float) -> dict[int, tuple[str, float]]:
    """The code and the predicted gain of the most costly finding of each run that started in [since, until)."""
    there = sa.select(runs.c.run_id).where(runs.c.start_time >= since, runs.c.start_time < until)
    query = sa.select(findings.c.run_id, findings.c.code, findings.c.predicted_gain).where(
        findings.c.number == 1, findings.c.predicted_gain.is_not(None), findings.c.run_id.in_(there)
    )
    return {row.run_id: (row.code, row.predicted_gain) for row in connection.execute(query)}


def read_layouts(connection: Connection, run_ids: Sequence[int]) -> list[tuple[int, int]]:
    """The stripes of a file and the stripe size of each of these runs that has them."""
    query = sa.select(runs.c.file_stripe_count, runs.c.stripe_size).where(runs.c.stripe_size.is_not(None))
    return [(row[0] or 0, row[1]) for row in select_in(connection, query, runs.c.run_id, run_ids)]


def name_filesystems(connection: Connection) -> dict[int, str]:
    """The mount points of all file systems by id."""
    return {row.filesystem_id: row.filesystem for row in connection.execute(sa.select(filesystems))}


def _fill(part: Records, values: Sequence[Sequence[Any]]) -> None:
    for name, column in zip(part.dtype.names or (), values, strict=True):
        part[name] = column


def _read(connection: Connection, query: sa.Select[Any], kind: np.dtype[Any], fill: Any = _fill) -> Records:
    """The rows of a query as records. The driver's own tuples take half the time of SQLAlchemy's rows."""
    parts = [np.empty(0, dtype=kind)]
    text = str(query.compile(connection, compile_kwargs={"literal_binds": True}))
    driver: Any = connection.connection.driver_connection
    # Without a name, psycopg would hold all rows at once.
    with closing(driver.cursor() if connection.dialect.name == "sqlite" else driver.cursor(name="watched")) as cursor:
        cursor.execute(text)
        while rows := cursor.fetchmany(_AT_ONCE):
            part = np.empty(len(rows), dtype=kind)
            fill(part, list(zip(*rows, strict=True)))
            parts.append(part)
    return np.concatenate(parts)
