"""How a database of an older schema becomes one of the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import Connection

from forebay.history.store.schema import checkpoints, grant_logs, heard, journal, metadata, tokens


def _add_journal(connection: Connection) -> None:
    """Version 2: the control service keeps its journal here."""
    metadata.create_all(connection, tables=[journal, checkpoints, grant_logs, heard, tokens])


MIGRATIONS: Mapping[int, Callable[[Connection], None]] = {1: _add_journal}
"""From version v to v + 1, in the transaction that opens the database."""
