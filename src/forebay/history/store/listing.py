"""Lists of runs, a single run with its details, and whole tables for export."""

import json
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, RowMapping

from forebay.history.run_fields import Row, WholeRun
from forebay.history.store.bulk import within_period
from forebay.history.store.schema import apps, decisions, filesystems, jobs, logs, modules, osts, requests, runs
from forebay.model.errors import BadInput, UnknownName, nearest_name
from forebay.model.file_sizes import parse_sizes

AT_ONCE = 2000
"""Rows held in memory at a time."""
_DUMPED_AT_ONCE = 20_000
_TYPES = {int: "BIGINT", float: "DOUBLE", str: "VARCHAR", bool: "BOOLEAN"}

_JOB_COLUMNS = ("job_name", "nodes", "submit_time", "job_start_time", "job_end_time")
COLUMNS = ("run_id", "app", *(c.name for c in runs.columns if c.name not in ("run_id", "app_id")), *_JOB_COLUMNS)
"""The columns of a listed run."""

_TABLES = runs.join(apps).outerjoin(jobs, jobs.c.job_id == runs.c.job_id)
_SELECT_RUNS = sa.select(
    *(
        apps.c.app if name == "app" else (jobs.c[name] if name in _JOB_COLUMNS else runs.c[name]).label(name)
        for name in COLUMNS
    )
).select_from(_TABLES)


def has_runs(connection: Connection) -> bool:
    return connection.execute(sa.select(runs.c.run_id).limit(1)).scalar() is not None


def find_app_id(connection: Connection, app: str) -> int:
    """The id of an application; the error for an unknown one names the nearest."""
    app_id = connection.execute(sa.select(apps.c.app_id).where(apps.c.app == app)).scalar()
    if app_id is None:
        names = list(connection.execute(sa.select(apps.c.app)).scalars())
        if len(names) > 20 and nearest_name(app, names) is None:  # a list of a thousand names does not help
            raise BadInput(f"no application {app!r}", f"`forebay history apps` lists all {len(names)}")
        raise UnknownName("application", app, names)
    return int(app_id)


def list_runs(
    connection: Connection,
    *,
    app: str | None = None,
    since: float | None = None,
    until: float | None = None,
    limit: int | None = None,
    filesystem: str | None = None,
) -> Generator[Row, None, None]:
    """Stream runs that started in [since, until), seconds since 1970, newest first. Close it if you stop early."""
    query = _SELECT_RUNS.order_by(runs.c.start_time.desc(), runs.c.run_id.desc()).limit(limit)
    if app is not None:
        query = query.where(runs.c.app_id == find_app_id(connection, app))
    if filesystem is not None:
        query = query.where(runs.c.filesystem == filesystem)
    query = query.where(*within_period(runs.c.start_time, since, until))
    with connection.execute(query, execution_options={"yield_per": AT_ONCE}) as rows:
        for row in rows.mappings():
            yield _run(row)


def read_run(connection: Connection, run_id: int) -> WholeRun:
    fits = run_id.bit_length() < 64  # no database has a larger number
    row = connection.execute(_SELECT_RUNS.where(runs.c.run_id == run_id)).mappings().one_or_none() if fits else None
    if row is None:
        low, high = connection.execute(sa.select(sa.func.min(runs.c.run_id), sa.func.max(runs.c.run_id))).one()
        raise BadInput(f"no run {run_id} in the history", f"run numbers are from {low} to {high}")
    files = sa.select(logs.c.path, logs.c.size, logs.c.status, logs.c.reason).order_by(logs.c.path)
    parts = requests.select().where(requests.c.run_id == run_id).order_by("operation")
    return {
        "run": _run(row),
        "modules": _children(connection, modules.select().where(modules.c.run_id == run_id).order_by("module")),
        "requests": [_request_row(part) for part in _children(connection, parts)],
        "osts": _children(connection, run_osts().where(osts.c.run_id == run_id).order_by("filesystem", "ost")),
        "logs": _children(connection, files.where(logs.c.run_key == row["run_key"])),
    }


def run_osts() -> sa.Select[Any]:
    """A query for OSTs of runs, with the file system's mount point instead of its id."""
    columns = (filesystems.c.filesystem if c.name == "filesystem_id" else c for c in osts.columns)
    return sa.select(*columns).join_from(osts, filesystems)


def _children(connection: Connection, query: sa.Select[Any]) -> list[Row]:
    return [
        {name: value for name, value in row.items() if name != "run_id"} for row in connection.execute(query).mappings()
    ]


def _request_row(row: Row) -> Row:
    """Reads or writes with objects in place of the database's text."""
    return row | {"file_sizes": [asdict(c) for c in parse_sizes(row["file_sizes"])]}


def _run(row: RowMapping) -> Row:
    """A run with lists in place of the database's text."""
    run: Row = dict(row)
    run["modules"] = [name for name in run["modules"].split(",") if name]
    for sizes in ("read_sizes", "write_sizes"):
        run[sizes] = [int(count) for count in run[sizes].split(",") if count]
    run["components"] = json.loads(run["components"] or "[]")
    return run


def dump_tables(connection: Connection) -> Iterator[tuple[str, dict[str, str], Iterator[Sequence[Sequence[Any]]]]]:
    """Yield each table to export: its name, its columns with their SQL types, and its rows in pieces. Runs have the
    application's name in place of its id."""
    named = sa.select(runs.c.run_id, apps.c.app, *(c for c in runs.c if c.name not in ("run_id", "app_id")))
    queries: dict[str, sa.Select[Any]] = {
        "runs": named.join_from(runs, apps).order_by(runs.c.run_id),
        "run_modules": modules.select().order_by(modules.c.run_id, modules.c.module),
        "run_requests": requests.select().order_by(requests.c.run_id, requests.c.operation),
        "run_osts": run_osts().order_by(osts.c.run_id, filesystems.c.filesystem, osts.c.ost),
        "jobs": jobs.select().order_by(jobs.c.job_id),
        "decisions": decisions.select().order_by(decisions.c.decision_id),
    }
    for name, query in queries.items():
        columns = {c.name: _TYPES[c.type.python_type] for c in query.selected_columns}
        rows = connection.execute(query, execution_options={"yield_per": _DUMPED_AT_ONCE})
        yield name, columns, rows.partitions()
