"""A made-up Theta 2020: the figures that the published results give away, at any seed and length."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from forebay.model.space_requests import Requests
from forebay.profile.synthetic_theta_2020 import FIRST_START, REQUESTS, SPAN, theta_2020

GB = 10**9
# Over how many GB up to how many: requests, whole GB, and seconds (weighted by size but for the first).
CLASSES = {
    (0, 200): (23_128, 87_486, 3_350),
    (200, 1_000): (419, 217_456, 11_507),
    (1_000, 2_000): (237, 357_767, 21_546),
    (2_000, 4_000): (166, 368_689, 2_145),
    (4_000, 8_000): (6, 35_473, 15_370),
    (8_000, 10**6): (45, 563_060, 593),
}
SEEDS = range(6)
COLUMNS = ("ids", "submitted", "start", "duration", "bytes", "volume")


@pytest.fixture(scope="module")
def years() -> list[Requests]:
    return [theta_2020(np.random.default_rng(seed)) for seed in SEEDS]


def whole(requests: Requests) -> NDArray[np.int64]:
    return -(-requests.bytes // GB)


def of_class(requests: Requests, bounds: tuple[int, int]) -> NDArray[np.bool_]:
    return (requests.bytes > bounds[0] * GB) & (requests.bytes <= bounds[1] * GB)


def most_at_once(requests: Requests, amounts: NDArray[np.int64]) -> int:
    times = np.concatenate((requests.start, requests.start + requests.duration))
    changes = np.concatenate((amounts, -amounts))
    return int(np.cumsum(changes[np.lexsort((changes, times))]).max())


@pytest.mark.parametrize("bounds", CLASSES)
def test_every_class_has_its_requests_gigabytes_and_durations(years: list[Requests], bounds: tuple[int, int]) -> None:
    count, gigabytes, seconds = CLASSES[bounds]
    for year in years:
        some = of_class(year, bounds)
        assert some.sum() == count
        assert whole(year)[some].sum() == gigabytes
        weights = None if bounds == (0, 200) else year.bytes[some]
        assert np.average(year.duration[some], weights=weights) == pytest.approx(seconds, rel=0.01)


def test_the_totals_are_those_of_the_year(years: list[Requests]) -> None:
    for year in years:
        split = year.bytes[year.bytes > 200 * GB]
        assert len(year) == REQUESTS
        assert whole(year).sum() == 1_629_931
        assert year.bytes.sum() / GB == pytest.approx(1_607_839, abs=1)
        assert (-(-split // (200 * GB))).sum() == pytest.approx(8_032, abs=3)
        assert year.duration[year.bytes > 200 * GB].sum() == pytest.approx(13_770_130, rel=0.02)
        assert year.duration.sum() == pytest.approx(91.24e6, rel=0.01)


def test_the_year_begins_and_ends_when_it_did_and_nobody_holds_space_for_a_day(years: list[Requests]) -> None:
    for year in years:
        assert year.start.min() == FIRST_START == 1_577_931_378
        assert (year.start + year.duration).max() == FIRST_START + SPAN == 1_609_446_938
        assert 0 < year.duration.min() <= year.duration.max() < 86_400
        assert all((column == np.floor(column)).all() for column in (year.submitted, year.start, year.duration))


def test_no_more_is_needed_at_once_than_in_the_year(years: list[Requests]) -> None:
    for year in years:
        assert most_at_once(year, whole(year)) == pytest.approx(29_178, rel=0.04)
        assert most_at_once(year, np.ones(len(year), np.int64)) == pytest.approx(183, abs=12)


def test_requests_come_in_the_order_of_submission_which_is_before_their_start(years: list[Requests]) -> None:
    for year in years:
        assert (np.diff(year.submitted) >= 0).all()
        assert (year.submitted <= year.start).all()
        assert (np.diff(year.start) < 0).sum() > REQUESTS / 4  # many start before others that asked earlier


def test_the_same_seed_draws_the_same_and_another_seed_something_else(years: list[Requests]) -> None:
    again = theta_2020(np.random.default_rng(SEEDS[0]))
    for column in COLUMNS:
        assert getattr(again, column).tobytes() == getattr(years[0], column).tobytes()
    assert all(years[0].bytes.tobytes() != other.bytes.tobytes() for other in years[1:])


@pytest.mark.parametrize("count", [1_000, 100_000])
def test_another_length_has_the_same_mix_and_rate(count: int) -> None:
    drawn = theta_2020(np.random.default_rng(3), requests=count)
    scale = count / REQUESTS
    assert len(drawn) == count
    assert (drawn.start + drawn.duration).max() - drawn.start.min() == round(SPAN * scale)
    assert (drawn.submitted <= drawn.start).all()
    for bounds, (requests, gigabytes, seconds) in CLASSES.items():
        some = of_class(drawn, bounds)
        assert abs(some.sum() - requests * scale) <= 1
        if some.any():
            assert whole(drawn)[some].mean() == pytest.approx(gigabytes / requests, rel=0.01)
            weights = None if bounds == (0, 200) else drawn.bytes[some]
            assert np.average(drawn.duration[some], weights=weights) == pytest.approx(seconds, rel=0.03)


@pytest.mark.parametrize("count", [1, 2, 7, 60, 333])
def test_even_a_handful_can_be_drawn(count: int) -> None:
    drawn = theta_2020(np.random.default_rng(5), requests=count)
    assert len(drawn) == count
    assert (drawn.bytes > 0).all()
    assert (drawn.duration > 0).all()


def test_no_requests_are_no_trace() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        theta_2020(np.random.default_rng(1), requests=0)
