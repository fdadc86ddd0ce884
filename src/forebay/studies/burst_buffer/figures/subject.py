"""What the figures of a storage study are drawn from, and what several of them draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from forebay.show.figures.looks import INK, STORAGE, Look, looks_of
from forebay.show.figures.sheet import WIDTH
from forebay.show.figures.text import printable
from forebay.show.phrases import MODES
from forebay.show.rows import Floats, finite
from forebay.studies.burst_buffer.results import StorageResults
from forebay.studies.burst_buffer.view import StorageView

SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
_MOST_COLUMNS = 6
_GOLDEN = 0.6180339887  # multiples of it, less their whole parts, are spread evenly however many there are


@dataclass(frozen=True, slots=True)
class StorageSubject:
    """A study's results and its policies' looks."""

    view: StorageView
    looks: Mapping[str, Look]

    @classmethod
    def of(cls, results: StorageResults) -> StorageSubject:
        return cls(StorageView(results), looks_of(results.policies(), STORAGE))


def mode_title(mode: str) -> str:
    return printable(MODES.get(mode, mode))


def some_of(capacities: Sequence[int], wanted: Sequence[int] = ()) -> list[int]:
    """The wanted ones that are there, else all; of very many a few, evenly chosen."""
    shown = [c for c in wanted if c in capacities] or list(capacities)
    if len(shown) <= _MOST_COLUMNS:
        return shown
    return [shown[i] for i in np.linspace(0, len(shown) - 1, _MOST_COLUMNS).round().astype(int)]


def strips(axes: Axes, samples: Mapping[str, Floats], looks: Mapping[str, Look], *, sigma: bool = False) -> None:
    """A dot for each value side by side, a line for their mean and, if wanted, their standard deviation in words."""
    for position, (name, values) in enumerate(samples.items()):
        values = np.sort(finite(values))
        if not values.size:
            continue
        aside = 0.3 * (2 * ((np.arange(values.size) * _GOLDEN) % 1) - 1)
        many = values.size > 200
        dots: dict[str, Any] = {"s": 4 if many else 9, "alpha": 0.2 if many else 0.55, "rasterized": many}
        axes.scatter(position + aside, values, color=looks[name].colour, linewidths=0, zorder=3, **dots)
        axes.hlines(values.mean(), position - 0.38, position + 0.38, color=INK, linewidth=1.3, zorder=4)
        if sigma:
            spread = values.std(ddof=1) if values.size > 1 else 0.0
            where: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 6.5}
            axes.annotate(f"{SIGMA} {spread:.2g}", (position, values[-1]), (0, 3), color=INK, **where)
    axes.set_xlim(-0.6, max(len(samples), 3) - 0.4)
    axes.grid(axis="x", visible=False)


def width_for(columns: int) -> float:
    """Inches: a panel alone is not drawn as wide as the page."""
    return WIDTH if columns > 1 else 0.65 * WIDTH
