"""Sums over all runs, by layout, file system, application and OST. Single runs are only read through an index."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.run_fields import OstSums
from forebay.history.store.bulk import whole_sum, within_period
from forebay.history.store.schema import apps, filesystems, osts, runs, totals

OBSERVATION = np.dtype([("run", "i8"), ("ost", "i8"), ("files", "i8"), ("slowness", "f8")])
"""One OST in one run: the number of files on it alone, and their seconds per byte relative to the run's median OST."""
_AT_ONCE = 50_000


class LayoutSums(NamedTuple):
    """Sums over all runs with one layout. `stripe_count` is the number of distinct OSTs, 0 if unknown."""

    stripe_count: int
    file_stripe_count: int
    stripe_size: int
    partial_flag: bool
    runs: int
    total_bytes: int
    pattern_requests: int
    seq_requests: int
    io_less_1k: int
    io_1k_to_100k: int


def layout_sums(connection: Connection, filesystem: str | None = None) -> list[LayoutSums]:
    """The sums of each layout, for whole and partial runs, over all runs or those on one file system."""
    columns = [totals.c[name] for name in LayoutSums._fields]
    kind, sums = columns[:4], map(whole_sum, columns[4:])
    query = sa.select(*kind, *sums).where(_on_filesystem(filesystem)).group_by(*kind).order_by(*kind)
    return [LayoutSums(*row) for row in connection.execute(query)]


def filesystem_sums(connection: Connection) -> list[tuple[str, int, int]]:
    """Mount point ("" if unknown), runs and bytes of each file system in Lustre records, most runs first."""
    mount, runs_there = totals.c.filesystem, whole_sum(totals.c.runs)
    query = sa.select(mount, runs_there, whole_sum(totals.c.total_bytes)).where(_LAID_OUT).group_by(mount)
    return [tuple(row) for row in connection.execute(query.order_by(runs_there.desc(), mount))]


_LAID_OUT = sa.or_(totals.c.stripe_count > 0, totals.c.stripe_size > 0)


def _on_filesystem(filesystem: str | None) -> sa.ColumnElement[bool]:
    return sa.true() if filesystem is None else sa.and_(totals.c.filesystem == filesystem, _LAID_OUT)


def app_count(connection: Connection, filesystem: str | None = None) -> int:
    """The number of applications with at least one run, anywhere or on one file system."""
    query = sa.select(sa.func.count(sa.distinct(totals.c.app_id))).where(_on_filesystem(filesystem))
    return int(connection.execute(query).scalar_one())


