"""Beyond the paper: how soon, how safely and how well, when equal runs differ by 5, 20 or 40 %."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from forebay.model.units import plural
from forebay.show.figures.looks import Look, key, looks_of
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.studies.striping.figures.looks import LOOKS
from forebay.studies.striping.results import NOBODY, OTHERS, policies_of, select
from forebay.studies.striping.tables import first_near

Rows = NDArray[np.void]

_HISTORY = {OTHERS: "runs of others known", NOBODY: "nothing known"}


def noise_figure(rows: Rows, last: int) -> Sketch:
    """A row of panels for each history: throughput, the worst run, when and how often the best is near.

    `last` is how many runs there were.
    """
    looks = looks_of(policies_of(rows), LOOKS)
    histories = [h for h in _HISTORY if (rows["history"] == h).any()]
    figure, grid = panels(4 * len(histories), columns=4, height=1.9)
    for row, history in enumerate(histories):
        own = select(rows, history=history)
        total, worst, first, near = grid[4 * row : 4 * row + 4]
        _lines(total, own, looks, 100 * own["total"])
        total.set_ylabel(f"{_HISTORY[history]}\nthroughput (% of best)")
        _lines(worst, own, looks, 100 * (1 - own["worst"]), tail=True)
        worst.set_ylabel("worst regression (%)\nmean, and thin: largest")
        _lines(first, own, looks, first_near(own, last))
        first.set_ylabel("first run near best")
        _lines(near, own, looks, 100 * own["settled"])
        near.set_ylabel("later runs near best (%)")
        for axes, top in ((total, 104), (near, 104), (first, 1.08 * last), (worst, None)):
            axes.set_ylim(0, top)
    figure.supxlabel("variation of equal runs (%)", fontsize=8)
    legend_above(figure, [key(name, look) for name, look in looks.items()])
    cases = len(np.unique(rows[["machine", "application", "processes"]]))
    return Sketch(
        name="figure-noise",
        title="What noise does to each policy",
        caption=f"Means over {plural(cases, 'case')} (application, machine, processes) and "
        f"{plural(int(rows['seed'].max()) + 1, 'seed')}, first {last} runs; above, the policies see runs of others, "
        "below none. From left to right: throughput as a share of what the best layout gives; how far the worst run "
        "lies below the best layout used before it or the default (thin lines: the 99th percentile); the first run "
        f"with a layout within 5 % of the best ({last + 1} where none is); the share of such runs in the second half. "
        "All are counted without the noise that the policies see.",
        figure=figure,
    )


def _lines(axes: Axes, rows: Rows, looks: dict[str, Look], values: NDArray[np.float64], *, tail: bool = False) -> None:
    levels = np.unique(rows["noise"])
    for name, look in looks.items():
        own = [values[(rows["policy"] == name) & (rows["noise"] == level)] for level in levels]
        axes.plot(100 * levels, [v.mean() for v in own], **look.style())
        if tail:
            style = look.style() | {"linewidth": 0.7, "marker": "none", "alpha": 0.7}
            axes.plot(100 * levels, [np.percentile(v, 99) for v in own], **style)
    axes.set_xticks(100 * levels)
    axes.margins(x=0.12)
