"""Earlier runs of an application: their I/O, for its profile, and their throughput, to choose its next layout."""

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Table

from forebay.history.store.bulk import fetch, whole_sum
from forebay.history.store.listing import find_app_id
from forebay.history.store.schema import apps, requests, runs, totals
from forebay.model.file_sizes import parse_sizes
from forebay.model.past_runs import Past, Peers

MOST_RUNS = 10_000
"""The most runs of an application that its profile uses, the newest."""


class RequestTotals(NamedTuple):
    """The reads or the writes of one run, by the columns of `run_requests` (see schema.toml)."""

    total_bytes: int
    shared_bytes: int
    requests: int
    request_bytes: int
    contiguous: int | None
    strided: int | None
    with_gaps: int | None
    backward: int | None
    common_size: int = 0
    collective_calls: int = 0
    independent_calls: int = 0
    call_bytes: int = 0
    common_call_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One run, by the columns of `runs` (see schema.toml); `reads` and `writes` are None if an older version read its
    log."""

    run_id: int
    start_time: float
    run_time: float
    nprocs: int
    io_procs: int
    partial_flag: bool
    total_bytes: int
    bytes_read: int
    bytes_written: int
    time_by_slowest: float
    perf_by_slowest: float
    total_files: int
    shared_files: int
    shared_bytes: int
    read_requests: int
    write_requests: int
    pattern_requests: int
    seq_requests: int
    consec_requests: int
    strided_requests: int
    common_size: int
    stripe_count: int | None
    file_stripe_count: int | None
    stripe_size: int | None
    read_sizes: str
    write_sizes: str
    filesystem: str | None = None
    reads: RequestTotals | None = None
    writes: RequestTotals | None = None


def list_behaviours(
    connection: Connection, app: str, limit: int = MOST_RUNS, filesystem: str | None = None
) -> list[Behaviour]:
    """The newest `limit` runs of an application, oldest first, without those on another than the given file system."""
    newest = (
        sa.select(*(runs.c[name] for name in Behaviour.__slots__ if name not in ("reads", "writes")))
        .where(runs.c.app_id == find_app_id(connection, app), _may_be_on(runs, filesystem))
        .order_by(runs.c.start_time.desc(), runs.c.run_id.desc())
        .limit(limit)
    )
    chosen = newest.subquery()
    query = sa.select(requests.c.run_id, requests.c.operation, *(requests.c[name] for name in RequestTotals._fields))
    parts: dict[int, dict[str, RequestTotals]] = defaultdict(dict)
    for run, operation, *values in connection.execute(query.join(chosen, chosen.c.run_id == requests.c.run_id)):
        parts[run][f"{operation}s"] = RequestTotals(*values)
    rows = reversed(connection.execute(newest).mappings().all())
    return [Behaviour(**{**row, **parts[row["run_id"]]}) for row in rows]


_READ, _WRITTEN = requests.alias("of_reads"), requests.alias("of_writes")
_PAST = [
    column.label(field)
    for field, column in {
        "run": runs.c.run_id,
        "processes": runs.c.nprocs,
        "count": sa.func.coalesce(runs.c.file_stripe_count, 0),
        "size": sa.func.coalesce(runs.c.stripe_size, 0),
        "throughput": runs.c.perf_by_slowest,
        "io_bytes": sa.func.coalesce(_READ.c.total_bytes + _WRITTEN.c.total_bytes, runs.c.total_bytes),
        "partial": runs.c.partial_flag,
        "io_processes": runs.c.io_procs,
        "shared_bytes": runs.c.shared_bytes,
        "request_size": runs.c.common_size,
        "file_size": sa.func.coalesce(_WRITTEN.c.file_size, _READ.c.file_size),
        "file_sizes": sa.func.coalesce(sa.func.nullif(_WRITTEN.c.file_sizes, ""), _READ.c.file_sizes),
        "components": runs.c.pfl_components,
    }.items()
]
_TABLES = runs.outerjoin(
    _WRITTEN, sa.and_(_WRITTEN.c.run_id == runs.c.run_id, _WRITTEN.c.operation == "write")
).outerjoin(_READ, sa.and_(_READ.c.run_id == runs.c.run_id, _READ.c.operation == "read"))


def list_past_runs(connection: Connection, app: str, limit: int = 200, filesystem: str | None = None) -> list[Past]:
    """The newest `limit` runs of an application, oldest first, without runs on any other than `filesystem`."""
    query = (
        sa.select(*_PAST)
        .select_from(_TABLES)
        .where(_app(app), _may_be_on(runs, filesystem))
        .order_by(runs.c.start_time.desc(), runs.c.run_id.desc())
        .limit(limit)
    )
    rows = connection.execute(query).mappings().all()
    return [Past(**{**row, "file_sizes": parse_sizes(row["file_sizes"])}) for row in reversed(rows)]


def last_filesystem(connection: Connection, app: str) -> str | None:
    """The mount point of the application's last run with a known one."""
    known = sa.and_(runs.c.filesystem.is_not(None), runs.c.filesystem != "")
    query = sa.select(runs.c.filesystem).where(_app(app), known)
    return connection.execute(query.order_by(runs.c.start_time.desc(), runs.c.run_id.desc()).limit(1)).scalar()


def _app(app: str) -> ColumnElement[bool]:
    return runs.c.app_id == sa.select(apps.c.app_id).where(apps.c.app == app).scalar_subquery()


def _may_be_on(table: Table, filesystem: str | None) -> ColumnElement[bool]:
    """A condition for runs on the file system or on an unknown one: runs without Lustre records are still useful."""
    name = table.c.filesystem
    return sa.true() if filesystem is None else sa.or_(name == filesystem, name == "", name.is_(None))


def has_run(connection: Connection, app: str) -> bool:
    """Whether an application has any run, on any file system."""
    return connection.execute(sa.select(runs.c.run_id).where(_app(app)).limit(1)).scalar() is not None


def list_peer_runs(connection: Connection, app: str, nprocs: int, filesystem: str | None = None) -> list[Peers]:
    """Other applications' whole runs by layout, at the nearest numbers of processes below and above `nprocs`.

    Runs without a layout or performance are left out, and so are runs on a known other file system.
    """
    app_id = connection.execute(sa.select(apps.c.app_id).where(apps.c.app == app)).scalar()
    others = sa.and_(
        totals.c.app_id != (app_id or 0),
        totals.c.file_stripe_count > 0,
        totals.c.timed_runs > 0,
        totals.c.partial_flag.is_(sa.false()),
        _may_be_on(totals, filesystem),
    )
    nearest = {
        connection.execute(sa.select(totals.c.nprocs).where(side, others).order_by(order).limit(1)).scalar()
        for side, order in (
            (totals.c.nprocs <= nprocs, totals.c.nprocs.desc()),
            (totals.c.nprocs >= nprocs, totals.c.nprocs.asc()),
        )
    }
    fields = {"processes": "nprocs", "count": "file_stripe_count", "size": "stripe_size", "shared_file": "shared_file"}
    kind = [totals.c[column].label(field) for field, column in fields.items()]
    timed, perf = whole_sum(totals.c.timed_runs).label("runs"), whole_sum(totals.c.perf_by_slowest)
    mean = (sa.cast(perf, sa.Float) / timed).label("throughput")
    query = sa.select(*kind, timed, mean).where(totals.c.nprocs.in_(nearest - {None}), others)
    return fetch(connection, query.group_by(*kind).order_by(*kind), Peers)
