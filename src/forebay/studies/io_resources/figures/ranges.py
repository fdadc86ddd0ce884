"""Figure 8: mean and maximum slowdown of the allocators at low and at high load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from forebay.show.figures.boxes import BOXES, boxes
from forebay.show.figures.looks import INK
from forebay.show.figures.scales import slowdown_axis
from forebay.show.figures.series import Mask, known
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.show.figures.words import printable
from forebay.studies.io_resources.figures.subject import Subject

_METRICS = {"mean_io_slowdown": "mean I/O slowdown (times)", "max_io_slowdown": "maximum I/O slowdown (times)"}
_RHO_IO: dict[str, Any] = {"color": INK, "linewidth": 1.6, "linestyle": (0, (2, 0.8))}


def low_and_high(subject: Subject) -> Sketch | None:
    """Figure 8: a row for the mean and one for the maximum, a column for low and one for high load."""
    ranges = _ranges(subject)
    if not ranges:
        return None
    figure, grid = panels(2 * len(ranges), columns=len(ranges), height=2.3, sharey="row")
    cells = [(metric, label) for metric in _METRICS for label in ranges]
    for axes, (metric, label) in zip(grid, cells, strict=True):
        masks = {name: subject.mask(name, subject.placer) & ranges[label] for name in subject.allocators}
        _panel(axes, subject, metric, masks)
        if metric == "mean_io_slowdown":
            axes.set_title(label, loc="left")
            _mark_rho_io(axes, subject, masks)
    for axes, ylabel in zip(grid[:: len(ranges)], _METRICS.values(), strict=True):
        axes.set_ylabel(ylabel)
    for axes in grid[-len(ranges) :]:
        names = [printable(name, 24) for name in subject.allocators]
        axes.set_xticks(range(len(names)), names, rotation=35, ha="right", rotation_mode="anchor")
    legend_above(figure, [Line2D([], [], label=r"mean $\rho_{\mathrm{io}}$, what the allocation costs", **_RHO_IO)])
    return Sketch(
        name="figure-08-mean-and-maximum-slowdown",
        title=f"Mean and maximum I/O slowdown at low and at high I/O load ({subject.placer})",
        caption="1 is the least that a slowdown can be, and the y axes are logarithmic. "
        f"{BOXES} A dashed line marks what the allocation alone would cost; the rest is congestion.",
        figure=figure,
    )


def _panel(axes: Axes, subject: Subject, metric: str, masks: Mapping[str, Mask]) -> None:
    values = subject.results.runs[metric]
    boxes(axes, {name: values[own] for name, own in masks.items()}, subject.allocators)
    drawn = known(values[subject.results.select(place=subject.placer)])
    slowdown_axis(axes, float(drawn.max()) if drawn.size else 1.0)


def _mark_rho_io(axes: Axes, subject: Subject, masks: Mapping[str, Mask]) -> None:
    for position, own in enumerate(masks.values()):
        costs = known(subject.results.runs["rho_io"][own])
        if costs.size:
            axes.hlines(costs.mean(), position - 0.38, position + 0.38, zorder=7, clip_on=False, **_RHO_IO)


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
