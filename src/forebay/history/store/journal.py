"""The control service's journal: events in order, checkpoints of the state, and messages of agents."""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.store.bulk import insert_tuples, upsert
from forebay.history.store.schema import checkpoints, grant_logs, heard, journal
from forebay.model.errors import BadInput

AT_ONCE = 5000
"""Rows in memory at a time."""
_CHECKPOINTS = 2  # one more than needed, in case the last is damaged


@dataclass(frozen=True, slots=True)
class Entry:
    """One event: its number from 1, its time in seconds since 1970, its grant ("" for none), and its JSON line."""

    number: int
    at: float
    grant: str
    line: str


@dataclass(frozen=True, slots=True)
class LogLine:
    """An agent's message about a grant, at a time in seconds since 1970."""

    grant: str
    at: float
    node: str
    level: str
    text: str


def append_entries(connection: Connection, entries: Sequence[Entry]) -> None:
    """Append entries; the database refuses a number that exists."""
    names = ("number", "at", "grant_id", "line")
    rows = [(e.number, e.at, e.grant or None, e.line) for e in entries]
    if connection.dialect.name == "sqlite":
        insert_tuples(connection, journal, names, rows)
    elif rows:
        connection.execute(journal.insert(), [dict(zip(names, row, strict=True)) for row in rows])


def last_number(connection: Connection) -> int:
    """The number of the last entry; 0 for an empty journal."""
    return int(connection.execute(sa.select(sa.func.max(journal.c.number))).scalar() or 0)


def read_after(connection: Connection, number: int, limit: int | None = None) -> Iterator[Entry]:
    """Stream the entries after `number`, in order. Raises BadInput if one is missing."""
    query = journal.select().where(journal.c.number > number).order_by(journal.c.number).limit(limit)
    with connection.execute(query, execution_options={"yield_per": AT_ONCE}) as rows:
        for row in rows:
            number += 1
            if row.number != number:
                raise BadInput("journal", f"entry {number} is missing (the next one is {row.number}); restore a backup")
            yield Entry(row.number, row.at, row.grant_id or "", row.line)


def read_unseen(connection: Connection, number: int) -> list[Entry]:
    """All entries after `number`. They are few, because every writer reads them before it writes."""
    query = f"SELECT number, at, grant_id, line FROM journal WHERE number > {number:d} ORDER BY number"
    is_sqlite = connection.dialect.name == "sqlite"  # going through the driver is much faster
    driver: Any = connection.connection.driver_connection
    rows = driver.execute(query) if is_sqlite else connection.exec_driver_sql(query)
    entries = [Entry(n, at, grant or "", line) for n, at, grant, line in rows]
    if entries and entries[0].number != number + 1:
        reason = f"entry {number + 1} is missing (the next one is {entries[0].number}); restore a backup"
        raise BadInput("journal", reason)
    return entries


def list_entries(connection: Connection, grant: str) -> list[Entry]:
    query = journal.select().where(journal.c.grant_id == grant).order_by(journal.c.number)
    return [Entry(row.number, row.at, row.grant_id or "", row.line) for row in connection.execute(query)]


def save_checkpoint(connection: Connection, number: int, state: bytes) -> None:
    """Save the state after event `number`; `state` is from `compress_state`."""
    connection.execute(checkpoints.delete().where(checkpoints.c.number == number))
    connection.execute(checkpoints.insert().values(number=number, state=state))
    newest = sa.select(checkpoints.c.number).order_by(checkpoints.c.number.desc()).limit(_CHECKPOINTS)
    kept = list(connection.execute(newest).scalars())
    connection.execute(checkpoints.delete().where(checkpoints.c.number < min(kept)))


def compress_state(text: str) -> bytes:
    return zlib.compress(text.encode(), 1)


def checkpoints_before(connection: Connection, number: int) -> Iterator[tuple[int, str]]:
    """Yield the saved states up to `number`, newest first, without damaged ones."""
    query = checkpoints.select().where(checkpoints.c.number <= number).order_by(checkpoints.c.number.desc())
    for row in connection.execute(query).all():
        try:
            yield row.number, zlib.decompress(row.state).decode()
        except (zlib.error, UnicodeDecodeError):
            continue


def add_log_lines(connection: Connection, lines: Iterable[LogLine]) -> None:
    rows = [
        {"grant_id": line.grant, "at": line.at, "node": line.node, "level": line.level, "text": line.text}
        for line in lines
    ]
    if rows:
        connection.execute(grant_logs.insert(), rows)


def list_log_lines(connection: Connection, grant: str) -> list[LogLine]:
    """Agents' messages about a grant, in the order of arrival."""
    query = grant_logs.select().where(grant_logs.c.grant_id == grant).order_by(grant_logs.c.log_id)
    return [LogLine(row.grant_id, row.at, row.node, row.level, row.text) for row in connection.execute(query)]


def record_heard(connection: Connection, nodes: Mapping[str, float]) -> None:
    """Record when each agent last reported (seconds since 1970)."""
    upsert(connection, heard, [{"node": node, "at": at} for node, at in sorted(nodes.items())])


def last_heard(connection: Connection) -> dict[str, float]:
    return {row.node: row.at for row in connection.execute(heard.select())}
