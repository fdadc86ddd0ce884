"""What a study's figures are drawn from, and the choices that several of them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from forebay.model.curve import Curve
from forebay.profile.curve_shapes import Shape, class_curves, classify
from forebay.show.figures.looks import (
    ALLOCATORS,
    BOXES,
    FAINT,
    INK,
    PLACERS,
    Band,
    Look,
    boxes,
    draw_band,
    key,
    looks_of,
    mean_of_rows,
    regression,
)
from forebay.show.figures.scales import (
    Bands,
    idle_axis,
    name_groups,
    off_scale,
    plot_by_load,
    slowdown_axis,
    top_of,
    whole_numbers,
)
from forebay.show.figures.sheet import LOAD, RHO_CON, RHO_IO, SLOWDOWN, Sketch, legend_above, panels, printable
from forebay.show.phrases import join_names
from forebay.show.rows import Floats, Mask, finite
from forebay.studies.io_resources.results import CLASS, TRUE, Bin, Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A study's results, the curves that its applications were drawn from, and its policies' looks."""

    results: Results
    curves: Mapping[str, Curve]
    allocators: Mapping[str, Look]
    placers: Mapping[str, Look]

    @classmethod
    def of(cls, results: Results, curves: Mapping[str, Curve]) -> Subject:
        """Policies in the order in which the study has them, the paper's placements before others."""
        met = results.placers()
        placers = [name for name in PLACERS if name in met] + [name for name in met if name not in PLACERS]
        return cls(
            results=results,
            curves=curves,
            allocators=looks_of(results.allocators(), ALLOCATORS),
            placers=looks_of(placers, PLACERS),
        )

    @property
    def placer(self) -> str:
        """The placement for comparing allocators: the paper's, or the first there is."""
        usual = "greedy-non-clairvoyant"
        return usual if usual in self.placers or not self.placers else next(iter(self.placers))

    def mask(self, allocate: str, place: str, curves: str = TRUE) -> Mask:
        return self.results.select(allocate=allocate, place=place, curves=curves)

    def by_load(self, metric: str, place: str, *, curves: str = TRUE, factor: float = 1.0) -> dict[str, Band]:
        """The metric for each bin of load, of every allocator that has been run with that placement."""
        values = self.results.runs[metric] * factor
        bands = {name: by_bin(self.results, self.mask(name, place, curves), values) for name in self.allocators}
        return {name: band for name, band in bands.items() if band.x.size}


def leaders(subject: Subject, metric: str, place: str) -> str:
    """Who is lowest in how many bins, like ` Lowest mean: tcpu (in 7 of 10 bins) and nsys (3).`

    A bin counts only the sets that every policy has been run on; empty if there is nothing to compare.
    """
    tables = {name: _by_set(subject, metric, name, place) for name in subject.allocators}
    tables = {name: table for name, table in tables.items() if table}
    common = set.intersection(*map(set, tables.values())) if len(tables) > 1 else set()
    wins: Counter[str] = Counter()
    for bin_ in subject.results.bins:
        shared = [key for key in sorted(common) if bin_.low <= key[2] < bin_.high]
        if shared:
            wins[min(tables, key=lambda name: np.mean([tables[name][key] for key in shared]))] += 1
    if not wins:
        return ""
    (first, most), *others = wins.most_common()
    shown = [f"{first} (in {most} of {wins.total()} bins)", *(f"{name} ({bins})" for name, bins in others)]
    return f" Lowest mean: {join_names(shown)}."


def _by_set(subject: Subject, metric: str, allocate: str, place: str) -> dict[tuple[float, int, float], float]:
    runs = subject.results.runs[subject.mask(allocate, place)]
    keys = zip(*(runs[column].tolist() for column in ("load", "set", "io_load_sys")), strict=True)
    return {key: value for key, value in zip(keys, runs[metric].tolist(), strict=True) if np.isfinite(value)}


def by_bin(results: Results, chosen: Mask, values: Floats) -> Band:
    """Mean, 10th and 90th percentile of the chosen runs' values in every bin that has any.

    `values` has a value for each run of the results.
    """
    points = []
    for bin_ in results.bins:
        sample = finite(values[chosen & results.within(bin_.low, bin_.high)])
        if sample.size:
            points.append((bin_.middle, sample.mean(), *np.percentile(sample, (10, 90))))
    return Band(*np.array(points, dtype=float).reshape(-1, 4).T)


def nearest_bin(results: Results, chosen: Mask, load: float) -> Bin | None:
    """The bin around `load`, or else the nearest one, of those that hold chosen runs."""
    held = [b for b in results.bins if (chosen & results.within(b.low, b.high)).any()]
    return min(held, key=lambda b: abs(b.middle - load), default=None)


def load_range(bin_: Bin) -> str:
    """Like `0.5 ± 0.05`."""
    return f"{bin_.middle:g} ± {round((bin_.high - bin_.low) / 2, 9):g}"


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


