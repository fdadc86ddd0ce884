"""The four shapes of b(n), and one curve that represents all applications of a shape."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
from numpy.polynomial import Polynomial

from forebay.model.curve import Curve

# How far below its maximum a curve may be and still count as high. A point of a curve is a median over repetitions, so
# the error of that median is the measure. In the 756 points that FORGE measured at MareNostrum, with about five
# repetitions each, the repetitions spread over 0.34 of their median (max - min; their standard deviation is 0.14), and
# the error of the median is 0.086 (bootstrap); each figure is the median over the points. With a tenth, 84 of
# the 189 curves are peak, 83 ascent, 20 descent and 2 neutral; with a fifth, 48, 96, 33 and 12.
TOLERANCE = 0.1


class Shape(StrEnum):
    """The effect of more targets on an application (Bandet et al. 2024, Section II)."""

    ASCENT = "ascent"
    DESCENT = "descent"
    PEAK = "peak"
    NEUTRAL = "neutral"


def classify(curve: Curve, tolerance: float = TOLERANCE) -> Shape:
    """The shape of a curve: it depends on which ends reach its maximum, within `tolerance`.

    The paper does not say how it groups its curves. Only the ends count here: a dip between two high ends is neutral.

    >>> classify(Curve.of({1: 60.0, 2: 100.0, 4: 80.0}))
    <Shape.PEAK: 'peak'>
    """
    high = (1 - tolerance) * max(curve.bandwidths)
    starts_high, ends_high = curve.bandwidths[0] >= high, curve.bandwidths[-1] >= high
    if starts_high:
        return Shape.NEUTRAL if ends_high else Shape.DESCENT
    return Shape.ASCENT if ends_high else Shape.PEAK


def class_curves(curves: Mapping[str, Curve], degree: int = 3) -> dict[Shape, Curve]:
    """One curve for each shape that occurs: a polynomial regression (Bandet et al. 2024, Fig. 11).

    Bandwidths are shares of the maximum: every curve is divided by its own first, as in Fig. 1, so that a fast
    application does not outweigh a slow one. `degree` is lowered for a class with too few distinct counts.

    >>> class_curves({"a": Curve.of({1: 2.0, 2: 4.0}), "b": Curve.of({1: 80.0, 2: 100.0})})[Shape.ASCENT].counts
    (1, 2)
    """
    members: dict[Shape, list[Curve]] = {shape: [] for shape in Shape}
    for curve in curves.values():
        members[classify(curve)].append(curve)
    return {
        shape: _regression(curves_of_shape, degree) for shape, curves_of_shape in members.items() if curves_of_shape
    }


def estimate_by_class(curve: Curve, classes: Mapping[Shape, Curve]) -> Curve:
    """Estimate the curve of an application from its class and one measurement.

    The estimate is the class's curve at the application's counts, scaled to its first point (bytes per second), which
    is b(1) if the curve starts at 1. Between the class's counts it is a straight line, beyond them the last value.

    >>> estimate_by_class(Curve.of({1: 50.0, 4: 60.0}), {Shape.ASCENT: Curve.of({1: 0.25, 2: 0.5, 4: 1.0})}).bandwidths
    (50.0, 200.0)
    """
    shape = classify(curve)
    if shape not in classes:
        raise ValueError(f"no class curve for {shape}; classes with a curve: {', '.join(classes) or 'none'}")
    class_curve = classes[shape]
    shares = np.interp(curve.counts, class_curve.counts, class_curve.bandwidths)
    return Curve(curve.counts, tuple((curve.bandwidths[0] * (shares / shares[0])).tolist()))


def _regression(curves: Sequence[Curve], degree: int) -> Curve:
    """Least squares over the points of all `curves`, evaluated at the counts that any of them measured.

    Other counts are left out: a cubic through the means on 1, 2, 4 and 8 targets overshoots between 4 and 8.
    """
    ns = np.concatenate([curve.counts for curve in curves])
    shares = np.concatenate([np.array(curve.bandwidths) / max(curve.bandwidths) for curve in curves])
    counts = np.unique(ns)
    # In logarithms, so that a doubling weighs as much as a halving and every fitted bandwidth is positive.
    fitted = np.exp(Polynomial.fit(ns, np.log(shares), min(degree, counts.size - 1))(counts))
    return Curve(tuple(counts.tolist()), tuple(fitted.tolist()))
