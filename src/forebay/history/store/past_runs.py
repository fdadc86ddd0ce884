"""Earlier runs, for a decision about an application's next run; every query uses an index."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Table

from forebay.history.store.schema import apps, requests, runs, totals


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """One earlier run; None is a layout or file size that its log does not have.

    `total_bytes` are those of files, without standard output and the like. Half of the bytes that the run wrote (or
    read, if it wrote none) are in files of at least `file_size`.
    """

    run_id: int
    nprocs: int
    io_procs: int
    file_stripe_count: int | None
    stripe_size: int | None
    total_bytes: int
    shared_bytes: int
    common_size: int
    perf_by_slowest: float
    partial_flag: bool
    file_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRuns:
    """Similar runs of other applications: how many, and their mean bytes per second."""

    nprocs: int
    file_stripe_count: int
    stripe_size: int
    shared_file: bool
    runs: int
    perf_by_slowest: float


_READ, _WRITTEN = requests.alias("of_reads"), requests.alias("of_writes")
_PAST = [
    *(runs.c[name] for name in PastRun.__slots__ if name not in ("file_size", "total_bytes")),
    sa.func.coalesce(_READ.c.total_bytes + _WRITTEN.c.total_bytes, runs.c.total_bytes).label("total_bytes"),
    sa.func.coalesce(_WRITTEN.c.file_size, _READ.c.file_size).label("file_size"),
]
_TABLES = runs.outerjoin(
    _WRITTEN, sa.and_(_WRITTEN.c.run_id == runs.c.run_id, _WRITTEN.c.operation == "write")
).outerjoin(_READ, sa.and_(_READ.c.run_id == runs.c.run_id, _READ.c.operation == "read"))


def list_past_runs(connection: Connection, app: str, limit: int = 200, filesystem: str | None = None) -> list[PastRun]:
    """The newest `limit` runs of an application, oldest first, without those on another than the given file system."""
    query = (
        sa.select(*_PAST)
        .select_from(_TABLES)
        .where(_app(app), sa.true() if filesystem is None else sa.or_(*_may_be_on(runs, filesystem)))
        .order_by(runs.c.start_time.desc(), runs.c.run_id.desc())
        .limit(limit)
    )
    return [PastRun(**row) for row in reversed(connection.execute(query).mappings().all())]


def last_filesystem(connection: Connection, app: str) -> str | None:
    """The mount point that the last run of an application used for which it is known."""
    known = sa.and_(runs.c.filesystem.is_not(None), runs.c.filesystem != "")
    query = sa.select(runs.c.filesystem).where(_app(app), known)
    return connection.execute(query.order_by(runs.c.start_time.desc(), runs.c.run_id.desc()).limit(1)).scalar()


def _app(app: str) -> ColumnElement[bool]:
    return runs.c.app_id == sa.select(apps.c.app_id).where(apps.c.app == app).scalar_subquery()


def _may_be_on(table: Table, filesystem: str) -> tuple[ColumnElement[bool], ...]:
    """On the file system, or on an unknown one: runs without Lustre records still tell other things."""
    name = table.c.filesystem
    return name == filesystem, name == "", name.is_(None)


def has_run(connection: Connection, app: str) -> bool:
    """Whether an application ran at all, on any file system."""
    return connection.execute(sa.select(runs.c.run_id).where(_app(app)).limit(1)).scalar() is not None


def list_peer_runs(connection: Connection, app: str, nprocs: int, filesystem: str | None = None) -> list[PeerRuns]:
    """Other applications' whole runs by layout, at the nearest numbers of processes below and above `nprocs`.

    Runs without a layout or performance are left out, and those that are known to be on another file system.
    """
    app_id = connection.execute(sa.select(apps.c.app_id).where(apps.c.app == app)).scalar()
    others = sa.and_(
        totals.c.app_id != (app_id or 0),
        totals.c.file_stripe_count > 0,
        totals.c.timed_runs > 0,
        totals.c.partial_flag.is_(sa.false()),
        sa.true() if filesystem is None else sa.or_(*_may_be_on(totals, filesystem)),
    )
    nearest = {
        connection.execute(sa.select(totals.c.nprocs).where(side, others).order_by(order).limit(1)).scalar()
        for side, order in (
            (totals.c.nprocs <= nprocs, totals.c.nprocs.desc()),
            (totals.c.nprocs >= nprocs, totals.c.nprocs.asc()),
        )
    }
    return _sum_by_layout(connection, sa.and_(totals.c.nprocs.in_(nearest - {None}), others))


def _sum_by_layout(connection: Connection, condition: ColumnElement[bool]) -> list[PeerRuns]:
    kind = [totals.c[name] for name in ("nprocs", "file_stripe_count", "stripe_size", "shared_file")]
    timed = sa.func.sum(totals.c.timed_runs).label("runs")
    perf = sa.func.sum(totals.c.perf_by_slowest).label("perf_by_slowest")
    rows = connection.execute(sa.select(*kind, timed, perf).where(condition).group_by(*kind).order_by(*kind)).mappings()
    # PostgreSQL returns sums of large whole numbers as decimals.
    sums = ((row, int(row["runs"]), int(row["perf_by_slowest"])) for row in rows)
    return [PeerRuns(**{**row, "runs": number, "perf_by_slowest": total / number}) for row, number, total in sums]