Classes = Mapping[Shape, Sequence[Curve]]

_BOLD: dict[str, Any] = {"color": INK, "linewidth": 2.2, "marker": "o", "markersize": 4.5}


def curves_by_class(subject: Subject) -> Sketch | None:
    """Figure 1 (I/O nodes) or 2 (OSTs): every curve, divided by its own maximum."""
    classes = _classes(subject.curves)
    if not classes:
        return None
    targets = _targets(subject)
    counts = join_names([f"{len(curves)} {shape}" for shape, curves in classes.items()])
    return Sketch(
        name=f"figure-{2 if targets == 'OSTs' else 1:02}-curves-by-class",
        title=f"Bandwidth against the number of {targets}, by class",
        caption=f"{subject.results.origin}: {counts}. Each curve is divided by its own maximum; "
        "the bold line is the median of the class.",
        figure=_draw_classes(classes, {shape: _median(curves) for shape, curves in classes.items()}, targets, "median"),
    )


def class_regressions(subject: Subject) -> Sketch | None:
    """Figure 11: the polynomial regression of each class over its curves."""
    classes = _classes(subject.curves)
    if not classes:
        return None
    return Sketch(
        name="figure-11-class-regressions",
        title="The curve that stands for each class",
        caption="A polynomial regression over the normalised curves of a class (bold), at the numbers of targets that "
        "were measured: what a policy sees that knows only an application's class.",
        figure=_draw_classes(classes, class_curves(subject.curves), _targets(subject), "regression"),
    )


def _draw_classes(classes: Classes, standing: Mapping[Shape, Curve], targets: str, label: str) -> Figure:
    figure, grid = panels(len(classes), columns=4, height=2.0, sharey=True)
    for axes, (shape, curves) in zip(grid, classes.items(), strict=True):
        _draw_class(axes, curves, standing[shape])
        axes.set_title(f"{shape} ({len(curves)})", loc="left")
    grid[0].set_ylabel("bandwidth (share of maximum)")
    figure.supxlabel(f"number of {targets}", fontsize=8)
    member = Line2D([], [], color=FAINT, linewidth=1.0, label="one application")
    legend_above(figure, [member, Line2D([], [], label=f"{label} of the class", **_BOLD)])
    return figure


def _draw_class(axes: Axes, curves: Sequence[Curve], standing: Curve) -> None:
    alpha = float(np.clip(12 / len(curves), 0.35, 1.0))  # fainter where many lie on each other
    lines = [np.column_stack((curve.counts, np.array(curve.bandwidths) / max(curve.bandwidths))) for curve in curves]
    axes.add_collection(LineCollection(lines, colors=FAINT, linewidths=0.8, alpha=alpha))
    axes.plot(standing.counts, standing.bandwidths, **_BOLD)
    counts = sorted({n for curve in curves for n in curve.counts})
    margin = 0.05 * (counts[-1] - counts[0]) or 0.5
    axes.set_xlim(counts[0] - margin, counts[-1] + margin)
    axes.set_ylim(0.0, 1.05)
    whole_numbers(axes, counts)


def _classes(curves: Mapping[str, Curve]) -> Classes:
    """The curves of each class that has any."""
    members: dict[Shape, list[Curve]] = {shape: [] for shape in Shape}
    for curve in curves.values():
        members[classify(curve)].append(curve)
    return {shape: curves_of_class for shape, curves_of_class in members.items() if curves_of_class}


def _median(curves: Sequence[Curve]) -> Curve:
    """The median share of the maximum at each number of targets that any of the curves measured."""
    shares: dict[int, list[float]] = {}
    for curve in curves:
        for n, bandwidth in zip(curve.counts, curve.bandwidths, strict=True):
            shares.setdefault(n, []).append(bandwidth / max(curve.bandwidths))
    return Curve.of({n: float(np.median(values)) for n, values in shares.items()})


def _targets(subject: Subject) -> str:
    return "OSTs" if subject.results.study == "osts" else "I/O nodes"


Painter = Callable[[Subject], Sketch | None]

_COMPARISON: tuple[Painter, ...] = (
    curves_by_class,
    mean_slowdown,
    spread,
    occupancy,
    low_and_high,
    two_causes,
    idle_time,
    class_regressions,
)
_PAINTERS: Mapping[str, tuple[Painter, ...]] = {
    "osts": (*_COMPARISON, slowdown_and_idle),
    "robustness": (curves_by_class, class_regressions, robustness),
}


def figures_of(results: Results, curves: Mapping[str, Curve]) -> Iterator[Sketch | None]:
    """Each figure shows the policies and loads that were run; None stands for one without any."""
    subject = Subject.of(results, curves)
    for paint in _PAINTERS.get(results.study, _COMPARISON):
        yield paint(subject)
