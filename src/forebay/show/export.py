"""Writes tables as CSV and Parquet files."""

from __future__ import annotations

import csv
import glob
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from forebay.history.store.listing import dump_tables
from forebay.model.errors import BadInput
from forebay.show.output import progress

if TYPE_CHECKING:
    from forebay.history.store import Connection


def write_table(rows: Sequence[Mapping[str, object]], base: Path) -> tuple[Path, Path]:
    """Write the rows to `base`.csv and `base`.parquet; numbers stay exact."""
    as_csv, as_parquet = base.with_suffix(".csv"), base.with_suffix(".parquet")
    with as_csv.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    with duckdb.connect() as database:
        database.execute("SET threads = 1")  # so that row groups keep their order, and the bytes are always the same
        types = {name: _TYPES[type(value)] for name, value in rows[0].items()}
        database.read_csv(glob.escape(str(as_csv)), header=True, dtype=types).write_parquet(str(as_parquet))
    return as_csv, as_parquet


def write_parquet(path: Path, columns: Mapping[str, str], parts: Iterable[Sequence[Sequence[object]]]) -> int:
    """Write rows that come in parts, one in memory at a time; `columns` have SQL types. Returns the number of rows."""
    scratch, lines, rows = path.with_suffix(".db"), path.with_suffix(".csv"), 0
    names = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    try:
        with duckdb.connect(str(scratch), config={"threads": 1, "memory_limit": "400MB"}) as database:
            database.execute(f"CREATE TABLE exported ({names})")
            for part in parts:
                with lines.open("w", newline="", encoding="utf-8") as file:
                    file.writelines(",".join(map(_cell, row)) + "\n" for row in part)
                database.execute(f"COPY exported FROM '{glob.escape(_escape_quotes(lines))}' ({_CSV})")
                lines.unlink()
                rows += len(part)
            database.execute(f"COPY exported TO '{_escape_quotes(path)}' (FORMAT parquet, COMPRESSION zstd)")
    except duckdb.IOException as error:
        raise BadInput(str(path), f"cannot write this file: {error}") from None
    scratch.unlink()
    return rows


_CSV = (
    r"""FORMAT csv, AUTO_DETECT false, HEADER false, NEW_LINE '\n', DELIM ',', QUOTE '"', ESCAPE '"', """
    r"NULLSTR '\N', ALLOW_QUOTED_NULLS false, PARALLEL false"
)


def _cell(value: object) -> str:
    """Quote all text, so that none of it reads as a missing value."""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return r"\N" if value is None else str(value)


def _escape_quotes(path: Path) -> str:
    return str(path).replace("'", "''")


_TYPES: dict[type, str] = {str: "VARCHAR", float: "DOUBLE", int: "BIGINT"}


def export_history(connection: Connection, folder: Path) -> list[tuple[Path, int]]:
    """Write every table into `folder`, from one snapshot; returns each file with its number of rows."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as scratch:
        made = []
        for name, columns, parts in dump_tables(connection):
            with progress(name, float("inf")):
                path = Path(scratch) / f"{name}.parquet"
                made.append((path, write_parquet(path, columns, parts)))
        return [(path.replace(folder / path.name), rows) for path, rows in made]
