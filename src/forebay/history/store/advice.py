"""What was advised lately."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.store.schema import decisions

_SHOWN = [column for column in decisions.c if column.name not in ("decision_id", "job", "app")]


def last_advice(connection: Connection, app: str) -> dict[str, Any] | None:
    """The newest decision about an application's layout, by the columns of the table; None if there was none."""
    query = sa.select(*_SHOWN).where(decisions.c.app == app).order_by(decisions.c.decision_id.desc()).limit(1)
    found = connection.execute(query).mappings().first()
    return None if found is None else dict(found)
