"""Draws synthetic bandwidth curves for studies; `synthetic_curves.toml` explains their parameters."""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from forebay.history.curves import Curves
from forebay.model.curve import Curve
from forebay.model.units import plural
from forebay.profile.curve_shapes import Shape, classify

Kind = Literal["io-nodes", "osts"]

# How many curves the paper's two data sets have (Bandet et al. 2024, Section V-A).
PAPER_COUNTS: Mapping[Kind, int] = MappingProxyType({"io-nodes": 189, "osts": 301})

_MIB = 2**20


def synthetic_curves(kind: Kind, count: int, rng: np.random.Generator) -> Curves:
    """`count` curves like those of I/O nodes (1, 2, 4 and 8) or of OSTs (1 to 8), bytes per second.

    The share of each class is fixed, and only the curves are drawn: of 189 I/O-node curves, 83 are ascent, 84 peak, 20
    descent and 2 neutral, as measured; of 301 OST curves, 196 are ascent, 45 peak, 45 neutral and 15 descent, as
    assumed. The name of a curve starts with its class.

    >>> synthetic_curves("osts", 301, np.random.default_rng(1)).by_name["peak-007"].counts
    (1, 2, 3, 4, 5, 6, 7, 8)
    """
    if count < 1:
        raise ValueError(f"the number of curves must be at least 1, not {count}")
    recipe = tomllib.loads((files("forebay.profile") / "synthetic_curves.toml").read_text(encoding="utf-8"))[kind]
    families = recipe["families"]
    numbers: Counter[str] = Counter()
    by_name = {}
    for family, size in zip(families, apportion(count, [f["weight"] for f in families]), strict=True):
        shape = family["shape"]
        for _ in range(size):
            numbers[shape] += 1
            by_name[f"{shape}-{numbers[shape]:03}"] = _draw(family, tuple(recipe["counts"]), recipe["noise"], rng)
    return Curves(by_name, plural(count, f"synthetic {kind} curve"))


def _draw(family: Mapping[str, Any], counts: tuple[int, ...], noise: float, rng: np.random.Generator) -> Curve:
    """Draw a curve of the family's class; draw again if noise turns it into another class."""
    gaps = np.diff(np.log(counts))
    while True:
        slopes = np.array(family["exponents"]) + rng.normal(0.0, family["tilt"])
        logs = np.concatenate(([0.0], np.cumsum(slopes * gaps))) + rng.normal(0.0, noise, len(counts))
        peak = family["peak"] * _MIB * rng.lognormal(0.0, family["spread"])
        curve = Curve(counts, tuple((peak * np.exp(logs - logs.max())).tolist()))
        if classify(curve) is Shape(family["shape"]):
            return curve


def apportion(count: int, weights: Sequence[int]) -> list[int]:
    """Divide `count` by `weights` into whole parts: the largest remainders are rounded up, the first of equals."""
    total = sum(weights)
    parts = [count * weight // total for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: -(count * weights[i] % total))
    for i in by_remainder[: count - sum(parts)]:
        parts[i] += 1
    return parts
