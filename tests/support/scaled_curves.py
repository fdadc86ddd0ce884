"""Curves of the same shape."""

from forebay.model.curve import Curve


def scale_curve(curve: Curve, factor: float) -> Curve:
    """The same shape with every bandwidth times `factor`."""
    return Curve(curve.counts, tuple(b * factor for b in curve.bandwidths))
