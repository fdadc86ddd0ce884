"""What was advised, and what the jobs then did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.store.schema import apps, decisions, runs
from forebay.model.errors import BadInput

OUTCOMES = ("advised", "shadow", "applied", "refused")
_RAN = ("run_id", "start_time", "nprocs", "file_stripe_count", "stripe_size", "perf_by_slowest", "partial_flag")
"""Columns of a run that followed a decision."""

_SHOWN = [column for column in decisions.c if column.name not in ("decision_id", "job", "app")]


def record_decision(connection: Connection, row: Mapping[str, Any]) -> int:
    """Remember what was decided; its number."""
    return int(connection.execute(decisions.insert().values(**row).returning(decisions.c.decision_id)).scalar_one())


def set_outcome(connection: Connection, decision: int, outcome: str) -> None:
    connection.execute(decisions.update().where(decisions.c.decision_id == decision).values(outcome=outcome))


def find_last_decision(connection: Connection, app: str) -> dict[str, Any] | None:
    """The newest decision about an application's layout, by the columns of the table; None if there was none."""
    query = sa.select(*_SHOWN).where(decisions.c.app == app).order_by(decisions.c.decision_id.desc()).limit(1)
    found = connection.execute(query).mappings().first()
    return None if found is None else dict(found)


def list_decisions(
    connection: Connection,
    *,
    app: str | None = None,
    job: str | None = None,
    outcome: str | None = None,
    since: float | None = None,
    until: float | None = None,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """Decisions in [since, until), the newest first, by the columns of the table, each with the `runs` of the
    application in that job. `since` and `until` are seconds since 1970."""
    query = sa.select(decisions).order_by(decisions.c.decision_id.desc()).limit(limit)
    for column, wanted in ((decisions.c.app, app), (decisions.c.job, job), (decisions.c.outcome, outcome)):
        query = query if wanted is None else query.where(column == wanted)
    if since is not None:
        query = query.where(decisions.c.time >= since)
    if until is not None:
        query = query.where(decisions.c.time < until)
    found = [dict(row) for row in connection.execute(query).mappings()]
    return [decision | {"runs": _runs_of(connection, decision)} for decision in found]


def read_decision(connection: Connection, number: int) -> dict[str, Any]:
    """One decision, and the runs that followed it."""
    fits = number.bit_length() < 64
    query = sa.select(decisions).where(decisions.c.decision_id == number)
    row = connection.execute(query).mappings().one_or_none() if fits else None
    if row is None:
        raise BadInput(f"no decision {number} in the history", "`forebay history advice` lists those there are")
    return dict(row) | {"runs": _runs_of(connection, dict(row))}


def _runs_of(connection: Connection, decision: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The application's runs in the job that a decision was for, oldest first."""
    job = decision["job"]
    if job is None or not (job.isascii() and job.isdigit()) or len(job) > 18:
        return []
    query = (
        sa.select(*(runs.c[name] for name in _RAN))
        .join_from(runs, apps)
        .where(runs.c.job_id == int(job), apps.c.app == decision["app"])
        .order_by(runs.c.start_time, runs.c.run_id)
    )
    return [dict(row) for row in connection.execute(query).mappings()]
