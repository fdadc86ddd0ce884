"""What Slurm's accounting says of jobs, in the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from forebay.history.store.schema import jobs


def add_jobs(connection: Connection, rows: Iterable[Mapping[str, Any]]) -> int:
    """Put jobs in; what is said later of a job holds. Returns how many there were."""
    last = {row["job_id"]: dict(row) for row in rows}
    insert = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(jobs)
    said = {c.name: insert.excluded[c.name] for c in jobs.columns if c.name != "job_id"}
    if last:
        connection.execute(insert.on_conflict_do_update(index_elements=["job_id"], set_=said), list(last.values()))
    return len(last)
