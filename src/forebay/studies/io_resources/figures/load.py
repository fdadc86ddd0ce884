"""Figures 5, 8, 9, 10, 12 and 13: what grows with the load on the targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from forebay.show.figures.boxes import BOXES, boxes
from forebay.show.figures.looks import INK, Look, key
from forebay.show.figures.scales import Bands, idle_axis, name_groups, off_scale, plot_by_load, slowdown_axis, top_of
from forebay.show.figures.series import Band, regression
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.show.figures.text import LOAD, RHO_CON, RHO_IO, SLOWDOWN, printable
from forebay.show.rows import Floats, Mask, finite
from forebay.studies.io_resources.figures.subject import Subject, by_bin, leaders
from forebay.studies.io_resources.results import CLASS, TRUE, Results

_AREAS = "Lines are means over the sets of a bin of load, areas reach from the 10th to the 90th percentile."
_CHANGE = (
    "Left, by how many percent the mean I/O slowdown of a set changes when the policies see one curve for each class "
    "and not the true ones (above 0 is worse); right, the machine idle time with class curves. "
)
_SLOWDOWNS = {"mean_io_slowdown": "mean I/O slowdown (times)", "max_io_slowdown": "maximum I/O slowdown (times)"}
_COST: dict[str, Any] = {"color": INK, "linewidth": 1.6, "linestyle": (0, (2, 0.8))}


def mean_slowdown(subject: Subject) -> Sketch | None:
    """Figure 5: the slowdown of every allocator, a panel for each placement."""
    by_place = {place: subject.by_load("mean_io_slowdown", place) for place in subject.placers}
    by_place = {place: bands for place, bands in by_place.items() if bands}
    if not by_place:
        return None
    several = list(by_place.values())
    far = off_scale(several)
    figure, grid = panels(len(by_place), height=2.9, sharey=True)
    for axes, (place, bands) in zip(grid, by_place.items(), strict=True):
        plot_by_load(axes, bands, subject.allocators, title=printable(place), without=far)
        slowdown_axis(axes, top_of(several, far))
    grid[0].set_ylabel(SLOWDOWN)
    figure.supxlabel(LOAD, fontsize=8)
    legend_above(figure, [key(name, look) for name, look in subject.allocators.items()])
    best = leaders(subject, "mean_io_slowdown", subject.placer)
    return Sketch(
        name="figure-05-mean-io-slowdown",
        title="Mean I/O slowdown against the I/O load, for every allocation and placement",
        caption=f"{_AREAS} 1 is an application alone on its best number of targets.{best}",
        figure=figure,
    )


def two_causes(subject: Subject) -> Sketch | None:
    """Figure 9: how much of the slowdown the allocation causes, and how much congestion."""
    causes = {RHO_IO: _trends(subject, "rho_io", 1.0), RHO_CON: _trends(subject, "rho_con", 0.0)}
    if not any(causes.values()):
        return None
    figure, grid = panels(2, height=2.9)
    for axes, (label, bands) in zip(grid, causes.items(), strict=True):
        far = off_scale([bands])
        plot_by_load(axes, bands, subject.allocators, without=far, markers=False)
        axes.set_ylabel(label)
        axes.set_ylim(0.92 if label == RHO_IO else 0.0, 1.05 * top_of([bands], far))
    figure.supxlabel(LOAD, fontsize=8)
    legend_above(figure, [key(name, look) for name, look in subject.allocators.items()])
    return Sketch(
        name="figure-09-two-causes-of-slowdown",
        title=f"The two causes of I/O slowdown against the I/O load ({subject.placer})",
        caption="Left, the part that comes from an application's number of targets; right, the part that comes from "
        "sharing them. Lines are polynomial regressions over the single sets, areas their 95 % confidence interval; "
        "neither is drawn below 1 and 0, the least that there can be.",
        figure=figure,
    )


def idle_time(subject: Subject) -> Sketch | None:
    """Figure 10: the part of the machine that waits for I/O."""
    bands = subject.by_load("machine_idle", subject.placer, factor=100.0)
    if not bands:
        return None
    figure, (axes,) = panels(1, height=3.2)
    plot_by_load(axes, bands, subject.allocators)
    idle_axis(axes, bands)
    axes.set_xlabel(LOAD)
    legend_above(figure, [key(name, subject.allocators[name]) for name in bands])
    return Sketch(
        name="figure-10-machine-idle-time",
        title=f"Machine idle time against the I/O load ({subject.placer})",
        caption=f"The part of the compute nodes' time that goes into I/O; the lower the better. {_AREAS} "
        f"The y axis need not start at 0.{leaders(subject, 'machine_idle', subject.placer)}",
        figure=figure,
    )


def slowdown_and_idle(subject: Subject) -> Sketch | None:
    """Figure 13: slowdown and idle time side by side."""
    slow = subject.by_load("mean_io_slowdown", subject.placer)
    idle = subject.by_load("machine_idle", subject.placer, factor=100.0)
    if not (slow or idle):
        return None
    far = off_scale([slow])
    figure, (left, right) = panels(2, height=2.9)
    plot_by_load(left, slow, subject.allocators, without=far)
    slowdown_axis(left, top_of([slow], far))
    left.set_ylabel(SLOWDOWN)
    plot_by_load(right, idle, subject.allocators)
    idle_axis(right, idle)
    figure.supxlabel(LOAD, fontsize=8)
    legend_above(figure, [key(name, look) for name, look in subject.allocators.items() if name in slow | idle])
    return Sketch(
        name="figure-13-osts",
        title=f"Slowdown and idle time with OSTs as targets ({subject.placer})",
        caption=f"{_AREAS} The right y axis need not start at 0.{leaders(subject, 'mean_io_slowdown', subject.placer)}",
        figure=figure,
    )


def _trends(subject: Subject, metric: str, least: float) -> dict[str, Band]:
    """Regressions of the metric, cut off at the `least` value that it can have."""
    results = subject.results
    binned = np.logical_or.reduce([results.within(b.low, b.high) for b in results.bins], initial=False)
    # Degree 4 is the least that follows tcpu, whose rho_io stays 1 up to some load and climbs from there.
    degree = min(4, sum(int(results.within(b.low, b.high).any()) for b in results.bins) - 1)
    trends = {}
    for name in subject.allocators:
        runs = results.runs[subject.mask(name, subject.placer) & binned]
        trends[name] = regression(runs["io_load_sys"], runs[metric], degree).at_least(least)
    return {name: band for name, band in trends.items() if band.x.size}


def low_and_high(subject: Subject) -> Sketch | None:
    """Figure 8: a row for the mean and one for the maximum, a column for low and one for high load."""
    ranges = _ranges(subject)
    if not ranges:
        return None
    figure, grid = panels(2 * len(ranges), columns=len(ranges), height=2.3, sharey="row")
    cells = [(metric, label) for metric in _SLOWDOWNS for label in ranges]
    for axes, (metric, label) in zip(grid, cells, strict=True):
        masks = {name: subject.mask(name, subject.placer) & ranges[label] for name in subject.allocators}
        _draw_slowdowns(axes, subject, metric, masks)
        if metric == "mean_io_slowdown":
            axes.set_title(label, loc="left")
            _mark_rho_io(axes, subject, masks)
    for axes, ylabel in zip(grid[:: len(ranges)], _SLOWDOWNS.values(), strict=True):
        axes.set_ylabel(ylabel)
    for axes in grid[-len(ranges) :]:
        name_groups(axes, list(subject.allocators))
    legend_above(figure, [Line2D([], [], label=r"mean $\rho_{\mathrm{io}}$, what the allocation costs", **_COST)])
    return Sketch(
        name="figure-08-mean-and-maximum-slowdown",
        title=f"Mean and maximum I/O slowdown at low and at high I/O load ({subject.placer})",
        caption="1 is the least that a slowdown can be, and the y axes are logarithmic. "
        f"{BOXES} A dashed line marks what the allocation alone would cost; the rest is congestion.",
        figure=figure,
    )


def _draw_slowdowns(axes: Axes, subject: Subject, metric: str, masks: Mapping[str, Mask]) -> None:
    values = subject.results.runs[metric]
    boxes(axes, {name: values[mask] for name, mask in masks.items()}, subject.allocators)
    drawn = finite(values[subject.results.select(place=subject.placer)])
    slowdown_axis(axes, float(drawn.max()) if drawn.size else 1.0)


def _mark_rho_io(axes: Axes, subject: Subject, masks: Mapping[str, Mask]) -> None:
    for position, mask in enumerate(masks.values()):
        costs = finite(subject.results.runs["rho_io"][mask])
        if costs.size:
            axes.hlines(costs.mean(), position - 0.38, position + 0.38, zorder=7, clip_on=False, **_COST)


def _ranges(subject: Subject) -> dict[str, Mask]:
    """The runs in the lowest and in the highest third of the bins that have any, by a title for them."""
    results = subject.results
    chosen = results.select(place=subject.placer) & np.isfinite(results.runs["mean_io_slowdown"])
    held = [b for b in results.bins if (chosen & results.within(b.low, b.high)).any()]
    if not held:
        return {}
    part = max(1, len(held) // 3)
    titled = {"low I/O load": held[:part], "high I/O load": held[-part:]} if len(held) > 1 else {"I/O load": held}
    return {
        f"{title}, {bins[0].low:g} to {bins[-1].high:g}": results.within(bins[0].low, bins[-1].high)
        for title, bins in titled.items()
    }


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
