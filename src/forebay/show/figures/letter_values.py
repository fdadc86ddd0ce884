"""Letter-value plots: nested boxes that show the tails of large samples, after Hofmann, Wickham and Kafadar 2017."""

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.axes import Axes

from forebay.model.arrays import Floats
from forebay.show.figures.looks import INK, Look, centre_groups
from forebay.show.rows import finite_values

LETTER_VALUES = (
    "The widest box holds the middle half of the jobs, each narrower one half of the rest on both sides; dots are the "
    "jobs beyond. A white line marks the median, a diamond the mean."
)
_FEWEST = 8  # values beyond the last box
_WIDEST = 0.8


def letter_boxes(values: Floats) -> Iterator[tuple[float, float]]:
    """Yield the ends of each box, from the middle half of the values outwards.

    >>> [(round(low), round(high)) for low, high in letter_boxes(np.arange(101.0))]
    [(25, 75), (12, 88)]
    """
    share = 0.25
    while share * values.size >= _FEWEST:
        low, high = np.quantile(values, (share, 1 - share)).tolist()
        yield low, high
        share /= 2


def letter_values(axes: Axes, samples: Mapping[str, Floats], looks: Mapping[str, Look]) -> None:
    """Draw the boxes of each name in the look of its policy."""
    for position, (name, sample) in enumerate(samples.items()):
        values = finite_values(sample)
        if not values.size:
            continue
        ends = list(letter_boxes(values)) or [tuple(np.quantile(values, (0.25, 0.75)).tolist())]
        for depth, (low, high) in reversed(list(enumerate(ends))):
            width = _WIDEST * (1 - depth / (len(ends) + 1))
            colour = (looks[name].colour, max(0.12, 0.95 - 0.8 * depth / len(ends)))
            axes.bar(position, high - low, width, low, color=colour, linewidth=0, zorder=2)
        low, high = ends[-1]
        beyond = values[(values < low) | (values > high)]
        axes.plot(np.full(beyond.size, position), beyond, ".", color=looks[name].colour, markersize=1.5, zorder=3)
        half = _WIDEST / 2
        axes.hlines(np.median(values), position - half, position + half, color="white", linewidth=1.4, zorder=4)
        axes.plot([position], [values.mean()], "D", color="white", markersize=4.2, markeredgecolor=INK, zorder=5)
    centre_groups(axes, len(samples), 3)
