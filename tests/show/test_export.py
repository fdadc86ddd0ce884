"""Tables as files."""

import csv
import glob
from pathlib import Path

import duckdb

from forebay.show.export import write_table

ROWS = [{"name": "a,b", "x": 0.1 + 0.2, "n": 3}, {"name": 'say "c"', "x": float("nan"), "n": -1}]


def test_numbers_and_awkward_text_round_trip(tmp_path: Path) -> None:
    as_csv, as_parquet = write_table(ROWS, tmp_path / "t")
    with as_csv.open(newline="") as file:
        read = list(csv.DictReader(file))
    assert float(read[0]["x"]) == 0.1 + 0.2
    assert [r["name"] for r in read] == ["a,b", 'say "c"']
    with duckdb.connect() as database:
        stored = database.read_parquet(str(as_parquet)).fetchall()
    assert stored[0] == ("a,b", 0.1 + 0.2, 3)
    assert stored[1][0] == 'say "c"'


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = (write_table(ROWS * 500, tmp_path / name) for name in ("one", "two"))
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]


def test_a_folder_with_a_star_in_its_name_gets_only_its_own_rows(tmp_path: Path) -> None:
    for name, load in (("oAx", 1.0), ("o*x", 2.0)):
        (tmp_path / name).mkdir()
        write_table([{"load": load}], tmp_path / name / "sets")
    with duckdb.connect() as database:
        assert database.read_parquet(glob.escape(str(tmp_path / "o*x/sets.parquet"))).fetchall() == [(2.0,)]
