"""Figures 6 and 7: how evenly the placements spread I/O over the targets."""

from __future__ import annotations

from matplotlib.ticker import PercentFormatter

from forebay.show.figures.boxes import BOXES, boxes
from forebay.show.figures.looks import draw_band, key
from forebay.show.figures.series import mean_of_rows
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.show.figures.text import printable
from forebay.studies.io_resources.figures.subject import Subject, load_range, nearest_bin

_SPREAD_ALLOCATORS = ("best-bandwidth", "nsys", "random")
_SPREAD_LOAD = 0.5
_OCCUPANCY_LOADS = (0.2, 0.5, 0.8)


def spread(subject: Subject) -> Sketch | None:
    """Figure 6: I/O-spread of the placements at a medium load, a panel for each of three allocators."""
    results = subject.results
    near = nearest_bin(results, results.select(), _SPREAD_LOAD)
    if near is None:
        return None
    shown = [name for name in _SPREAD_ALLOCATORS if name in subject.allocators] or list(subject.allocators)[:3]
    figure, grid = panels(len(shown), sharey=True)
    at_load = results.within(near.low, near.high)
    for axes, allocate in zip(grid, shown, strict=True):
        masks = {place: subject.mask(allocate, place) & at_load for place in subject.placers}
        boxes(axes, {p: results.runs["io_spread"][mask] for p, mask in masks.items()}, subject.placers)
        axes.set_title(printable(allocate), loc="left")
        axes.set_ylim(0.0, 1.0)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=None))
    grid[0].set_ylabel("I/O spread (percentage points)")
    legend_above(figure, [key(name, look, line=False) for name, look in subject.placers.items()])
    return Sketch(
        name="figure-06-io-spread",
        title=f"I/O spread of the placements at an I/O load of {load_range(near)}",
        caption="The occupancy of the busiest target less that of the least busy one; the lower, the more even. "
        f"{BOXES}",
        figure=figure,
    )


def occupancy(subject: Subject) -> Sketch | None:
    """Figure 7: the occupancy of every target by rank, a panel for each of three loads."""
    results = subject.results
    usual = _SPREAD_ALLOCATORS[0]
    allocate = usual if usual in subject.allocators else next(iter(subject.allocators), usual)
    chosen = results.select(allocate=allocate)
    near = dict.fromkeys(nearest_bin(results, chosen, load) for load in _OCCUPANCY_LOADS)
    bins = [bin_ for bin_ in near if bin_ is not None]
    if not bins or not results.occupancy.size:
        return None
    figure, grid = panels(len(bins), sharey=True)
    for axes, bin_ in zip(grid, bins, strict=True):
        for place, look in subject.placers.items():
            rows = results.occupancy[subject.mask(allocate, place) & results.within(bin_.low, bin_.high)]
            if len(rows):
                draw_band(axes, mean_of_rows(rows), look)
        axes.set_title(f"I/O load {load_range(bin_)}", loc="left")
        axes.set_ylim(0.0, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=None))
    grid[0].set_ylabel("occupancy (% of time)")
    figure.supxlabel("targets, from the busiest to the least busy", fontsize=8)
    legend_above(figure, [key(name, look) for name, look in subject.placers.items()])
    return Sketch(
        name="figure-07-target-occupancy",
        title=f"Occupancy of the targets by placement ({allocate})",
        caption="The flatter a line, the more evenly the placement loads the targets. Lines are means over the sets, "
        "areas the 95 % confidence intervals of the means.",
        figure=figure,
    )
