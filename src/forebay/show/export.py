"""Tables as files: CSV for everybody, Parquet for those who have many."""

from __future__ import annotations

import csv
import glob
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb


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


_TYPES: dict[type, str] = {str: "VARCHAR", float: "DOUBLE", int: "BIGINT"}
