"""Adds and removes runs, and updates the sums over runs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Table

from forebay.history.run_fields import Row
from forebay.history.store.bulk import delete_in, insert_rows, insert_tuples, next_id, select_in, upsert
from forebay.history.store.schema import apps, diagnoses, filesystems, findings, modules, osts, requests, runs, totals

_RUN_COLUMNS = [c.name for c in runs.columns if c.name not in ("run_id", "app_id")]
_DIAGNOSIS = {"file_bytes": 0, "io_seconds": 0.0, "busiest_seconds": 0.0, "calibration": None, "remark": None}
_KEY = [c.name for c in totals.primary_key]
_SUMS = [c.name for c in totals.columns if c.name not in _KEY]


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
