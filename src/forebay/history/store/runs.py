"""Records which logs have been read, adds and removes their runs, and updates the sums over runs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy import Connection, Table

from forebay.history.run_fields import Row
from forebay.history.scanned_log import ProcessSummary, ScannedLog, unpack_summary
from forebay.history.store.bulk import delete_in, insert_rows, insert_tuples, next_id, select_in, upsert
from forebay.history.store.schema import (
    apps,
    diagnoses,
    filesystems,
    findings,
    logs,
    modules,
    osts,
    requests,
    runs,
    stale,
    totals,
)

Status = Literal["read", "copy"]
_RUN_COLUMNS = [c.name for c in runs.columns if c.name not in ("run_id", "app_id")]
_DIAGNOSIS = {"file_bytes": 0, "io_seconds": 0.0, "busiest_seconds": 0.0, "calibration": None, "remark": None}
_KEY = [c.name for c in totals.primary_key]
_SUMS = [c.name for c in totals.columns if c.name not in _KEY]


def find_unchanged(connection: Connection, paths: Mapping[str, tuple[int, int]]) -> set[str]:
    """The paths whose logs were already read with the given size and modification time."""
    query = sa.select(logs.c.path, logs.c.size, logs.c.mtime_ns)
    rows = select_in(connection, query, logs.c.path, list(paths))
    return {path for path, size, mtime_ns in rows if (size, mtime_ns) == paths[path]}


def record_logs(connection: Connection, batch: Sequence[ScannedLog]) -> dict[str, Status]:
    """Record readable logs; returns the status of each. The caller combines stale runs at the end."""
    by_path = {log.path: log for log in batch}
    before = {row.path: row._asdict() for row in select_in(connection, sa.select(logs), logs.c.path, list(by_path))}
    changed = {path for path, row in before.items() if row["digest"] != by_path[path].digest}
    known = [before[path] for path in by_path if path in before]
    for row in known:
        if row["path"] in changed:
            _replace(connection, row, changed)
    for row in known:
        if row["path"] not in changed and row["run_key"] != by_path[row["path"]].run_key:
            _leave_run(connection, row)  # an older version read it as another run
    query = sa.select(logs.c.digest, logs.c.path).where(logs.c.status == "read")
    digests = sorted({log.digest for log in batch})
    readers = {row.digest: row.path for row in select_in(connection, query, logs.c.digest, digests)}
    statuses: dict[str, Status] = {
        path: "read" if readers.setdefault(log.digest, path) == path else "copy" for path, log in by_path.items()
    }
    rows = [_log_row(log, statuses[path]) for path, log in by_path.items()]
    for row in rows:
        if row["path"] in before:
            connection.execute(logs.update().where(logs.c.path == row["path"]).values(row))
    first = next_id(connection, logs.c.log_id)
    unknown = [row for row in rows if row["path"] not in before]
    insert_rows(connection, logs, [row | {"log_id": first + i} for i, row in enumerate(unknown)])
    new = [log for path, log in by_path.items() if statuses[path] == "read"]
    several = _find_runs_of_several(connection, {log.run_key for log in new if log.summary is not None})
    add_runs(connection, [{**log.row, "run_key": log.run_key} for log in new if log.row and log.run_key not in several])
    _mark_stale(connection, several)
    return statuses


def _log_row(log: ScannedLog, status: Status) -> Row:
    file = {name: getattr(log, name) for name in ("path", "size", "mtime_ns", "digest")}
    run = {"run_key": log.run_key, "summary": log.summary} if status == "read" else {"run_key": None, "summary": None}
    return {**file, "status": status, "reason": log.reason or None, **run}


def _find_runs_of_several(connection: Connection, keys: set[str | None]) -> set[str]:
    """The keys of runs with more than one log."""
    query = sa.select(logs.c.run_key).group_by(logs.c.run_key).having(sa.func.count() > 1)
    return {row.run_key for row in select_in(connection, query, logs.c.run_key, sorted(filter(None, keys)))}


def _mark_stale(connection: Connection, keys: set[str]) -> None:
    """Mark runs that must be combined again."""
    delete_in(connection, stale.c.run_key, sorted(keys))
    insert_rows(connection, stale, [{"run_key": key} for key in sorted(keys)])


def list_stale(connection: Connection, most: int) -> list[str]:
    return list(connection.execute(sa.select(stale.c.run_key).order_by(stale.c.run_key).limit(most)).scalars())


def combine_runs(connection: Connection, keys: Sequence[str], merge: Callable[[Sequence[ProcessSummary]], Row]) -> None:
    """Combine the processes of each of these runs again, and remove runs that have none left."""
    query = sa.select(logs.c.run_key, logs.c.summary).where(logs.c.status == "read")
    rows = select_in(connection, query.order_by(logs.c.run_key, logs.c.digest), logs.c.run_key, keys)
    combined = {
        key: merge([unpack_summary(row.summary) for row in of_run]) | {"run_key": key}
        for key, of_run in groupby(rows, key=lambda row: str(row.run_key))
    }
    add_runs(connection, list(combined.values()))
    remove_runs(connection, [key for key in keys if key not in combined])
    delete_in(connection, stale.c.run_key, keys)


def _replace(connection: Connection, log: Row, changed: set[str]) -> None:
    """Replace a changed log by an unchanged copy of its old contents, or else remove its run."""
    if log["status"] != "read":
        return
    copies = sa.select(logs.c.log_id, logs.c.path).where(logs.c.digest == log["digest"], logs.c.status == "copy")
    rows = connection.execute(copies.order_by(logs.c.log_id))
    copy = next((row.log_id for row in rows if row.path not in changed), None)
    connection.execute(logs.update().where(logs.c.log_id == log["log_id"]).values(status="copy", run_key=None))
    if copy is None:
        _leave_run(connection, log)
    else:
        values = {"status": "read", "run_key": log["run_key"], "summary": log["summary"]}
        connection.execute(logs.update().where(logs.c.log_id == copy).values(values))


def _leave_run(connection: Connection, log: Row) -> None:
    """Take a log out of its run: mark the run for combining, or remove it."""
    if log["status"] != "read" or log["run_key"] is None:
        return
    if log["summary"] is not None:
        _mark_stale(connection, {log["run_key"]})
    else:
        remove_runs(connection, [log["run_key"]])


def add_runs(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add runs and update `totals`. A run with a known `run_key` replaces the old one and keeps its id.

    A row has the columns of `runs` without the two ids, and "app", "module_rows" (rows of `run_modules` without the
    run's id), "osts" (columns of `run_osts`, by name), and if they are known "request_rows" (of `run_requests`) and
    "diagnosis" (a row of `run_diagnoses` with its "findings", the most costly first).
    """
    rows = list({row["run_key"]: row for row in rows}.values())
    old = _find_ids(connection, [row["run_key"] for row in rows])
    _forget(connection, list(old.values()))
    app_ids = _intern(connection, apps, sorted({row["app"] for row in rows}))
    first = next_id(connection, runs.c.run_id)
    changed: list[tuple[Row, Mapping[str, Any]]] = []
    added: list[tuple[Row, Mapping[str, Any]]] = []
    for row in rows:
        values = {name: row[name] for name in _RUN_COLUMNS} | {"app_id": app_ids[row["app"]]}
        if row["run_key"] in old:
            changed.append((values | {"run_id": old[row["run_key"]]}, row))
        else:
            added.append((values | {"run_id": first + len(added)}, row))
    insert_rows(connection, runs, [values for values, _ in added])
    for values, _ in changed:
        connection.execute(runs.update().where(runs.c.run_id == values["run_id"]).values(values))
    stored = changed + added
    for table, name in ((modules, "module_rows"), (requests, "request_rows")):
        children = [{"run_id": values["run_id"], **child} for values, row in stored for child in row.get(name, ())]
        insert_rows(connection, table, children)
    _insert_diagnoses(
        connection, [(values["run_id"], row["diagnosis"]) for values, row in stored if row.get("diagnosis")]
    )
    _insert_osts(connection, [(values["run_id"], row["osts"]) for values, row in stored if row["osts"]])
    _update_totals(connection, (values for values, _ in stored), +1)


