"""Rows that come in parts become one Parquet file, exactly."""

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.show.export import write_parquet
from support.examples import examples

COLUMNS = {"name": "VARCHAR", "n": "BIGINT", "x": "DOUBLE", "yes": "BOOLEAN"}
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
AWKWARD = st.sampled_from(["", "\\N", "NULL", '"', "a,b", "two\nlines", "a\r\nb", "'", " padded ", "\\", "#"])
ROW = st.tuples(
    st.none() | AWKWARD | TEXT,
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.booleans(),
)


def read(path: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect() as database:
        return database.read_parquet(str(path)).fetchall()


@given(st.lists(st.lists(ROW, min_size=1, max_size=6), max_size=4))
@settings(max_examples=examples(40))
def test_every_value_comes_back_as_it_was(parts: list[list[tuple[Any, ...]]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        rows = write_parquet(path, COLUMNS, parts)
        found = read(path)
        assert [p.name for p in Path(folder).iterdir()] == ["t.parquet"]
    assert rows == len(found)
    assert found == [row for part in parts for row in part]


def test_a_table_without_rows_keeps_its_columns(tmp_path: Path) -> None:
    assert write_parquet(tmp_path / "t.parquet", COLUMNS, []) == 0
    with duckdb.connect() as database:
        assert database.read_parquet(str(tmp_path / "t.parquet")).columns == list(COLUMNS)


def test_infinity_is_a_number(tmp_path: Path) -> None:
    write_parquet(tmp_path / "t.parquet", {"x": "DOUBLE"}, [[(math.inf,), (-math.inf,)]])
    assert read(tmp_path / "t.parquet") == [(math.inf,), (-math.inf,)]


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    parts = [[(f"row {i}", i, i / 7, i % 2 == 0) for i in range(start, start + 500)] for start in (0, 500)]
    for name in ("a.parquet", "b.parquet"):
        write_parquet(tmp_path / name, COLUMNS, parts)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