def top_apps(connection: Connection, by: str, limit: int, filesystem: str | None = None) -> list[tuple[str, int, int]]:
    """Name, runs and bytes of the applications with most `runs` or `total_bytes`, most first."""
    sums = {name: whole_sum(totals.c[name]) for name in ("runs", "total_bytes")}
    query = (
        sa.select(apps.c.app, *sums.values())
        .join_from(totals, apps)
        .where(_on_filesystem(filesystem))
        .group_by(apps.c.app_id, apps.c.app)
        .order_by(sums[by].desc(), apps.c.app)
        .limit(limit)
    )
    return [tuple(row) for row in connection.execute(query)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSums:
    """Sums over all runs of one application. Performance is in bytes per second, times in seconds since 1970.

    `mean_perf` is over whole runs with a known performance, and `best_perf` is that of `best_run`, the fastest of them.
    They are None without such runs.
    """

    app: str
    runs: int
    partial_runs: int
    total_bytes: int
    mean_perf: float | None
    best_perf: float | None
    best_run: int | None
    best_layout: tuple[int, int, int] | None
    """Processes, stripes of one file and stripe size (0 if unknown) of that run."""
    nprocs: tuple[int, ...]
    last_start_time: float


def app_sums(connection: Connection, filesystem: str | None = None) -> list[AppSums]:
    """The sums of every application over all its runs or those on one file system, the one with most runs first."""
    kind = (totals.c.app_id, totals.c.nprocs, totals.c.partial_flag)
    measures = [whole_sum(totals.c[name]) for name in ("runs", "timed_runs", "perf_by_slowest", "total_bytes")]
    rows_of_apps: dict[int, list[Any]] = defaultdict(list)
    for row in connection.execute(sa.select(*kind, *measures).where(_on_filesystem(filesystem)).group_by(*kind)):
        rows_of_apps[row.app_id].append(row)
    # One look-up by index for each application; a GROUP BY would read all runs.
    there = sa.true() if filesystem is None else runs.c.filesystem == filesystem
    last = sa.select(sa.func.max(runs.c.start_time)).where(runs.c.app_id == apps.c.app_id, there).scalar_subquery()
    fastest = _find_fastest(connection, filesystem)
    sums = []
    for app_id, app, last_start_time in connection.execute(sa.select(apps.c.app_id, apps.c.app, last)):
        if not (rows := rows_of_apps.get(app_id)):
            continue
        whole = [row for row in rows if not row.partial_flag]
        timed_runs = sum(row.timed_runs for row in whole)
        best_run, best_perf, best_layout = fastest.get(app_id, (None, None, None))
        sums.append(
            AppSums(
                app=app,
                runs=sum(row.runs for row in rows),
                partial_runs=sum(row.runs for row in rows if row.partial_flag),
                total_bytes=sum(row.total_bytes for row in rows),
                mean_perf=sum(row.perf_by_slowest for row in whole) / timed_runs if timed_runs else None,
                best_perf=best_perf,
                best_run=best_run,
                best_layout=best_layout,
                nprocs=tuple(sorted({row.nprocs for row in rows})),
                last_start_time=last_start_time,
            )
        )
    return sorted(sums, key=lambda a: (-a.runs, a.app))


def _find_fastest(connection: Connection, filesystem: str | None) -> dict[int, tuple[int, float, tuple[int, int, int]]]:
    """Number, performance and layout of the fastest whole run, by the id of the application."""
    other = runs.alias()
    there = sa.true() if filesystem is None else other.c.filesystem == filesystem
    whole = other.c.partial_flag.is_(sa.false())
    fastest = (
        sa.select(other.c.run_id)
        .where(other.c.app_id == apps.c.app_id, whole, other.c.perf_by_slowest > 0, there)
        .order_by(other.c.perf_by_slowest.desc(), other.c.run_id)
        .limit(1)
        .scalar_subquery()
    )
    columns = [runs.c[name] for name in ("run_id", "perf_by_slowest", "nprocs", "file_stripe_count", "stripe_size")]
    query = sa.select(apps.c.app_id, *columns).join_from(apps, runs, runs.c.run_id == fastest)
    return {
        app: (run, perf, (nprocs, count or 0, size or 0))
        for app, run, perf, nprocs, count, size in connection.execute(query)
    }


def filesystem_ids(connection: Connection) -> dict[str, int]:
    """The ids of all file systems with known OSTs, by mount point."""
    used = sa.exists().where(osts.c.filesystem_id == filesystems.c.filesystem_id)
    query = sa.select(filesystems.c.filesystem, filesystems.c.filesystem_id).where(used)
    return {row.filesystem: row.filesystem_id for row in connection.execute(query.order_by(filesystems.c.filesystem))}


def highest_target(connection: Connection, filesystem: str | None = None) -> int | None:
    """The highest index of an OST that any run used, on any file system or on the given one. If that has no known OSTs,
    unknown file systems count."""
    highest = sa.select(sa.func.max(osts.c.ost))
    if filesystem is None:
        return connection.execute(highest).scalar()
    named = highest.join_from(osts, filesystems)
    indices = (connection.execute(named.where(filesystems.c.filesystem == name)).scalar() for name in (filesystem, ""))
    return next((index for index in indices if index is not None), None)


_RECENT_RUNS = 20_000


def target_rates(connection: Connection, filesystem: str | None, least_runs: int) -> dict[int, float]:
    """The bytes per second of a process on each OST that at least so many of the newest runs used, from files on that
    OST alone that are large enough to compare."""
    newest = sa.select(sa.func.max(runs.c.run_id)).scalar_subquery()
    moved, seconds = whole_sum(osts.c.alone_bytes), sa.func.sum(osts.c.alone_time)
    query = (
        sa.select(osts.c.ost, moved, seconds)
        .join_from(osts, filesystems)
        .where(osts.c.run_id > newest - _RECENT_RUNS, osts.c.alone_time > 0)
        .where(sa.true() if filesystem is None else filesystems.c.filesystem == filesystem)
        .group_by(osts.c.ost)
        .having(sa.func.count() >= least_runs)
    )
    return {ost: moved / seconds for ost, moved, seconds in connection.execute(query)}


def osts_by_filesystem(
    connection: Connection, since: float | None = None, until: float | None = None, only: str | None = None
) -> list[tuple[list[OstSums], npt.NDArray[np.void]]]:
    """For each file system, or `only` one: the sums of each OST, ascending, and an `OBSERVATION` for each OST with a
    known slowness in a run, ordered by run. Only runs that started in [since, until) count."""
    by_filesystem = []
    for name, number in filesystem_ids(connection).items():
        if only is None or name == only:
            there = [osts.c.filesystem_id == number, *_runs_started(since, until)]
            by_filesystem.append((_ost_sums(connection, name, there), _observations(connection, there)))
    return by_filesystem


def _ost_sums(connection: Connection, filesystem: str, there: list[sa.ColumnElement[bool]]) -> list[OstSums]:
    volume = whole_sum(osts.c.files), whole_sum(osts.c.total_bytes), sa.func.sum(osts.c.io_time).label("io_time")
    query = sa.select(osts.c.ost, sa.func.count().label("runs"), *volume).where(*there).group_by(osts.c.ost)
    rows = connection.execute(query.order_by(osts.c.ost)).mappings()
    return [OstSums(filesystem=filesystem, **row) for row in rows]


def _observations(connection: Connection, there: list[sa.ColumnElement[bool]]) -> npt.NDArray[np.void]:
    columns = [osts.c[name] for name in ("run_id", "ost", "alone_files", "slowness")]
    query = sa.select(*columns).where(osts.c.slowness.is_not(None), *there).order_by(osts.c.run_id, osts.c.ost)
    partitions = connection.execute(query, execution_options={"yield_per": _AT_ONCE}).partitions()
    parts = [np.array([tuple(row) for row in rows], dtype=OBSERVATION) for rows in partitions]
    return np.concatenate(parts) if parts else np.empty(0, dtype=OBSERVATION)


def _runs_started(since: float | None, until: float | None) -> list[sa.ColumnElement[bool]]:
    """A condition for the start of the run. It is not a join, in which SQLite would look up the run of every row."""
    limits = within_period(runs.c.start_time, since, until)
    return [osts.c.run_id.in_(sa.select(runs.c.run_id).where(*limits))] if limits else []
