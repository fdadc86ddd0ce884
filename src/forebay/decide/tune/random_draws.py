"""Random draws: whole numbers, uniform and normal numbers."""

import numpy as np

from forebay.model.kernels import Array, kernel
from forebay.model.random_numbers import draw

_STEPS = 2**32


@kernel
def below(chance: Array, number: int) -> int:
    """Draw a whole number from 0 to `number` - 1."""
    return draw(chance, number)  # type: ignore[no-any-return]


@kernel
def uniform(chance: Array) -> float:
    """Draw a number between 0 and 1, both excluded."""
    return float((draw(chance, _STEPS) + 0.5) / _STEPS)


@kernel
def normal(chance: Array) -> float:
    """Draw from the normal distribution with mean 0 and standard deviation 1 (Box and Muller 1958)."""
    radius = np.sqrt(-2 * np.log(uniform(chance)))
    return float(radius * np.cos(2 * np.pi * uniform(chance)))


@kernel
def largest(values: Array, chance: Array) -> int:
    """Return the index of the largest of `values`; draw among equal ones."""
    ties, place = 0, -1
    for index in range(values.size):
        if place < 0 or values[index] > values[place]:
            ties, place = 1, index
        elif values[index] == values[place]:
            ties += 1
            if below(chance, ties) == 0:
                place = index
    return place
