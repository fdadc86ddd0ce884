"""The axis of bandwidths."""

import math

from hypothesis import given
from hypothesis import strategies as st

from forebay.show.figures.scales import log_limits

BANDWIDTH = st.floats(1e-3, 1e15)


@given(BANDWIDTH, BANDWIDTH)
def test_all_values_are_inside_and_at_least_two_round_numbers(one: float, other: float) -> None:
    low, high = log_limits(min(one, other), max(one, other))
    assert low < min(one, other) <= max(one, other) < high
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    assert sum(low <= digit * 10.0**power <= high for power in powers for digit in (1, 2, 5)) >= 2
