"""Which logs have been read, and the runs that they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    """The paths whose logs were read with the given size and time of change."""
    query = sa.select(logs.c.path, logs.c.size, logs.c.mtime_ns)
    rows = select_in(connection, query, logs.c.path, list(paths))
    return {path for path, size, mtime_ns in rows if (size, mtime_ns) == paths[path]}


def record_logs(connection: Connection, batch: Sequence[ScannedLog]) -> dict[str, Status]:
    """Record logs that could be read; returns the status of each. The caller combines stale runs at the end."""
    batch = list({log.path: log for log in batch}.values())
    before = {row.path: row._asdict() for row in select_in(connection, sa.select(logs), logs.c.path, _paths(batch))}
    changed = {log.path for log in batch if log.path in before and before[log.path]["digest"] != log.digest}
    for log in batch:
        row = before.get(log.path)
        if row and log.path in changed:
            _replace(connection, row, changed)
    for log in batch:
        row = before.get(log.path)
        if row and log.path not in changed and row["run_key"] != log.run_key:
            _leave_run(connection, row)  # an older version read it as another run
    holders = _find_holders(connection, batch)
    statuses: dict[str, Status] = {
        log.path: "read" if holders.setdefault(log.digest, log.path) == log.path else "copy" for log in batch
    }
    _write(connection, [_row(log, statuses[log.path]) for log in batch], before)
    new = [log for log in batch if statuses[log.path] == "read"]
    several = _find_runs_of_several(connection, [log.run_key for log in new if log.summary is not None and log.run_key])
    add_runs(connection, [{**log.row, "run_key": log.run_key} for log in new if log.row and log.run_key not in several])
    mark_stale(connection, several)
    return statuses


def _paths(batch: Sequence[ScannedLog]) -> list[str]:
    return [log.path for log in batch]


def _find_runs_of_several(connection: Connection, keys: Sequence[str]) -> set[str]:
    """Those of the runs that have more than one log."""
    query = sa.select(logs.c.run_key).group_by(logs.c.run_key).having(sa.func.count() > 1)
    return {row.run_key for row in select_in(connection, query, logs.c.run_key, sorted(set(keys)))}


def mark_stale(connection: Connection, keys: set[str]) -> None:
    """Mark runs that must be combined again."""
    delete_in(connection, stale.c.run_key, sorted(keys))
    insert_rows(connection, stale, [{"run_key": key} for key in sorted(keys)])


def list_stale(connection: Connection, most: int) -> list[str]:
    return list(connection.execute(sa.select(stale.c.run_key).order_by(stale.c.run_key).limit(most)).scalars())


def clear_stale(connection: Connection, keys: Sequence[str]) -> None:
    delete_in(connection, stale.c.run_key, keys)


def read_process_summaries(connection: Connection, keys: Sequence[str]) -> Iterator[tuple[str, list[ProcessSummary]]]:
    """The processes of each of these runs."""
    query = sa.select(logs.c.run_key, logs.c.summary).where(logs.c.status == "read")
    rows = select_in(connection, query.order_by(logs.c.run_key, logs.c.digest), logs.c.run_key, keys)
    for key, of_run in groupby(rows, key=lambda row: str(row.run_key)):
        yield key, [unpack_summary(row.summary) for row in of_run]


def _find_holders(connection: Connection, batch: Sequence[ScannedLog]) -> dict[str, str]:
    """The path of the log that was read, by digest."""
    query = sa.select(logs.c.digest, logs.c.path).where(logs.c.status == "read")
    digests = sorted({log.digest for log in batch})
    return {row.digest: row.path for row in select_in(connection, query, logs.c.digest, digests)}


def _replace(connection: Connection, log: Row, changed: set[str]) -> None:
    """Let a copy that has not changed take the place of a changed log, or remove its run."""
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
    """Combine the run of a log again without it, or remove the run."""
    if log["status"] != "read" or log["run_key"] is None:
        return
    if log["summary"] is not None:
        mark_stale(connection, {log["run_key"]})
    else:
        remove_runs(connection, [log["run_key"]])


def _write(connection: Connection, rows: Sequence[Row], before: Mapping[str, Row]) -> None:
    for row in rows:
        if row["path"] in before:
            connection.execute(logs.update().where(logs.c.path == row["path"]).values(row))
    new = [row for row in rows if row["path"] not in before]
    if new:
        first = next_id(connection, logs.c.log_id)
        insert_rows(connection, logs, [row | {"log_id": first + i} for i, row in enumerate(new)])


def _row(log: ScannedLog, status: Status) -> Row:
    return {
        "path": log.path,
        "size": log.size,
        "mtime_ns": log.mtime_ns,
        "digest": log.digest,
        "status": status,
        "reason": log.reason or None,
        "run_key": log.run_key if status == "read" else None,
        "summary": log.summary if status == "read" else None,
    }
