"""Reads and writes many rows at a time, in the fastest way that each database has."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Select, Table
from sqlalchemy.dialects import postgresql, sqlite

AT_ONCE = 500
"""Values in one IN (...)."""
T = TypeVar("T")


def fetch(connection: Connection, query: Select[Any], kind: type[T]) -> list[T]:
    """The rows of a query as values of a class whose fields are the columns."""
    return [kind(**row) for row in connection.execute(query).mappings().all()]


def whole_sum(column: sa.Column[Any]) -> ColumnElement[int]:
    """The sum of a column, with the column's name. Without the cast, PostgreSQL returns a decimal."""
    return sa.cast(sa.func.sum(column), sa.BigInteger).label(column.name)


def within_period(time: ColumnElement[Any], since: float | None, until: float | None) -> list[ColumnElement[bool]]:
    """Conditions for a time in [since, until); None means no limit."""
    limits = ((operator.ge, since), (operator.lt, until))
    return [compare(time, limit) for compare, limit in limits if limit is not None]


def select_in(
    connection: Connection, query: Select[Any], column: ColumnElement[Any], values: Sequence[object]
) -> Iterator[Any]:
    """The rows of a query in which the column has one of these values."""
    for i in range(0, len(values), AT_ONCE):
        yield from connection.execute(query.where(column.in_(values[i : i + AT_ONCE])))


def delete_in(connection: Connection, column: sa.Column[Any], values: Sequence[object]) -> None:
    """Delete the rows of a table in which the column has one of these values."""
    for i in range(0, len(values), AT_ONCE):
        connection.execute(column.table.delete().where(column.in_(values[i : i + AT_ONCE])))


def upsert(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]], *, add: bool = False) -> None:
    """Insert rows, or update those whose primary key exists; with `add`, add the values to the stored ones."""
    if not rows:
        return
    insert = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table)
    key = [column.name for column in table.primary_key]
    new = {
        c.name: c + insert.excluded[c.name] if add else insert.excluded[c.name] for c in table.c if c.name not in key
    }
    connection.execute(insert.on_conflict_do_update(index_elements=key, set_=new), list(rows))


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert new rows, which all have the same columns."""
    names = list(rows[0]) if rows else []
    insert_tuples(connection, table, names, [tuple(row[name] for name in names) for row in rows])


def insert_tuples(
    connection: Connection, table: Table, names: Sequence[str], rows: Sequence[tuple[object, ...]]
) -> None:
    """Insert new rows through the driver, which is much faster for many rows."""
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


def next_id(connection: Connection, column: sa.Column[Any]) -> int:
    return (connection.execute(sa.select(sa.func.max(column))).scalar() or 0) + 1
