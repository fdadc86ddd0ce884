"""Random numbers for kernels, from a state that the caller keeps: the same seed gives the same draws everywhere."""

import numpy as np

from forebay.model.kernels import Array, kernel


def seed_state(seed: int) -> Array:
    """A state to draw from."""
    return np.array([mix_bits(np.uint64(seed % 2**64))], dtype=np.uint64)


@kernel
def mix_bits(number: Array) -> Array:
    """Map a 64-bit number to another that looks random (the finaliser of SplitMix64: Steele, Lea and Flood 2014)."""
    z = number * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def draw(state: Array, below: int) -> Array:
    """A whole number from 0 up to, but not including, `below`; all equally likely to within 2**-32."""
    state[0] += np.uint64(1)
    # The high half times `below`, to avoid a division.
    return np.int64(((mix_bits(state[0]) >> np.uint64(32)) * np.uint64(below)) >> np.uint64(32))
