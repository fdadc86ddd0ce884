"""The axis of bandwidths, and other logarithmic axes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from forebay.show.figures.scales import log_axis, log_limits

BANDWIDTH = st.floats(1e-3, 1e15)


@given(BANDWIDTH, BANDWIDTH)
def test_all_values_are_inside_and_at_least_two_round_numbers(one: float, other: float) -> None:
    low, high = log_limits(min(one, other), max(one, other))
    assert low < min(one, other) <= max(one, other) < high
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    assert sum(low <= digit * 10.0**power <= high for power in powers for digit in (1, 2, 5)) >= 2


@pytest.mark.parametrize("values", [(0.6, 1.3), (3.0, 6.0), (1.0, 100.0)])
def test_a_logarithmic_axis_has_at_least_two_numbers(values: tuple[float, float]) -> None:
    axes = Figure(figsize=(4.0, 2.0)).subplots()
    axes.plot((1, 2), values)
    log_axis(axes)
    low, high = axes.get_ylim()
    assert sum(low <= tick <= high for tick in axes.get_yticks()) >= 2
