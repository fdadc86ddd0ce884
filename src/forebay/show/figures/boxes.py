"""Distributions over the sets, as a box for each policy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from forebay.show.figures.looks import INK, Look
from forebay.show.rows import Floats, finite

BOXES = (
    "Boxes hold the middle half of the sets, whiskers reach from the 10th to the 90th percentile; "
    "a line marks the median, a marker the mean."
)


def boxes(axes: Axes, samples: Mapping[str, Floats], looks: Mapping[str, Look]) -> None:
    """A box for each name that has samples, in the look of its policy."""
    for position, (name, values) in enumerate(samples.items()):
        values = finite(values)
        if values.size:
            _box(axes, position, values, looks[name])
    middle, half = (len(samples) - 1) / 2, max(len(samples), 3) / 2 + 0.1
    axes.set_xlim(middle - half, middle + half)
    axes.set_xticks([])
    axes.grid(axis="x", visible=False)


# By hand, since `Axes.boxplot` has matplotlib look for a screen (it imports pyplot).
def _box(axes: Axes, position: int, values: Floats, look: Look) -> None:
    p10, p25, p50, p75, p90 = np.percentile(values, (10, 25, 50, 75, 90)).tolist()
    axes.vlines([position] * 2, [p10, p75], [p25, p90], color=look.colour, linewidth=look.width, zorder=2)
    axes.hlines([p10, p90], position - 0.14, position + 0.14, color=look.colour, linewidth=look.width, zorder=2)
    axes.bar(position, p75 - p25, 0.56, p25, color=(look.colour, 0.4), edgecolor=look.colour, linewidth=0.8, zorder=2)
    axes.hlines(p50, position - 0.28, position + 0.28, color=INK, linewidth=1.2, zorder=4)
    axes.plot([position], [values.mean()], **look.style() | {"markersize": 5.5, "linestyle": "none", "zorder": 5})
