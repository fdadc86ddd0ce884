"""Curves from the files that people have, and what is said of files that can't be read."""

import math
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.history.curves import read_curves
from forebay.model.curve import Curve
from forebay.model.errors import BadInput

FORGE = Path(__file__).parents[2].parent / "shared/data/forge/marenostrum4.csv"
FORGE_HEADER = (
    "forwarders;clients;processes;layout;spatiality;odirect;stonewall;request;total;operation;time;transfered;bandwidth"
)
MIB = 2**20


def written(folder: Path, *lines: str, name: str = "curves.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def forge_row(forwarders: object = 4, bandwidth: object = 100.0, **keys: object) -> str:
    row = {"clients": 32, "processes": 1536, "layout": 0, "spatiality": 0, "odirect": 1, "request": 4096} | keys
    return (
        f"{forwarders};{row['clients']};{row['processes']};{row['layout']};{row['spatiality']};{row['odirect']};60;"
        f"{row['request']};131072;write;62.0;128068.0;{bandwidth}"
    )


def test_a_plain_file_gives_a_curve_for_each_application(tmp_path: Path) -> None:
    path = written(tmp_path, "application,n,bandwidth", "a,1,100", "b,2,5e3", "a,4,250.5")
    curves = read_curves(path)
    assert curves.by_name == {"a": Curve.of({1: 100.0, 4: 250.5}), "b": Curve.of({2: 5000.0})}
    assert curves.origin == "2 measured curves from curves.csv"


def test_columns_may_come_in_any_order_with_others_between_them(tmp_path: Path) -> None:
    path = written(tmp_path, "Bandwidth, day ,N,application", "100,monday,1,a")
    assert read_curves(path).by_name == {"a": Curve.of({1: 100.0})}


def test_semicolons_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    path.write_bytes("\ufeffapplication;n;bandwidth\r\nété;1;100\r\n\r\n".encode())
    assert read_curves(path).by_name == {"été": Curve.of({1: 100.0})}


def test_repetitions_count_by_their_median(tmp_path: Path) -> None:
    path = written(tmp_path, "application,n,bandwidth", "a,1,9", "a,1,1", "a,1,2", "a,2,10", "a,2,20")
    assert read_curves(path).by_name["a"] == Curve.of({1: 2.0, 2: 15.0})


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5), st.floats(1, 1e12)), min_size=1, max_size=30))
def test_every_point_is_the_median_of_what_was_measured_there(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int, float]]
) -> None:
    lines = [f"{name},{n},{bandwidth!r}" for name, n, bandwidth in rows]
    curves = read_curves(written(tmp_path_factory.mktemp("c"), "application,n,bandwidth", *lines)).by_name
    assert set(curves) == {name for name, _, _ in rows}
    for name, curve in curves.items():
        assert set(curve.counts) == {n for other, n, _ in rows if other == name}
        for n in curve.counts:
            assert curve.at(n) == statistics.median(b for other, m, b in rows if (other, m) == (name, n))


def test_a_forge_file_gives_a_curve_for_each_scenario_in_bytes_per_second(tmp_path: Path) -> None:
    path = written(tmp_path, FORGE_HEADER, forge_row(4, 200), forge_row(1, 50), forge_row(1, 5, layout=1, odirect=0))
    curves = read_curves(path)
    assert curves.by_name == {
        "1536p/32c/per-process/contiguous/4096KiB/direct": Curve.of({1: 50.0 * MIB, 4: 200.0 * MIB}),
        "1536p/32c/shared/contiguous/4096KiB/buffered": Curve.of({1: 5.0 * MIB}),
    }
    assert curves.origin == "2 measured (FORGE) curves from curves.csv"


