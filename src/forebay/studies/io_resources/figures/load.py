"""Figures 5, 9, 10 and 13: what grows with the load on the targets."""

from __future__ import annotations

import numpy as np

from forebay.show.figures.looks import key
from forebay.show.figures.scales import idle_axis, off_scale, plot_by_load, slowdown_axis, top_of
from forebay.show.figures.series import Band, regression
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.show.figures.words import LOAD, RHO_CON, RHO_IO, SLOWDOWN, printable
from forebay.studies.io_resources.figures.subject import Subject, leaders

_AREAS = "Lines are means over the sets of a bin of load, areas reach from the 10th to the 90th percentile."


def mean_slowdown(subject: Subject) -> Sketch | None:
    """Figure 5: the slowdown of every allocator, a panel for each placement."""
    found = {place: subject.by_load("mean_io_slowdown", place) for place in subject.placers}
    found = {place: bands for place, bands in found.items() if bands}
    if not found:
        return None
    several = list(found.values())
    far = off_scale(several)
    figure, grid = panels(len(found), height=2.9, sharey=True)
    for axes, (place, bands) in zip(grid, found.items(), strict=True):
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
