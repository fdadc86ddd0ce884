"""The logs that have been read: which copy of a log counts, what becomes of changed logs, and the runs of several."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Literal

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.run_fields import Row
from forebay.history.scanned_log import ProcessSummary, ScannedLog, unpack_summary
from forebay.history.store.bulk import delete_in, insert_rows, next_id, select_in
from forebay.history.store.runs import add_runs, remove_runs
from forebay.history.store.schema import logs, stale

Status = Literal["read", "copy"]


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
