"""Tables as files: CSV for everybody, Parquet for those who have many."""

from __future__ import annotations

import csv
import glob
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import duckdb

from forebay.model.errors import BadInput


def write_table(rows: Sequence[Mapping[str, object]], base: Path) -> tuple[Path, Path]:
    """`base`.csv and `base`.parquet with the same rows; numbers round trip exactly."""
    as_csv, as_parquet = base.with_suffix(".csv"), base.with_suffix(".parquet")
    with as_csv.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    with duckdb.connect() as database:
        database.execute("SET threads = 1")  # row groups in the same order, the same bytes every time
        types = {name: _TYPES[type(value)] for name, value in rows[0].items()}
        database.read_csv(glob.escape(str(as_csv)), header=True, dtype=types).write_parquet(str(as_parquet))
    return as_csv, as_parquet


def write_parquet(path: Path, columns: Mapping[str, str], parts: Iterable[Sequence[Sequence[object]]]) -> int:
    """Rows that come in parts, of which one at a time is in memory; `columns` have SQL types. How many there were.

    What is needed on the way lies beside `path` and is gone afterwards.
    """
    scratch, rows = path.with_suffix(".db"), 0
    names = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    try:
        with duckdb.connect(str(scratch), config={"threads": 1, "memory_limit": "400MB"}) as database:
            database.execute(f"CREATE TABLE exported ({names})")
            for part in parts:
                _append(database, path.with_suffix(".csv"), part)
                rows += len(part)
            database.execute(f"COPY exported TO '{_quoted(path)}' (FORMAT parquet, COMPRESSION zstd)")
    except duckdb.IOException as error:
        raise BadInput(str(path), f"can't be written: {error}") from None
    scratch.unlink()
    return rows


def _append(database: duckdb.DuckDBPyConnection, scratch: Path, rows: Sequence[Sequence[object]]) -> None:
    with scratch.open("w", newline="", encoding="utf-8") as file:
        file.writelines(",".join(map(_cell, row)) + "\n" for row in rows)
    database.execute(f"COPY exported FROM '{glob.escape(_quoted(scratch))}' ({_CSV})")
    scratch.unlink()


_CSV = (
    r"""FORMAT csv, AUTO_DETECT false, HEADER false, NEW_LINE '\n', DELIM ',', QUOTE '"', ESCAPE '"', """
    r"NULLSTR '\N', ALLOW_QUOTED_NULLS false, PARALLEL false"
)


def _cell(value: object) -> str:
    """All text is quoted, so that none of it can be taken for what is missing."""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return r"\N" if value is None else str(value)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


_TYPES: dict[type, str] = {str: "VARCHAR", float: "DOUBLE", int: "BIGINT"}
