"""The tables of the history, as `schema.toml` declares them."""

import re
import tomllib
from importlib.resources import files
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Integer, Table

VERSION = 6
"""The version in the table `meta`; database.py migrates older ones."""

metadata = sa.MetaData()
_TYPES: dict[str, sa.types.TypeEngine[Any]] = {
    "id": BigInteger().with_variant(Integer, "sqlite"),  # SQLite numbers only INTEGER columns by itself
    "bigint": BigInteger(),
    "integer": Integer(),
    "double": sa.Float(53),
    "text": sa.Text(),
    "boolean": sa.Boolean(),
    "blob": sa.LargeBinary(),
}
_COLUMN = re.compile(
    r"(?P<type>\w+)(\((?P<length>\d+)\))?(?P<key> primary key)?(?P<needed> not null)?(?P<unique> unique)?"
    r"( default (?P<default>\S+))?( references (?P<table>[\w.]+)(?P<cascade> cascade)?)?"
)


def _column(name: str, definition: str) -> Column[Any]:
    match = _COLUMN.fullmatch(definition)
    if match is None:
        raise ValueError(f"column {name}: cannot read {definition!r}")
    column_type = sa.String(int(match["length"])) if match["length"] else _TYPES[match["type"]]
    ondelete = "CASCADE" if match["cascade"] else None
    return Column(
        name,
        column_type,
        *([sa.ForeignKey(match["table"], ondelete=ondelete)] if match["table"] else ()),
        primary_key=bool(match["key"]),
        autoincrement="auto" if match["type"] == "id" else False,
        nullable=not (match["key"] or match["needed"]),
        unique=bool(match["unique"]) or None,
        server_default=match["default"],
    )


for _name, _table in tomllib.loads((files("forebay.history.store") / "schema.toml").read_text("utf-8")).items():
    Table(
        _name,
        metadata,
        *(_column(name, definition) for name, definition in _table["columns"].items()),
        *(sa.Index(index, *columns) for index, columns in _table.get("indexes", {}).items()),
        *([sa.PrimaryKeyConstraint(*_table["primary_key"])] if "primary_key" in _table else ()),
        *([sa.UniqueConstraint(*_table["unique"])] if "unique" in _table else ()),
        sqlite_with_rowid=_table.get("rowid", True),
    )

meta, apps, filesystems, runs, modules, requests, osts, logs, stale, totals, jobs, leases, decisions = (
    metadata.tables[name]
    for name in (
        *("forebay_meta", "apps", "filesystems", "runs", "run_modules", "run_requests", "run_osts", "logs"),
        *("stale_runs", "totals", "jobs", "leases", "decisions"),
    )
)
diagnoses, findings = (metadata.tables[name] for name in ("run_diagnoses", "run_findings"))
journal, checkpoints, grant_logs, heard, tokens = (
    metadata.tables[name] for name in ("journal", "journal_checkpoints", "grant_logs", "nodes_heard", "tokens")
)
