"""How a database of an older schema becomes one of the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import Connection

MIGRATIONS: Mapping[int, Callable[[Connection], None]] = {}
"""From version v to v + 1, in the transaction that opens the database."""
