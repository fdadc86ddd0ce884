"""Runs in the store, and the sums over them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

from forebay.history.store.schema import apps, filesystems, modules, osts, requests, runs, totals

Row = Mapping[str, Any]
AT_ONCE = 500
"""Values in one IN (...)."""

_RUN_COLUMNS = [c.name for c in runs.columns if c.name not in ("run_id", "app_id")]
_KEY = [c.name for c in totals.primary_key]
_SUMS = [c.name for c in totals.columns if c.name not in _KEY]


def add_runs(connection: Connection, rows: Sequence[Row]) -> None:
    """Put runs in, and keep `totals` right. A run whose `run_key` is known takes the old one's place and number.

    A row has the columns of `runs` but for the two ids, and "app", "module_rows" (rows of `run_modules` without the
    run's id), "osts" (columns of `run_osts`, by name), and "request_rows" (of `run_requests`) where they are known.
    """
    rows = list({row["run_key"]: row for row in rows}.values())
    old = _known(connection, [row["run_key"] for row in rows])
    _forget(connection, list(old.values()))
    app_ids = _ids(connection, apps, sorted({row["app"] for row in rows}))
    new_id = (connection.execute(sa.select(sa.func.max(runs.c.run_id))).scalar() or 0) + 1
    changed: list[tuple[dict[str, Any], Row]] = []
    added: list[tuple[dict[str, Any], Row]] = []
    for row in rows:
        values = {name: row[name] for name in _RUN_COLUMNS} | {"app_id": app_ids[row["app"]]}
        if row["run_key"] in old:
            changed.append((values | {"run_id": old[row["run_key"]]}, row))
        else:
            added.append((values | {"run_id": new_id + len(added)}, row))
    insert_rows(connection, runs, [values for values, _ in added])
    for values, _ in changed:
        connection.execute(runs.update().where(runs.c.run_id == values["run_id"]).values(values))
    stored = changed + added
    parts = [{"run_id": values["run_id"], **part} for values, row in stored for part in row["module_rows"]]
    insert_rows(connection, modules, parts)
    apart = [{"run_id": values["run_id"], **part} for values, row in stored for part in row.get("request_rows", ())]
    insert_rows(connection, requests, apart)
    _insert_osts(connection, [(values["run_id"], row["osts"]) for values, row in stored])
    _count(connection, (values for values, _ in stored), +1)


def remove_runs(connection: Connection, keys: Sequence[str]) -> None:
    """Take runs out, by their keys."""
    ids = list(_known(connection, keys).values())
    _forget(connection, ids)
    for some in slices(ids):
        connection.execute(runs.delete().where(runs.c.run_id.in_(some)))


def _known(connection: Connection, keys: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for some in slices(keys):
        query = sa.select(runs.c.run_key, runs.c.run_id).where(runs.c.run_key.in_(some))
        found |= {row.run_key: row.run_id for row in connection.execute(query)}
    return found


def _forget(connection: Connection, ids: Sequence[int]) -> None:
    """Take what hangs on these runs away, and them out of the sums."""
    for some in slices(ids):
        before = connection.execute(sa.select(runs).where(runs.c.run_id.in_(some))).mappings().all()
        _count(connection, map(dict, before), -1)
        for table in (modules, osts, requests):
            connection.execute(table.delete().where(table.c.run_id.in_(some)))


def _ids(connection: Connection, table: Table, names: Sequence[str]) -> dict[str, int]:
    """The numbers of names, in a table of a number and a name; new ones get one."""
    number, named = table.columns
    found: dict[str, int] = {}
    for some in slices(names):
        found |= {name: i for i, name in connection.execute(sa.select(number, named).where(named.in_(some)))}
    missing = [name for name in names if name not in found]
    next_id = (connection.execute(sa.select(sa.func.max(number))).scalar() or 0) + 1
    new = {name: next_id + i for i, name in enumerate(missing)}
    insert_rows(connection, table, [{number.name: i, named.name: name} for name, i in new.items()])
    return found | new


def _count(connection: Connection, rows: Iterable[Row], sign: int) -> None:
    sums: dict[tuple[object, ...], list[int]] = defaultdict(lambda: [0] * len(_SUMS))
    for row in rows:
        key, values = _kind(row), _measures(row)
        sums[key] = [a + sign * b for a, b in zip(sums[key], values, strict=True)]
    if not sums:
        return
    made = [dict(zip(_KEY, k, strict=True)) | dict(zip(_SUMS, v, strict=True)) for k, v in sums.items()]
    insert = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(totals)
    added = {name: totals.c[name] + insert.excluded[name] for name in _SUMS}
    connection.execute(insert.on_conflict_do_update(index_elements=_KEY, set_=added), made)
    if sign < 0:
        connection.execute(totals.delete().where(totals.c.runs == 0))


def _kind(row: Row) -> tuple[object, ...]:
    """What runs have in common that are summed up together; in the order of the primary key."""
    shared = 2 * row["shared_bytes"] > row["total_bytes"]
    stripes = (row["stripe_count"] or 0, row["file_stripe_count"] or 0, row["stripe_size"] or 0)
    return row["app_id"], row["nprocs"], *stripes, row["filesystem"] or "", shared, bool(row["partial_flag"])


def _measures(row: Row) -> list[int]:
    timed = row["perf_by_slowest"] > 0
    plain = ("total_bytes", "bytes_read", "bytes_written")
    pattern = ("pattern_requests", "seq_requests", "io_less_1k", "io_1k_to_100k")
    return [
        1,
        int(timed),
        round(row["perf_by_slowest"]) if timed else 0,
        *(row[name] for name in plain),
        row["read_requests"] + row["write_requests"],
        *(row[name] for name in pattern),
    ]


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Rows with the same columns each, all new."""
    names = list(rows[0]) if rows else []
    _put(connection, table, names, [tuple(row[name] for name in names) for row in rows])


def _insert_osts(connection: Connection, of_runs: Sequence[tuple[int, Mapping[str, Sequence[Any]]]]) -> None:
    of_runs = [(run, columns) for run, columns in of_runs if columns]
    names = [name for _, columns in of_runs[:1] for name in columns if name != "filesystem"]
    ids = _ids(connection, filesystems, sorted({name for _, columns in of_runs for name in columns["filesystem"]}))
    values = [
        (run, *row)
        for run, columns in of_runs
        for row in zip(map(ids.get, columns["filesystem"]), *(columns[name] for name in names), strict=True)
    ]
    _put(connection, osts, ["run_id", "filesystem_id", *names], values)


def _put(connection: Connection, table: Table, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """By the driver's own way, which takes a fraction of the time where there are many rows."""
    if not rows:
        return
    quoted = ", ".join(connection.dialect.identifier_preparer.quote(name) for name in names)
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" * len(names))
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({quoted}) VALUES ({marks})", list(rows))
        return
    psycopg: Any = connection.connection.driver_connection
    with psycopg.cursor() as cursor, cursor.copy(f"COPY {table.name} ({quoted}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def slices(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (values[i : i + AT_ONCE] for i in range(0, len(values), AT_ONCE))
