"""Synthetic bandwidth curves for studies, in place of measured ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from forebay.history.curves import Curves
from forebay.model.curve import Curve
from forebay.model.units import plural
from forebay.profile.curve_shapes import Shape, classify

Kind = Literal["io-nodes", "osts"]

# How many curves the paper's two data sets have (Bandet et al. 2024, Section V-A).
PAPER_COUNTS: Mapping[Kind, int] = MappingProxyType({"io-nodes": 189, "osts": 301})

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class _Family:
    """Curves around one mean curve; several families may make up a class.

    `weight` is the family's part of a set. `exponents` are the mean slopes d log b / d log n
    from each count to the next (1 is linear growth, 0 is flat), and `tilt` is the standard
    deviation of a number added to all of them at once, so that some curves are steeper than
    others throughout. A curve's maximum is log-normal around `peak` (bytes per second) with the
    standard deviation `spread` of its logarithm.
    """

    shape: Shape
    weight: int
    exponents: tuple[float, ...]
    tilt: float
    peak: float
    spread: float


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How a kind of targets behaves: `noise` is the standard deviation of log b at every point."""

    counts: tuple[int, ...]
    noise: float
    families: tuple[_Family, ...]


# Fitted to the 189 FORGE scenarios at MareNostrum 4 (Bez et al. 2020), classified as in `classes`:
# weights, mean slopes, maxima and their spreads are the figures found there. Ascent is two
# populations: 65 scenarios that grow nearly linearly (63 of them write a file per process, around
# 2 GiB/s) and 18 that hardly grow (a shared file). Peak is 72 scenarios with their best on 2 I/O
# nodes and 12 on 4. Only two are neutral, too few to tell a shape from, and are taken as flat.
# Noise and tilt are set by the spread of the steps between counts and the negative correlation of
# neighbouring steps; 0.11 is near the error of a measured point (0.086, see `classes`).
_IO_NODES = _Recipe(
    (1, 2, 4, 8),
    0.11,
    (
        _Family(Shape.ASCENT, 65, (1.24, 0.98, 0.85), 0.16, 2315 * _MIB, 0.85),
        _Family(Shape.ASCENT, 18, (0.35, -0.10, 0.16), 0.05, 176 * _MIB, 0.30),
        _Family(Shape.DESCENT, 20, (-0.07, -0.35, -0.35), 0.06, 107 * _MIB, 0.65),
        _Family(Shape.PEAK, 72, (0.54, -0.38, -0.18), 0.09, 129 * _MIB, 0.45),
        _Family(Shape.PEAK, 12, (0.42, 0.19, -0.38), 0.09, 165 * _MIB, 0.38),
        _Family(Shape.NEUTRAL, 2, (0.0, 0.0, 0.0), 0.05, 148 * _MIB, 0.30),
    ),
)


def _bent(rise: float, knee: int, fall: float) -> tuple[float, ...]:
    """Slopes over 1 to 8 targets: `rise` up to `knee` targets, `fall` after."""
    return (rise,) * (knee - 1) + (fall,) * (8 - knee)


# Assumptions, not measurements: the 301 BeeGFS curves of the paper are not public. What is known
# of them: the same four behaviours on 1 to 8 OSTs (Fig. 2); on that machine more OSTs were better
# (Boito et al., CLUSTER 2022), elsewhere they made little difference (Chowdhury et al., ICPP 2019);
# BestBdw falls behind the stress-aware allocators at a much lower load than with I/O nodes, and
# Static does well (Section VI-C), so the last OSTs must gain little for the stress that they add.
# Hence slopes well below 1 that flatten out, some flat curves and few that fall, chosen so that
# BestBdw and Nsys-Allocator cross at an I/O-load around 0.2 (measured I/O-node curves: 0.85).
# What the paper says of OSTs was put in here: these curves illustrate it and can't confirm it.
# Weights are percentages.
_OSTS = _Recipe(
    tuple(range(1, 9)),
    0.04,
    (
        _Family(Shape.ASCENT, 35, _bent(0.65, 4, 0.45), 0.10, 3000 * _MIB, 0.6),
        _Family(Shape.ASCENT, 30, _bent(0.40, 4, 0.20), 0.08, 1500 * _MIB, 0.6),
        _Family(Shape.NEUTRAL, 15, _bent(0.02, 4, 0.00), 0.03, 800 * _MIB, 0.6),
        _Family(Shape.PEAK, 8, _bent(0.35, 4, -0.40), 0.06, 1000 * _MIB, 0.6),
        _Family(Shape.PEAK, 7, _bent(0.40, 2, -0.25), 0.06, 800 * _MIB, 0.6),
        _Family(Shape.DESCENT, 5, _bent(-0.05, 2, -0.25), 0.06, 500 * _MIB, 0.6),
    ),
)

_RECIPES: Mapping[Kind, _Recipe] = MappingProxyType({"io-nodes": _IO_NODES, "osts": _OSTS})


def synthetic_curves(kind: Kind, count: int, rng: np.random.Generator) -> Curves:
    """`count` curves like those of I/O nodes (1, 2, 4 and 8) or of OSTs (1 to 8), bytes per second.

    The classes' parts of the set are fixed, and only the curves are drawn: of 189 I/O-node curves
    83 are ascent, 84 peak, 20 descent, 2 neutral, as measured; of 301 OST curves 196 are ascent,
    45 peak, 45 neutral, 15 descent, as assumed. Every curve is of the class that its name says.

    >>> synthetic_curves("osts", 301, np.random.default_rng(1)).by_name["peak-007"].counts
    (1, 2, 3, 4, 5, 6, 7, 8)
    """
    if count < 1:
        raise ValueError(f"the number of curves must be at least 1, not {count}")
    recipe = _RECIPES[kind]
    numbers: Counter[Shape] = Counter()
    by_name = {}
    for family, size in zip(recipe.families, _apportioned(count, [f.weight for f in recipe.families]), strict=True):
        for _ in range(size):
            numbers[family.shape] += 1
            by_name[f"{family.shape}-{numbers[family.shape]:03}"] = _draw(recipe, family, rng)
    return Curves(by_name, plural(count, f"synthetic {kind} curve"))


def _draw(recipe: _Recipe, family: _Family, rng: np.random.Generator) -> Curve:
    """One curve of the family's class; what noise turns into another class is drawn anew."""
    gaps = np.diff(np.log(recipe.counts))
    while True:
        slopes = np.array(family.exponents) + rng.normal(0.0, family.tilt)
        logs = np.concatenate(([0.0], np.cumsum(slopes * gaps))) + rng.normal(0.0, recipe.noise, len(recipe.counts))
        peak = family.peak * rng.lognormal(0.0, family.spread)
        curve = Curve(recipe.counts, tuple((peak * np.exp(logs - logs.max())).tolist()))
        if classify(curve) is family.shape:
            return curve


def _apportioned(count: int, weights: Sequence[int]) -> list[int]:
    """`count` divided by `weights` into whole parts, the largest remainders rounded up; ties to the first."""
    total = sum(weights)
    parts = [count * weight // total for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: -(count * weights[i] % total))
    for i in by_remainder[: count - sum(parts)]:
        parts[i] += 1
    return parts