def _insert_diagnoses(connection: Connection, diagnoses_of_runs: Sequence[tuple[int, Row]]) -> None:
    plain = [{"run_id": run} | {n: row.get(n, v) for n, v in _DIAGNOSIS.items()} for run, row in diagnoses_of_runs]
    insert_rows(connection, diagnoses, plain)
    rows = [
        {"run_id": run, "number": number, **finding}
        for run, row in diagnoses_of_runs
        for number, finding in enumerate(row.get("findings", ()), 1)
    ]
    insert_rows(connection, findings, rows)


def remove_runs(connection: Connection, keys: Sequence[str]) -> None:
    ids = list(_find_ids(connection, keys).values())
    _forget(connection, ids)
    delete_in(connection, runs.c.run_id, ids)


def _find_ids(connection: Connection, keys: Sequence[str]) -> dict[str, int]:
    query = sa.select(runs.c.run_key, runs.c.run_id)
    return {row.run_key: row.run_id for row in select_in(connection, query, runs.c.run_key, keys)}


def _forget(connection: Connection, ids: Sequence[int]) -> None:
    """Subtract these runs from the sums, and delete their rows in other tables."""
    old = [row._asdict() for row in select_in(connection, sa.select(runs), runs.c.run_id, ids)]
    _update_totals(connection, old, -1)
    for table in (modules, osts, requests, findings, diagnoses):
        delete_in(connection, table.c.run_id, ids)


