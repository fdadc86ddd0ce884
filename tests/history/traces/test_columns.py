"""The values that all readers meet."""

import pytest

from forebay.history.traces.columns import check_id, describe_left_out, id_column, parse_bytes, parse_time


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01 00:00:00", 0.0),
        ("2020-01-01 02:16:18", 1577844978.0),
        ("2020-01-01T02:16:18Z", 1577844978.0),
        ("2020-01-01 03:16:18+01:00", 1577844978.0),
        ("2020-01-01 02:16:18.5", 1577844978.5),
        ("2020-02-29", 1582934400.0),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(text: str, expected: float) -> None:
    assert parse_time(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "1577931378", "20200101", "2020-02-30 00:00:00", "2020-01-01 25:00:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a time like '2020-01-31 23:59:59', not"):
        parse_time(text)


def test_sizes_are_whole_numbers_of_bytes() -> None:
    assert [parse_bytes(text) for text in ("0", "12", "12.0", "1e9", "1000000000000000000")] == [
        0,
        12,
        12,
        10**9,
        10**18,
    ]


@pytest.mark.parametrize("text", ["", "1.5", "nan", "inf", "much", "0x10", "1 GB", "²", "9" * 5000])
def test_what_is_no_whole_number_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="must be a whole number of bytes, not"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["-1", "1000000000000000001", "1e300"])
def test_sizes_are_neither_negative_nor_beyond_an_exabyte(text: str) -> None:
    with pytest.raises(ValueError, match="must be from 0 to 1,000,000,000,000,000,000 bytes, not"):
        parse_bytes(text)


def test_ids_are_numbers_where_all_are() -> None:
    assert id_column(["3", "-1"]).dtype == "int64"
    assert id_column(["3", "03"]).tolist() == ["3", "03"]
    assert id_column(["9" * 18]).tolist() == [10**18 - 1]
    assert id_column(["9" * 19]).tolist() == ["9" * 19]
    assert id_column([]).size == 0


@pytest.mark.parametrize("text", ["", "x" * 201])
def test_ids_are_neither_empty_nor_endless(text: str) -> None:
    with pytest.raises(ValueError, match="must have from 1 to 200 characters"):
        check_id(text)


def test_nothing_left_out_is_not_mentioned() -> None:
    assert describe_left_out({("job", "without bytes"): 0}) == ""
