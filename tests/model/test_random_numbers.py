"""Chance: SplitMix64, equally likely, and the same every time."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.model.random_numbers import draw, mix_bits, seed_state
from support.storage import NaiveChance


def test_it_is_splitmix64() -> None:
    # The first outputs of the reference implementation (Vigna 2015) for the seed 1234567.
    golden = 0x9E3779B97F4A7C15
    seed = 1234567 * pow(golden, -1, 2**64)  # the reference adds the constant that `mixed` multiplies by
    outputs = [int(mix_bits(np.uint64((seed + step) % 2**64))) for step in (1, 2, 3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(st.integers(-(2**70), 2**70), st.lists(st.integers(1, 1000), min_size=1, max_size=5))
def test_draws_are_those_of_whole_numbers_without_a_limit(seed: int, below: list[int]) -> None:
    state, naive = seed_state(seed), NaiveChance(seed)
    assert [int(draw(state, n)) for n in below] == [naive.draw(n) for n in below]


@pytest.mark.parametrize("below", [1, 2, 3, 8, 100])
def test_all_numbers_are_equally_likely(below: int) -> None:
    state = seed_state(5)
    times = 2000 * below
    counts = np.bincount([draw(state, below) for _ in range(times)], minlength=below)
    assert counts.size == below
    chi_squared = ((counts - times / below) ** 2 / (times / below)).sum()
    assert chi_squared < below + 5 * np.sqrt(2 * below)


def test_neighbouring_seeds_have_nothing_in_common() -> None:
    firsts = [int(draw(seed_state(seed), 2)) for seed in range(1000)]
    assert 400 < sum(firsts) < 600
    assert 400 < sum(a != b for a, b in pairwise(firsts)) < 600
