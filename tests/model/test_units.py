"""Every unit is read once, at the edge: bytes, seconds and bytes per second come out."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.model.units import format_bandwidth, format_size, parse_bandwidth, parse_duration, parse_size

DECIMAL = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15}
BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
numbers = st.floats(0, 1e6)


@pytest.mark.parametrize(("unit", "factor"), [*DECIMAL.items(), *BINARY.items(), ("B", 1), ("", 1)])
def test_a_size_is_its_number_times_its_unit(unit: str, factor: float) -> None:
    assert parse_size(f"1.5 {unit}") == 1.5 * factor
    assert parse_size(f"3{unit}") == 3 * factor


def test_gb_and_gib_differ_and_so_do_gbit_and_gb() -> None:
    assert parse_size("1 GiB") - parse_size("1 GB") == 73_741_824
    assert parse_size("8 Gbit") == parse_size("1 GB")
    assert parse_bandwidth("8 Gibit/s") == parse_bandwidth("1 GiB/s")


@given(numbers, st.sampled_from([*DECIMAL, *BINARY]))
def test_bits_are_an_eighth_of_bytes(number: float, unit: str) -> None:
    assert parse_size(f"{number!r} {unit[:-1]}bit") == pytest.approx(parse_size(f"{number!r} {unit}") / 8)


@given(numbers, st.sampled_from([*DECIMAL, *BINARY]))
def test_a_bandwidth_is_a_size_per_second(number: float, unit: str) -> None:
    assert parse_bandwidth(f"{number!r} {unit}/s") == parse_size(f"{number!r} {unit}")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_bare_number_has_the_unit_already(number: float) -> None:
    for parse in (parse_size, parse_bandwidth, parse_duration):
        assert parse(number) == parse(repr(number)) == number


@pytest.mark.parametrize(
    ("text", "seconds"), [("1.5 h", 5400), ("2d", 172_800), ("3 min", 180), ("10m", 600), ("5 ms", 0.005)]
)
def test_a_duration_is_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "GB", "1 2 GB", "one GB", "1 GB GB", "nan", "inf", "1,5 GB", "0x10"])
def test_what_is_no_number_with_a_unit_is_refused(text: str) -> None:
    for parse in (parse_size, parse_bandwidth, parse_duration):
        with pytest.raises(ValueError, match="is not a number with a unit"):
            parse(text)


@pytest.mark.parametrize("text", ["1 G", "1 Gb", "1 XB", "1 s", "1 GB/s", "1 Gbps", "1 iB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_size(text)


@pytest.mark.parametrize("text", ["1 GB", "1 Gbit", "1 GB/h", "1 Gbps", "1 s/s", "1 /s/s"])
def test_what_is_no_bandwidth_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_bandwidth(text)


@pytest.mark.parametrize("text", ["1 GB", "1 month", "1 M", "1 /s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; units are s, ms, us, min, m, h, d"):
        parse_duration(text)


@given(st.floats(1e3, 1e17))
def test_a_formatted_size_or_bandwidth_reads_back_to_three_digits(value: float) -> None:
    assert parse_size(format_size(value)) == pytest.approx(value, rel=0.00501)
    assert parse_bandwidth(format_bandwidth(value)) == pytest.approx(value, rel=0.00501)


@given(st.integers(0, 999))
def test_a_size_below_a_kilobyte_is_printed_in_whole_bytes(value: int) -> None:
    assert format_size(value) == f"{value} B"


def test_nothing_and_the_infinite_can_be_printed() -> None:
    assert (format_size(0), format_bandwidth(math.inf), format_size(-2e9)) == ("0 B", "inf B/s", "-2.00 GB")
