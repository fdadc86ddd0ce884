"""Whole tables, streamed, for export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Select

from forebay.history.store.listing import run_osts
from forebay.history.store.schema import apps, decisions, filesystems, jobs, modules, osts, requests, runs

_TYPES = {int: "BIGINT", float: "DOUBLE", str: "VARCHAR", bool: "BOOLEAN"}
AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class TableDump:
    """A table's name, its columns with their SQL types, and its rows in pieces."""

    name: str
    columns: dict[str, str]
    parts: Iterator[Sequence[Sequence[Any]]]


def dump_tables(connection: Connection) -> Iterator[TableDump]:
    """Runs (with the application's name), their modules, requests and OSTs, then jobs and decisions."""
    named = sa.select(runs.c.run_id, apps.c.app, *(c for c in runs.c if c.name not in ("run_id", "app_id")))
    queries: dict[str, Select[Any]] = {
        "runs": named.join_from(runs, apps).order_by(runs.c.run_id),
        "run_modules": modules.select().order_by(modules.c.run_id, modules.c.module),
        "run_requests": requests.select().order_by(requests.c.run_id, requests.c.operation),
        "run_osts": run_osts().order_by(osts.c.run_id, filesystems.c.filesystem, osts.c.ost),
        "jobs": jobs.select().order_by(jobs.c.job_id),
        "decisions": decisions.select().order_by(decisions.c.decision_id),
    }
    for name, query in queries.items():
        columns = {c.name: _TYPES[c.type.python_type] for c in query.selected_columns}
        rows = connection.execute(query, execution_options={"yield_per": AT_ONCE})
        yield TableDump(name, columns, rows.partitions())
