"""b(n): measured points, straight lines between them, nothing beyond them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.model.curve import Curve
from support.scaled_curves import scale_curve
from support.strategies import curves


def test_between_measured_points_the_curve_is_a_straight_line() -> None:
    curve = Curve.of({1: 100.0, 2: 150.0, 6: 250.0})
    assert curve.table() == (100.0, 150.0, 175.0, 200.0, 225.0, 250.0)


def test_points_may_come_in_any_order() -> None:
    assert Curve.of({4: 3.0, 1: 1.0, 2: 2.0}) == Curve((1, 2, 4), (1.0, 2.0, 3.0))


def test_the_best_n_is_the_smallest_of_equals() -> None:
    assert Curve.of({1: 5.0, 2: 9.0, 3: 4.0, 4: 9.0}).n_perf == 2


@given(curves())
def test_measured_points_stay_as_measured(curve: Curve) -> None:
    assert tuple(curve.at(n) for n in curve.counts) == curve.bandwidths
    assert len(curve.table()) == curve.last - curve.first + 1


@given(curves())
def test_no_point_leaves_the_range_of_its_measured_neighbours(curve: Curve) -> None:
    for n in range(curve.first, curve.last + 1):
        below = max(m for m in curve.counts if m <= n)
        above = min(m for m in curve.counts if m >= n)
        ends = sorted((curve.at(below), curve.at(above)))
        assert ends[0] * (1 - 1e-12) <= curve.at(n) <= ends[1] * (1 + 1e-12)


@given(curves())
def test_no_n_is_better_than_the_best_one(curve: Curve) -> None:
    assert curve.at(curve.n_perf) == max(curve.bandwidths)
    assert max(curve.table()) <= curve.at(curve.n_perf) * (1 + 1e-12)


@given(curves(), st.integers(-30, 30))
def test_a_scaled_curve_has_the_same_shape(curve: Curve, exponent: int) -> None:
    scaled = scale_curve(curve, 2.0**exponent)
    assert scaled.table() == tuple(b * 2.0**exponent for b in curve.table())
    assert scaled.n_perf == curve.n_perf


@given(curves())
def test_outside_its_points_a_curve_is_not_defined(curve: Curve) -> None:
    for n in (curve.first - 1, curve.last + 1):
        with pytest.raises(ValueError, match=f"defined for {curve.first} to {curve.last} targets, not for {n}"):
            curve.at(n)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, math.nan, math.inf])
def test_a_bandwidth_that_no_target_has_is_refused(bandwidth: float) -> None:
    with pytest.raises(ValueError, match="bandwidth on 2 targets must be positive and finite"):
        Curve((1, 2), (1.0, bandwidth))


@pytest.mark.parametrize("counts", [(0, 1), (-1, 1), (2, 1), (1, 1)])
def test_counts_ascend_from_one_or_more(counts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must ascend from 1 or more"):
        Curve(counts, (1.0, 1.0))


def test_a_curve_needs_a_point_and_as_many_bandwidths_as_counts() -> None:
    with pytest.raises(ValueError, match="at least one measured point"):
        Curve((), ())
    with pytest.raises(ValueError):
        Curve((1, 2), (1.0,))
