"""Figure 12: what it costs policies to know only the class of each application."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from forebay.show.figures.looks import INK, Look, key
from forebay.show.figures.scales import Bands, idle_axis, plot_by_load
from forebay.show.figures.series import Floats
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.show.figures.words import LOAD
from forebay.studies.io_resources.figures.subject import Subject, by_bin
from forebay.studies.io_resources.results import CLASS, TRUE, Results

_CHANGE = (
    "Left, by how many percent the mean I/O slowdown of a set changes when the policies see one curve for each class "
    "and not the true ones (above 0 is worse); right, the machine idle time with class curves. "
)
_AREAS = "Lines are means over the sets of a bin of load, areas reach from the 10th to the 90th percentile."


def robustness(subject: Subject) -> Sketch | None:
    """Figure 12: the change of the slowdown, and the idle time, with class curves."""
    change = _by_combination(subject, _change(subject.results))
    idle = _by_combination(subject, subject.results.runs["machine_idle"] * 100.0)
    if not idle:
        return None
    looks = _looks(subject)
    figure, grid = panels(2 if change else 1, height=2.9)
    if change:
        plot_by_load(grid[0], change, looks, title="(a) class curves against true curves")
        grid[0].axhline(0.0, color=INK, linewidth=0.8, zorder=1)
        grid[0].set_ylabel("change of mean I/O slowdown (%)")
    plot_by_load(grid[-1], idle, looks, title="(b) with class curves" if change else "with class curves")
    idle_axis(grid[-1], idle)
    figure.supxlabel(LOAD, fontsize=8)
    legend_above(figure, [key(name, looks[name]) for name in idle], columns=2)
    return Sketch(
        name="figure-12-robustness",
        title="What it costs to know only each application's class",
        caption=f"{_CHANGE if change else 'Machine idle time with class curves. '}{_AREAS}",
        figure=figure,
    )


def _change(results: Results) -> Floats:
    """For each run with class curves the change in percent from the same one with true curves; nan for others."""
    runs = results.runs
    same = list(zip(*(runs[c].tolist() for c in ("load", "set", "allocate", "place")), strict=True))
    slowdowns = runs["mean_io_slowdown"].tolist()
    true = {s: slowdown for s, slowdown, c in zip(same, slowdowns, runs["curves"], strict=True) if c == TRUE}
    before = np.array([true.get(s, np.nan) for s in same], dtype=float)
    return np.where(runs["curves"] == CLASS, 100.0 * (runs["mean_io_slowdown"] / before - 1.0), np.nan)


def _by_combination(subject: Subject, values: Floats) -> Bands:
    bands = {
        _name(allocate, place): by_bin(subject.results, subject.mask(allocate, place, CLASS), values)
        for allocate, place in product(subject.allocators, subject.placers)
    }
    return {name: band for name, band in bands.items() if band.x.size}


def _looks(subject: Subject) -> dict[str, Look]:
    """The colour of the allocator with the marker and the dashes of the placement."""
    return {
        _name(allocate, place): replace(look, marker=other.marker, dashes=other.dashes)
        for (allocate, look), (place, other) in product(subject.allocators.items(), subject.placers.items())
    }


def _name(allocate: str, place: str) -> str:
    return f"{allocate} + {place}"
