"""Sums over all runs, read from the table `totals`; single runs are only looked up by an index."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.store.schema import apps, runs, totals


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutSums:
    """All runs with one layout. `stripe_count` is the number of distinct OSTs, 0 if unknown."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSums:
    """All runs of one application. Performance is in bytes per second.

    `mean_perf` is over whole runs with a known performance, `best_perf` that of the fastest one, `best_run`; all None
    if there is none. `last_start_time` is in seconds since 1970.
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


_KIND = ("stripe_count", "file_stripe_count", "stripe_size", "partial_flag")
_SUMS = LayoutSums.__slots__[len(_KIND) :]


def layout_sums(connection: Connection, filesystem: str | None = None) -> list[LayoutSums]:
    """The sums of each layout, for whole and partial runs, over all runs or those on one file system."""
    kind = [totals.c[name] for name in _KIND]
    sums = [sa.func.sum(totals.c[name]).label(name) for name in _SUMS]
    query = sa.select(*kind, *sums).where(_on(filesystem)).group_by(*kind).order_by(*kind)
    rows = connection.execute(query).mappings()
    # PostgreSQL returns sums of large whole numbers as decimals.
    return [LayoutSums(**{**row, **{name: int(row[name]) for name in _SUMS}}) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemSums:
    """All runs on one file system, by its mount point ("" if unknown)."""

    filesystem: str
    runs: int
    total_bytes: int


def filesystem_sums(connection: Connection) -> list[FilesystemSums]:
    """The sums of each file system in Lustre records, the one with most runs first."""
    name, number = totals.c.filesystem, sa.func.sum(totals.c.runs)
    query = sa.select(name, number, sa.func.sum(totals.c.total_bytes)).where(_LAID_OUT).group_by(name)
    rows = connection.execute(query.order_by(number.desc(), name))
    return [FilesystemSums(filesystem=name, runs=int(n), total_bytes=int(b)) for name, n, b in rows]


_LAID_OUT = sa.or_(totals.c.stripe_count > 0, totals.c.stripe_size > 0)


def _on(filesystem: str | None) -> sa.ColumnElement[bool]:
    return sa.true() if filesystem is None else sa.and_(totals.c.filesystem == filesystem, _LAID_OUT)


def app_count(connection: Connection, filesystem: str | None = None) -> int:
    """The number of applications with at least one run, anywhere or on one file system."""
    query = sa.select(sa.func.count(sa.distinct(totals.c.app_id))).where(_on(filesystem))
    return int(connection.execute(query).scalar_one())


def top_apps(connection: Connection, by: str, limit: int, filesystem: str | None = None) -> list[tuple[str, int, int]]:
    """Name, runs and bytes of the applications with most `runs` or `total_bytes`, most first."""
    number, volume = sa.func.sum(totals.c.runs), sa.func.sum(totals.c.total_bytes)
    order = {"runs": number, "total_bytes": volume}[by]
    query = (
        sa.select(apps.c.app, number, volume)
        .join_from(totals, apps)
        .where(_on(filesystem))
        .group_by(apps.c.app_id, apps.c.app)
        .order_by(order.desc(), apps.c.app)
        .limit(limit)
    )
    return [(app, int(n), int(b)) for app, n, b in connection.execute(query)]


def app_sums(connection: Connection) -> list[AppSums]:
    """The sums of every application, the one with most runs first."""
    kind = (totals.c.app_id, totals.c.nprocs, totals.c.file_stripe_count, totals.c.stripe_size, totals.c.partial_flag)
    measures = [sa.func.sum(totals.c[name]) for name in ("runs", "timed_runs", "perf_by_slowest", "total_bytes")]
    rows: dict[int, list[_Row]] = {}
    for app_id, nprocs, count, size, partial, *values in connection.execute(
        sa.select(*kind, *measures).group_by(*kind)
    ):
        rows.setdefault(app_id, []).append(_Row((nprocs, count, size), partial, *map(int, values)))
    # One look-up by index for each application; a GROUP BY would read all runs.
    last = sa.select(sa.func.max(runs.c.start_time)).where(runs.c.app_id == apps.c.app_id).scalar_subquery()
    named = connection.execute(sa.select(apps.c.app_id, apps.c.app, last))
    best = _find_fastest(connection)
    sums = [_app_sums(app, when, rows[app_id], best.get(app_id)) for app_id, app, when in named if app_id in rows]
    return sorted(sums, key=lambda a: (-a.runs, a.app))


@dataclass(frozen=True, slots=True)
class _Fastest:
    run: int
    perf: float
    layout: tuple[int, int, int]


def _find_fastest(connection: Connection) -> dict[int, _Fastest]:
    """The fastest whole run of each application, by the id of the application; one look-up by index for each."""
    other = runs.alias()
    fastest = (
        sa.select(other.c.run_id)
        .where(other.c.app_id == apps.c.app_id, other.c.partial_flag.is_(sa.false()), other.c.perf_by_slowest > 0)
        .order_by(other.c.perf_by_slowest.desc(), other.c.run_id)
        .limit(1)
        .scalar_subquery()
    )
    columns = [runs.c[name] for name in ("run_id", "perf_by_slowest", "nprocs", "file_stripe_count", "stripe_size")]
    query = sa.select(apps.c.app_id, *columns).join_from(apps, runs, runs.c.run_id == fastest)
    return {
        app: _Fastest(run, perf, (nprocs, count or 0, size or 0))
        for app, run, perf, nprocs, count, size in connection.execute(query)
    }


@dataclass(frozen=True, slots=True)
class _Row:
    layout: tuple[int, int, int]
    partial: bool
    runs: int
    timed: int
    perf: int
    volume: int


def _app_sums(app: str, last: float, rows: list[_Row], best: _Fastest | None) -> AppSums:
    whole = [row for row in rows if row.timed and not row.partial]
    return AppSums(
        app=app,
        runs=sum(row.runs for row in rows),
        partial_runs=sum(row.runs for row in rows if row.partial),
        total_bytes=sum(row.volume for row in rows),
        mean_perf=sum(row.perf for row in whole) / sum(row.timed for row in whole) if whole else None,
        best_perf=best.perf if best else None,
        best_run=best.run if best else None,
        best_layout=best.layout if best else None,
        nprocs=tuple(sorted({row.layout[0] for row in rows})),
        last_start_time=last,
    )
