"""The figures: what waits for I/O, what each decision wins, and for whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from forebay.show.figures.looks import FAINT, INK
from forebay.show.figures.sheet import Sketch, legend_above, panels, printable
from forebay.simulate.centre.month import DECISIONS
from forebay.studies.exascale.experiment import SETTINGS
from forebay.studies.exascale.results import ALL, BASE, Estimate, ExascaleResults
from forebay.studies.exascale.tables import LABELS, label

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
_THIN: dict[str, Any] = {"ecolor": "#333333", "error_kw": {"linewidth": 0.9, "capsize": 2}}


def figures_of(results: ExascaleResults) -> Iterator[Sketch]:
    """Every figure that the results allow."""
    yield from (draw(results) for draw in (waiting, each, who))
    if any(results.has(name) for name in SETTINGS if name != BASE):
        yield assumed(results)


def waiting(results: ExascaleResults) -> Sketch:
    """Node-hours in I/O with every combination of decisions, by kind of job."""
    names = results.variants
    figure, (axes,) = panels(1, width=7.2, height=3.4)
    figure.set_figwidth(7.2)
    at = np.arange(len(names))[::-1]
    left = np.zeros(len(names))
    for kind, colour in zip(results.kinds, _COLOURS, strict=False):
        hours = np.array([results.hours(on=on, kind=kind).mean() for on in names]) / 1000
        axes.barh(at, hours, 0.72, left=left, color=colour, zorder=2)
        left += hours
    for y, on in zip(at, names, strict=True):
        hours = results.hours(on=on) / 1000
        axes.plot(hours, np.full(hours.size, y), "o", color=INK, markersize=2.5, markeredgewidth=0, zorder=3)
    axes.set_yticks(at, [label(on) for on in names])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("thousand node-hours a month that wait for I/O")
    axes.set_xlim(left=0)
    keys = [Patch(color=c, label=printable(k)) for k, c in zip(results.kinds, _COLOURS, strict=False)]
    legend_above(figure, keys)
    return Sketch(
        name="exascale-waiting",
        title="What waits for I/O",
        caption=f"Node-hours a month in I/O by kind of job, means of {results.months} drawn months; "
        "dots are the single months. Months differ more than decisions do, so that these are compared month by month.",
        figure=figure,
    )


def each(results: ExascaleResults) -> Sketch:
    """What each decision wins alone, and what it adds to the others."""
    figure, (axes,) = panels(1, width=7.2, height=2.9)
    figure.set_figwidth(7.2)
    at = np.arange(len(DECISIONS) + 1)
    everything = results.won(ALL)
    for k, (gains, colour) in enumerate(((results.alone(), "#0072B2"), (results.last(), "#E69F00"))):
        _bars(axes, at[:-1] + (k - 0.5) * 0.38, [gains[name] for name in DECISIONS], 0.36, colour)
    _bars(axes, at[-1:], [everything], 0.5, "#666666")
    axes.axhline(0, color=INK, linewidth=0.7)
    axes.set_xticks(at, [*(LABELS[name] for name in DECISIONS), "all four"])
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel("thousand node-hours won a month")
    pairs = (("alone", "#0072B2"), ("on top of the three others", "#E69F00"), ("together", "#666666"))
    legend_above(figure, [Patch(color=colour, label=text) for text, colour in pairs])
    return Sketch(
        name="exascale-won",
        title="What each decision wins",
        caption=f"Node-hours won a month against the default, and against the three other decisions; means of "
        f"{results.months} months and their 95 % intervals, month by month with the same jobs.",
        figure=figure,
    )


def who(results: ExascaleResults) -> Sketch:
    """How much longer or shorter every decided job waits."""
    figure, (axes,) = panels(1, width=7.2, height=2.9)
    figure.set_figwidth(6.0)
    keys = []
    for kind, colour in zip(results.kinds, _COLOURS, strict=False):
        ratios = np.sort(results.ratios(kind))
        if ratios.size:
            part = 100 * np.arange(1, ratios.size + 1) / ratios.size
            axes.step(np.maximum(ratios, 1e-3), part, where="post", color=colour, linewidth=1.6)
            keys.append(Patch(color=colour, label=printable(f"{kind}, {ratios.size:,} jobs")))
    axes.axvline(1, color=FAINT, linewidth=1)
    axes.set_xscale("log")
    ticks = [t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5) if axes.get_xlim()[0] <= t <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, 100)
    axes.set_xlabel("time in I/O with all four decisions, over that by default")
    axes.set_ylabel("% of jobs")
    legend_above(figure, keys)
    return Sketch(
        name="exascale-jobs",
        title="Who wins and who loses",
        caption="The part of the jobs whose time in I/O, with all four decisions on, is at most so many times what it "
        "is by default. To the right of 1 a job waits longer.",
        figure=figure,
    )


def assumed(results: ExascaleResults) -> Sketch:
    """What all four decisions win under other assumptions."""
    names = [name for name in SETTINGS if results.has(name)]
    figure, grid = panels(2, columns=2, height=2.8)
    at = np.arange(len(names))[::-1]
    for axes, estimates, unit in (
        (grid[0], [_scaled(results.won(ALL, setting=n), 1e-3) for n in names], "thousand node-hours won a month"),
        (grid[1], [_scaled(results.share_won(ALL, setting=n), 100) for n in names], "won, % of the node-hours in I/O"),
    ):
        half = [0.0 if np.isnan(e.low) else e.mean - e.low for e in estimates]
        colours = ["#666666" if name == BASE else "#0072B2" for name in names]
        axes.barh(at, [e.mean for e in estimates], 0.66, xerr=half, color=colours, zorder=2, **_THIN)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(unit)
    grid[0].set_yticks(at, [SETTINGS[name].label for name in names])
    grid[1].set_yticks(at, [""] * len(names))
    return Sketch(
        name="exascale-assumed",
        title="If the assumptions were others",
        caption="What all four decisions win when one assumption is changed. Layouts set by hand change what users can "
        "bear to write, and so the I/O itself.",
        figure=figure,
    )


def _bars(axes: Axes, x: Any, estimates: list[Estimate], width: float, colour: str) -> None:
    half = [0.0 if np.isnan(e.low) else (e.mean - e.low) / 1000 for e in estimates]
    heights = [e.mean / 1000 for e in estimates]
    axes.bar(x, heights, width, yerr=half, color=colour, zorder=2, **_THIN)


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(*(factor * value for value in estimate))
