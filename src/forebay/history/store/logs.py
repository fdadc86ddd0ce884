"""Which logs have been read, and what became of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.scanned_log import ProcessSummary, ScannedLog, unpack_summary
from forebay.history.store.runs import add_runs, insert_rows, remove_runs, slices
from forebay.history.store.schema import logs, stale

Status = Literal["read", "copy"]


def find_unchanged(connection: Connection, paths: Mapping[str, tuple[int, int]]) -> set[str]:
    """Those of the paths (with size and time of change) that have been read as they are."""
    same: set[str] = set()
    for some in slices(list(paths)):
        query = sa.select(logs.c.path, logs.c.size, logs.c.mtime_ns).where(logs.c.path.in_(some))
        same.update(path for path, *state in connection.execute(query) if tuple(state) == paths[path])
    return same


def record_logs(connection: Connection, batch: Sequence[ScannedLog]) -> dict[str, Status]:
    """Take a batch of logs in that could be read; what became of each. Whoever calls combines stale runs at the end."""
    batch = list({found.path: found for found in batch}.values())
    before = _before(connection, [found.path for found in batch])
    changed = {f.path: before[f.path] for f in batch if f.path in before and before[f.path]["digest"] != f.digest}
    for log in changed.values():
        _let_go(connection, log, changed)
    for found in batch:
        if (log := before.get(found.path)) and log["digest"] == found.digest and log["run_key"] != found.run_key:
            _leave_run(connection, log)  # read by a version that knows more of it
    held = _holders(connection, [found.digest for found in batch])
    became: dict[str, Status] = {}
    for found in batch:
        became[found.path] = "read" if held.setdefault(found.digest, found.path) == found.path else "copy"
    _write(connection, batch, before, became)
    new = [f for f in batch if became[f.path] == "read"]
    several = _of_several(connection, [f.run_key for f in new if f.summary is not None and f.run_key])
    add_runs(connection, [{**f.row, "run_key": f.run_key} for f in new if f.row and f.run_key not in several])
    mark_stale(connection, several)
    return became


def _of_several(connection: Connection, keys: Sequence[str]) -> set[str]:
    """Those of the runs that more than one log belongs to."""
    found: set[str] = set()
    for some in slices(sorted(set(keys))):
        query = sa.select(logs.c.run_key).where(logs.c.run_key.in_(some)).group_by(logs.c.run_key)
        found.update(connection.execute(query.having(sa.func.count() > 1)).scalars())
    return found


def mark_stale(connection: Connection, keys: set[str]) -> None:
    """These runs have to be put together again."""
    for some in slices(sorted(keys)):
        connection.execute(stale.delete().where(stale.c.run_key.in_(some)))
        connection.execute(stale.insert(), [{"run_key": key} for key in some])


def list_stale(connection: Connection, most: int) -> list[str]:
    return list(connection.execute(sa.select(stale.c.run_key).order_by(stale.c.run_key).limit(most)).scalars())


def read_process_summaries(connection: Connection, keys: Sequence[str]) -> Iterator[tuple[str, list[ProcessSummary]]]:
    """What each process of these runs did, and the bytes that it moved per file."""
    for some in slices(keys):
        query = (
            sa.select(logs.c.run_key, logs.c.summary)
            .where(logs.c.run_key.in_(some), logs.c.status == "read")
            .order_by(logs.c.run_key, logs.c.digest)
        )
        for key, rows in groupby(connection.execute(query), key=lambda row: str(row.run_key)):
            yield key, [unpack_summary(row.summary) for row in rows]


def clear_stale(connection: Connection, keys: Sequence[str]) -> None:
    for some in slices(keys):
        connection.execute(stale.delete().where(stale.c.run_key.in_(some)))


def _before(connection: Connection, paths: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for some in slices(paths):
        rows = connection.execute(sa.select(logs).where(logs.c.path.in_(some))).mappings()
        found |= {row["path"]: row for row in rows}
    return found


def _holders(connection: Connection, digests: Sequence[str]) -> dict[str, str]:
    """The path of the log that was read, by digest."""
    found: dict[str, str] = {}
    for some in slices(sorted(set(digests))):
        query = sa.select(logs.c.digest, logs.c.path).where(logs.c.digest.in_(some), logs.c.status == "read")
        found |= {row.digest: row.path for row in connection.execute(query)}
    return found


def _let_go(connection: Connection, log: Any, changed: Mapping[str, Any]) -> None:
    """A log is about to change: a copy of it that does not takes its place, or its run goes."""
    if log["status"] != "read":
        return
    same = sa.select(logs.c.log_id, logs.c.path).where(logs.c.digest == log["digest"], logs.c.status == "copy")
    staying = (row.log_id for row in connection.execute(same.order_by(logs.c.log_id)) if row.path not in changed)
    copy = next(staying, None)
    connection.execute(logs.update().where(logs.c.log_id == log["log_id"]).values(status="copy", run_key=None))
    if copy is not None:
        taken = {name: log[name] for name in ("run_key", "summary")}
        connection.execute(logs.update().where(logs.c.log_id == copy).values(status="read", **taken))
    else:
        _leave_run(connection, log)


def _leave_run(connection: Connection, log: Any) -> None:
    """The run of a log that no longer belongs to it is put together without it, or removed."""
    if log["status"] != "read" or log["run_key"] is None:
        return
    if log["summary"] is not None:
        mark_stale(connection, {log["run_key"]})
    else:
        remove_runs(connection, [log["run_key"]])


def _write(
    connection: Connection, batch: Sequence[ScannedLog], before: Mapping[str, Any], became: Mapping[str, Status]
) -> None:
    rows = [_row(found, became[found.path]) for found in batch]
    changed = [row for row in rows if row["path"] in before]
    for row in changed:
        connection.execute(logs.update().where(logs.c.path == row["path"]).values(row))
    new = [row for row in rows if row["path"] not in before]
    if new:
        first = (connection.execute(sa.select(sa.func.max(logs.c.log_id))).scalar() or 0) + 1
        insert_rows(connection, logs, [row | {"log_id": first + i} for i, row in enumerate(new)])


def _row(found: ScannedLog, status: Status) -> dict[str, Any]:
    return {
        "path": found.path,
        "size": found.size,
        "mtime_ns": found.mtime_ns,
        "digest": found.digest,
        "status": status,
        "reason": found.reason or None,
        "run_key": found.run_key if status == "read" else None,
        "summary": found.summary if status == "read" else None,
    }