def test_forge_runs_without_forwarding_are_no_points(tmp_path: Path) -> None:
    path = written(tmp_path, FORGE_HEADER, forge_row(0, 900), forge_row(2, 50))
    assert [c.counts for c in read_curves(path).by_name.values()] == [(2,)]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("a,1,0", "bandwidth must be positive and finite, not 0"),
        ("a,1,-5", "bandwidth must be positive and finite, not -5"),
        ("a,1,nan", "bandwidth must be positive and finite, not nan"),
        ("a,1,inf", "bandwidth must be positive and finite, not inf"),
        ("a,1,fast", "bandwidth must be a number, not 'fast'"),
        ("a,1,", "bandwidth must be a number, not ''"),
        ("a,one,5", "n must be a number, not 'one'"),
        ("a,0,5", "n must be a whole number from 1, not 0"),
        ("a,-2,5", "n must be a whole number from 1, not -2"),
        ("a,1.5,5", "n must be a whole number from 1, not 1.5"),
        ("a,nan,5", "n must be a whole number from 1, not nan"),
        ("a,inf,5", "n must be a whole number from 1, not inf"),
        ("a,1", "has 2 values for 3 columns"),
        ("a,1,5,6", "has 4 values for 3 columns"),
    ],
)
def test_a_bad_row_of_a_plain_file_is_named_by_file_and_line(tmp_path: Path, row: str, reason: str) -> None:
    path = written(tmp_path, "application,n,bandwidth", "good,1,100", "", row)
    with pytest.raises(BadInput) as raised:
        read_curves(path)
    assert (raised.value.where, raised.value.reason) == (f"{path}:4", reason)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (forge_row(4, 0), "bandwidth must be positive and finite, not 0"),
        (forge_row(4, "nan"), "bandwidth must be positive and finite, not nan"),
        (forge_row(4, "x"), "bandwidth must be a number, not 'x'"),
        (forge_row("x", 1), "forwarders must be a number, not 'x'"),
        (forge_row(4, 1, layout="x"), "layout must be a number, not 'x'"),
        ("4;32", "has 2 values for 13 columns"),
    ],
)
def test_a_bad_row_of_a_forge_file_is_named_by_file_and_line(tmp_path: Path, row: str, reason: str) -> None:
    path = written(tmp_path, FORGE_HEADER, forge_row(), row)
    with pytest.raises(BadInput) as raised:
        read_curves(path)
    assert (raised.value.where, raised.value.reason) == (f"{path}:3", reason)


@pytest.mark.parametrize("cell", ["nan", "inf", "-1", "1.5"])
def test_a_number_of_forwarders_that_nothing_can_have_is_named_by_file_and_line(tmp_path: Path, cell: str) -> None:
    path = written(tmp_path, FORGE_HEADER, forge_row(), forge_row(cell))
    with pytest.raises(BadInput, match=r"curves\.csv:3: forwarders"):
        read_curves(path)


@pytest.mark.parametrize("cell", ["nan", "inf"])
def test_a_forge_scenario_that_is_no_number_is_named_by_file_and_line(tmp_path: Path, cell: str) -> None:
    path = written(tmp_path, FORGE_HEADER, forge_row(), forge_row(request=cell))
    with pytest.raises(BadInput, match=r"curves\.csv:3: request"):
        read_curves(path)


@pytest.mark.parametrize("header", ["application,n", "", FORGE_HEADER.replace("request;", "")])
def test_missing_columns_are_named_at_the_first_line(tmp_path: Path, header: str) -> None:
    path = written(tmp_path, header, "a,1,5")
    with pytest.raises(BadInput, match="needs the columns application,n,bandwidth") as raised:
        read_curves(path)
    assert raised.value.where == f"{path}:1"


def test_an_empty_file_and_a_file_of_only_a_header_hold_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.touch()
    with pytest.raises(BadInput, match=r"empty\.csv:1: needs the columns"):
        read_curves(empty)
    with pytest.raises(BadInput, match=r"curves\.csv: has a header but no measurements"):
        read_curves(written(tmp_path, "application,n,bandwidth"))


def test_a_file_that_is_not_there_not_text_or_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.csv: no such file or directory"):
        read_curves(tmp_path / "none.csv")
    with pytest.raises(BadInput, match="is a directory"):
        read_curves(tmp_path)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match=r"binary\.csv: is not UTF-8 text"):
        read_curves(binary)


@pytest.mark.skipif(not FORGE.exists(), reason="the FORGE measurements are not on this machine")
def test_the_measurements_of_marenostrum_are_189_curves_on_1_2_4_and_8_forwarders() -> None:
    curves = read_curves(FORGE)
    assert curves.origin == "189 measured (FORGE) curves from marenostrum4.csv"
    assert {curve.counts for curve in curves.by_name.values()} == {(1, 2, 4, 8)}
    assert all(math.isfinite(b) and b > 0 for curve in curves.by_name.values() for b in curve.bandwidths)