def _intern(connection: Connection, table: Table, names: Sequence[str]) -> dict[str, int]:
    """The ids of names in a table of ids and names; new names are added."""
    id_column, name_column = table.columns
    known = {name: i for i, name in select_in(connection, sa.select(id_column, name_column), name_column, names)}
    first = next_id(connection, id_column)
    new = {name: first + i for i, name in enumerate(name for name in names if name not in known)}
    insert_rows(connection, table, [{id_column.name: i, name_column.name: name} for name, i in new.items()])
    return known | new


def _update_totals(connection: Connection, rows: Iterable[Row], sign: int) -> None:
    sums: dict[tuple[object, ...], list[int]] = defaultdict(lambda: [0] * len(_SUMS))
    for row in rows:
        key = _totals_key(row)
        sums[key] = [a + sign * b for a, b in zip(sums[key], _measures(row), strict=True)]
    changes = [dict(zip(_KEY, k, strict=True)) | dict(zip(_SUMS, v, strict=True)) for k, v in sums.items()]
    upsert(connection, totals, changes, add=True)
    if changes and sign < 0:
        connection.execute(totals.delete().where(totals.c.runs == 0))


def _totals_key(row: Row) -> tuple[object, ...]:
    """The values that similar runs share, in the order of the primary key of `totals`."""
    shared = 2 * row["shared_bytes"] > row["total_bytes"]
    stripes = (row["stripe_count"] or 0, row["file_stripe_count"] or 0, row["stripe_size"] or 0)
    return row["app_id"], row["nprocs"], *stripes, row["filesystem"] or "", shared, bool(row["partial_flag"])


def _measures(row: Row) -> list[int]:
    """The values that `totals` sums up, in the order of its columns."""
    timed = row["perf_by_slowest"] > 0
    return [
        1,
        int(timed),
        round(row["perf_by_slowest"]) if timed else 0,
        *(row[name] for name in ("total_bytes", "bytes_read", "bytes_written")),
        row["read_requests"] + row["write_requests"],
        *(row[name] for name in ("pattern_requests", "seq_requests", "io_less_1k", "io_1k_to_100k")),
    ]


def _insert_osts(connection: Connection, osts_of_runs: Sequence[tuple[int, Mapping[str, Sequence[Any]]]]) -> None:
    names = [name for _, columns in osts_of_runs[:1] for name in columns if name != "filesystem"]
    systems = sorted({name for _, columns in osts_of_runs for name in columns["filesystem"]})
    ids = _intern(connection, filesystems, systems)
    rows = [
        (run, *row)
        for run, columns in osts_of_runs
        for row in zip(map(ids.get, columns["filesystem"]), *(columns[name] for name in names), strict=True)
    ]
    insert_tuples(connection, osts, ["run_id", "filesystem_id", *names], rows)
