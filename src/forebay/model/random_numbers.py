"""Chance from a number that the caller keeps, for kernels: the same seed, the same draws, on every machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.model.kernels import kernel


def seed_state(seed: int) -> Any:
    """A state to draw from."""
    return np.array([mix_bits(np.uint64(seed % 2**64))], dtype=np.uint64)


@kernel
def mix_bits(number: Any) -> Any:
    """Another 64-bit number for each, as if at random (the finaliser of SplitMix64: Steele, Lea and Flood 2014)."""
    z = number * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def draw(state: Any, below: int) -> Any:
    """A whole number from 0 up to, but not including, `below`; all equally likely to within 2**-32."""
    state[0] += np.uint64(1)
    # The high half times `below`, to avoid a division.
    return np.int64(((mix_bits(state[0]) >> np.uint64(32)) * np.uint64(below)) >> np.uint64(32))
