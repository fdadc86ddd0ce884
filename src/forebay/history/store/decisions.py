"""Decisions for jobs, and the runs that followed them."""

import json
from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import Connection, RowMapping

from forebay.history.run_fields import Row
from forebay.history.store.bulk import within_period
from forebay.history.store.schema import apps, decisions, runs
from forebay.model.errors import BadInput

OUTCOMES = ("advised", "shadow", "applied", "refused")
_RUN_COLUMNS = ("run_id", "start_time", "nprocs", "file_stripe_count", "stripe_size", "perf_by_slowest", "partial_flag")


def record_decision(connection: Connection, row: Mapping[str, object]) -> int:
    """Add a decision; returns its number."""
    return int(connection.execute(decisions.insert().values(**row).returning(decisions.c.decision_id)).scalar_one())


def set_outcome(connection: Connection, decision: int, outcome: str) -> None:
    connection.execute(decisions.update().where(decisions.c.decision_id == decision).values(outcome=outcome))


def last_decision(connection: Connection, *conditions: sa.ColumnElement[bool]) -> Row | None:
    """The newest decision that meets the conditions."""
    query = sa.select(decisions).where(*conditions).order_by(decisions.c.decision_id.desc()).limit(1)
    row = connection.execute(query).mappings().first()
    return None if row is None else _decision(row)


def find_last_decision(connection: Connection, app: str) -> Row | None:
    """The newest decision about an application's layout, without its number, job and application."""
    row = last_decision(connection, decisions.c.app == app, decisions.c.stripe_size > 0) or {}  # 0: targets only
    return {name: value for name, value in row.items() if name not in ("decision_id", "job", "app")} or None


def list_decisions(
    connection: Connection,
    *,
    since: float | None = None,
    until: float | None = None,
    limit: int | None = None,
    **wanted: str | None,
) -> list[Row]:
    """Decisions in [since, until), seconds since 1970, newest first, each with the `runs` that followed it.

    `wanted` are values of the columns app, job and outcome; None matches any.
    """
    equal = (decisions.c[name] == value for name, value in wanted.items() if value is not None)
    query = sa.select(decisions).where(*equal, *within_period(decisions.c.time, since, until))
    rows = connection.execute(query.order_by(decisions.c.decision_id.desc()).limit(limit)).mappings().all()
    return [_with_runs(connection, _decision(row)) for row in rows]


def read_decision(connection: Connection, number: int) -> Row:
    """One decision with the `runs` that followed it."""
    query = sa.select(decisions).where(decisions.c.decision_id == number)
    row = connection.execute(query).mappings().one_or_none() if number.bit_length() < 64 else None
    if row is None:
        raise BadInput(f"no decision {number} in the history", "`forebay history advice` lists all decisions")
    return _with_runs(connection, _decision(row))


def _decision(row: RowMapping) -> Row:
    """A decision with a list in place of the database's text."""
    return dict(row) | {"components": json.loads(row["components"] or "[]")}


def _with_runs(connection: Connection, decision: Row) -> Row:
    """The decision with the application's runs in its job, oldest first."""
    job = decision["job"]
    if job is None or not (job.isascii() and job.isdigit()) or len(job) > 18:
        return decision | {"runs": []}
    query = (
        sa.select(*(runs.c[name] for name in _RUN_COLUMNS))
        .join_from(runs, apps)
        .where(runs.c.job_id == int(job), apps.c.app == decision["app"])
        .order_by(runs.c.start_time, runs.c.run_id)
    )
    return decision | {"runs": [dict(row) for row in connection.execute(query).mappings()]}
