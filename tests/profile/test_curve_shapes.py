"""Shapes of curves, class curves, and what an application looks like by its class alone."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.history.curves import read_curves
from forebay.model.curve import Curve
from forebay.profile.curve_shapes import Shape, class_curves, classify, estimate_by_class
from support.scaled_curves import scale_curve

FORGE = Path(__file__).parents[2].parent / "shared/data/forge/marenostrum4.csv"

curves = st.dictionaries(st.integers(1, 64), st.floats(1e3, 1e12), min_size=1, max_size=8).map(Curve.of)
sets = st.lists(curves, min_size=1, max_size=12).map(lambda drawn: {str(i): c for i, c in enumerate(drawn)})


@pytest.mark.parametrize(
    ("bandwidths", "shape"),
    [
        ((10, 20, 40, 80), Shape.ASCENT),
        ((80, 40, 20, 10), Shape.DESCENT),
        ((50, 100, 80, 60), Shape.PEAK),
        ((95, 100, 97, 92), Shape.NEUTRAL),
        ((100, 50, 50, 100), Shape.NEUTRAL),
        ((90, 100, 100, 90), Shape.NEUTRAL),
        ((89, 100, 100, 90), Shape.ASCENT),
        ((90, 100, 100, 89), Shape.DESCENT),
    ],
)
def test_the_ends_tell_the_shape(bandwidths: tuple[float, ...], shape: Shape) -> None:
    assert classify(Curve((1, 2, 4, 8), bandwidths)) is shape


def test_a_single_point_is_neutral() -> None:
    assert classify(Curve((1,), (5.0,))) is Shape.NEUTRAL


def test_a_wider_tolerance_makes_a_slight_rise_neutral() -> None:
    curve = Curve((1, 8), (85.0, 100.0))
    assert (classify(curve), classify(curve, tolerance=0.2)) == (Shape.ASCENT, Shape.NEUTRAL)


@given(curves, st.integers(-20, 20))
def test_classification_is_free_of_scale(curve: Curve, exponent: int) -> None:
    # Powers of two scale exactly, so that no rounding can move an end over the threshold.
    assert classify(scale_curve(curve, 2.0**exponent)) is classify(curve)


def test_classes_that_do_not_occur_are_absent() -> None:
    assert set(class_curves({"a": Curve((1, 8), (10.0, 80.0))})) == {Shape.ASCENT}
    assert class_curves({}) == {}


def test_a_class_curve_is_the_geometric_mean_of_the_normalised_ones_where_the_counts_fix_the_polynomial() -> None:
    slow, fast = Curve((1, 2, 4, 8), (10.0, 20.0, 30.0, 40.0)), Curve((1, 2, 4, 8), (5e9, 7e9, 8e9, 1e10))
    regression = class_curves({"slow": slow, "fast": fast})[Shape.ASCENT]
    assert regression.counts == (1, 2, 4, 8)
    assert regression.bandwidths == pytest.approx(np.sqrt([0.25 * 0.5, 0.5 * 0.7, 0.75 * 0.8, 1.0]))


def test_with_more_counts_than_coefficients_a_class_curve_smooths_the_logarithms() -> None:
    zigzag = Curve(tuple(range(1, 9)), (10.0, 40.0, 20.0, 60.0, 40.0, 80.0, 60.0, 100.0))
    steps = np.diff(np.log(class_curves({"zigzag": zigzag}, degree=1)[Shape.ASCENT].bandwidths))
    assert steps == pytest.approx(steps[0])


def test_a_class_curve_that_falls_steeply_stays_positive_though_it_may_undershoot() -> None:
    steep = Curve(tuple(range(1, 9)), (100.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0))
    assert 0.0 < min(class_curves({"steep": steep}, degree=2)[Shape.DESCENT].bandwidths) < 0.01


@given(sets)
def test_a_class_curve_has_the_counts_of_its_class_and_is_positive(drawn: dict[str, Curve]) -> None:
    classes = class_curves(drawn)
    assert set(classes) == {classify(curve) for curve in drawn.values()}
    for shape, regression in classes.items():
        measured = {n for curve in drawn.values() if classify(curve) is shape for n in curve.counts}
        assert regression.counts == tuple(sorted(measured))


@given(sets)
def test_seen_as_its_class_an_application_keeps_counts_and_anchor(drawn: dict[str, Curve]) -> None:
    classes = class_curves(drawn)
    for curve in drawn.values():
        seen = estimate_by_class(curve, classes)
        assert seen.counts == curve.counts
        assert seen.bandwidths[0] == curve.bandwidths[0]


def test_a_class_is_straight_between_its_counts_and_level_beyond_them() -> None:
    classes = {Shape.ASCENT: Curve((1, 2, 4), (0.25, 0.5, 1.0))}
    seen = estimate_by_class(Curve((1, 3, 8), (100.0, 110.0, 900.0)), classes)
    assert seen.bandwidths == pytest.approx((100.0, 300.0, 400.0))


def test_applications_of_one_class_look_alike_but_for_their_scale() -> None:
    one, other = Curve((1, 2), (10.0, 20.0)), Curve((1, 2), (30.0, 90.0))
    classes = class_curves({"one": one, "other": other})
    assert estimate_by_class(other, classes).bandwidths == pytest.approx(
        scale_curve(estimate_by_class(one, classes), 3.0).bandwidths
    )


def test_an_unknown_class_is_named() -> None:
    with pytest.raises(ValueError, match="no class curve for descent; classes with a curve: ascent"):
        estimate_by_class(Curve((1, 2), (20.0, 10.0)), {Shape.ASCENT: Curve((1, 2), (0.5, 1.0))})


@pytest.mark.skipif(not FORGE.exists(), reason="the FORGE measurements are not on this machine")
def test_the_measured_curves_fall_into_the_four_classes() -> None:
    measured = read_curves(FORGE).by_name
    shapes = Counter(classify(curve) for curve in measured.values())
    assert shapes == {Shape.PEAK: 84, Shape.ASCENT: 83, Shape.DESCENT: 20, Shape.NEUTRAL: 2}
    assert all(classify(regression) is shape for shape, regression in class_curves(measured).items())
