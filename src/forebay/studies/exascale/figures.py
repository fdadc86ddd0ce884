"""The figures: node-hours in I/O, what each decision saves, and which jobs gain."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from forebay.show.figures.looks import FAINT, INK
from forebay.show.figures.sheet import Sketch, Style, legend_above, panels, printable, sketch_each
from forebay.simulate.centre.month import DECISIONS
from forebay.studies.exascale.experiment import SETTINGS
from forebay.studies.exascale.results import ALL, BASE, LABELS, Estimate, ExascaleResults, label

_BLUE, _ORANGE, _GREY = "#0072B2", "#E69F00", "#666666"
_COLOURS = (_BLUE, _ORANGE, "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
_THIN: Style = {"ecolor": "#333333", "error_kw": {"linewidth": 0.9, "capsize": 2}, "zorder": 2}


def figures_of(results: ExascaleResults) -> Iterator[Sketch]:
    others = any(results.has(name) for name in SETTINGS if name != BASE)
    draws = (waiting_hours, each, who, *((other_assumptions,) if others else ()))
    return sketch_each(__file__, draws, results, months=results.months)


def waiting_hours(results: ExascaleResults) -> Figure:
    """Draw the node-hours in I/O with every combination of decisions, by kind of job."""
    names = results.variants
    figure, (axes,) = panels(1, width=7.2, height=3.4)
    at = np.arange(len(names))[::-1]
    left = np.zeros(len(names))
    for kind, colour in zip(results.kinds, _COLOURS, strict=False):
        hours = np.array([results.hours(on=on, kind=kind).mean() for on in names]) / 1000
        axes.barh(at, hours, 0.72, left=left, color=colour, zorder=2)
        left += hours
    for y, on in zip(at, names, strict=True):
        hours = results.hours(on=on) / 1000
        axes.plot(hours, np.full(hours.size, y), "o", color=INK, markersize=2.5, markeredgewidth=0, zorder=3)
    _name_bars(axes, "y", at, [label(on) for on in names])
    axes.set(xlabel="thousand node-hours a month spent waiting for I/O", xlim=(0, None))
    legend_above(figure, [Patch(color=c, label=printable(k)) for k, c in zip(results.kinds, _COLOURS, strict=False)])
    return figure


def each(results: ExascaleResults) -> Figure:
    """Draw what each decision saves alone, and what it adds to the others."""
    figure, (axes,) = panels(1, width=7.2, height=2.9)
    count = len(DECISIONS)
    groups: list[tuple[str, str, Any, Sequence[Estimate], float]] = [
        ("alone", _BLUE, np.arange(count) - 0.19, list(results.alone().values()), 0.36),
        ("on top of the three others", _ORANGE, np.arange(count) + 0.19, list(results.last().values()), 0.36),
        ("together", _GREY, [count], [results.hours_saved(ALL)], 0.5),
    ]
    for _, colour, x, estimates, width in groups:
        half = [estimate.half / 1000 for estimate in estimates]
        axes.bar(x, [e.mean / 1000 for e in estimates], width, yerr=half, color=colour, **_THIN)
    axes.axhline(0, color=INK, linewidth=0.7)
    _name_bars(axes, "x", range(count + 1), [*(LABELS[name] for name in DECISIONS), "all four"])
    axes.set_ylabel("thousand node-hours saved a month")
    legend_above(figure, [Patch(color=colour, label=text) for text, colour, *_ in groups])
    return figure


def who(results: ExascaleResults) -> Figure:
    """Draw the distribution of how much longer or shorter each decided job waits."""
    figure, (axes,) = panels(1, width=6.0, height=2.9)
    legend = []
    for kind, colour in zip(results.kinds, _COLOURS, strict=False):
        ratios = np.sort(results.ratios(kind))
        if ratios.size:
            part = 100 * np.arange(1, ratios.size + 1) / ratios.size
            axes.step(np.maximum(ratios, 1e-3), part, where="post", color=colour, linewidth=1.6)
            legend.append(Patch(color=colour, label=printable(f"{kind}, {ratios.size:,} jobs")))
    axes.axvline(1, color=FAINT, linewidth=1)
    axes.set_xscale("log")
    ticks = [t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5) if axes.get_xlim()[0] <= t <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set(xlabel="time in I/O with all four decisions / by default", ylabel="% of jobs", ylim=(0, 100))
    legend_above(figure, legend)
    return figure


def other_assumptions(results: ExascaleResults) -> Figure:
    """Draw what all four decisions save under other assumptions."""
    names = [name for name in SETTINGS if results.has(name)]
    figure, grid = panels(2, columns=2, height=2.8)
    at = np.arange(len(names))[::-1]
    measures = (
        ("thousand node-hours saved a month", results.hours_saved, 1e-3),
        ("saved, % of the node-hours in I/O", results.share_saved, 100),
    )
    for axes, (unit, measure, factor) in zip(grid, measures, strict=True):
        estimates = [measure(ALL, setting=name) for name in names]
        half = [factor * estimate.half for estimate in estimates]
        colours = [_GREY if name == BASE else _BLUE for name in names]
        axes.barh(at, [factor * e.mean for e in estimates], 0.66, xerr=half, color=colours, **_THIN)
        _name_bars(axes, "y", at, [SETTINGS[name].label if axes is grid[0] else "" for name in names])
        axes.set_xlabel(unit)
    return figure


def _name_bars(axes: Axes, which: Any, at: Any, names: Sequence[str]) -> None:
    axes.set(**{f"{which}ticks": at, f"{which}ticklabels": names})
    axes.tick_params(axis=which, length=0)
    axes.grid(axis=which, visible=False)
