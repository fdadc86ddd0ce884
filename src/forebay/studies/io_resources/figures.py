"""The figures, by their numbers in Bandet et al. 2024."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from forebay.model.arrays import Bools, Floats
from forebay.model.curve import Curve
from forebay.profile.curve_shapes import Shape, class_curves, classify
from forebay.show.figures import looks, scales
from forebay.show.figures.looks import FAINT, INK, Band, Look, key
from forebay.show.figures.scales import Bands
from forebay.show.figures.sheet import Sketch, Style, draw_panels, printable, sketch_each
from forebay.show.phrases import join_names
from forebay.show.rows import finite_values
from forebay.studies.io_resources.results import CLASS, GREEDY, TRUE, Bin, Results

_LOAD = r"I/O load on the targets, I/O-load($\pi_{\mathrm{sys}}$)"
_SLOWDOWN = "mean I/O slowdown (times)"
_RHO_IO = r"slowdown from the allocation, $\rho_{\mathrm{io}}$ (times)"
_RHO_CON = r"slowdown from congestion, $\rho_{\mathrm{con}}$ (times)"
_CHANGE = (
    "Left: by how many percent the mean I/O slowdown of a set changes when policies see one curve for each class "
    "instead of the true ones (above 0 is worse). Right: the machine idle time with class curves. "
)
_BOLD: Style = {"color": INK, "linewidth": 2.2, "marker": "o", "markersize": 4.5}
_COST: Style = {"color": INK, "linewidth": 1.6, "linestyle": (0, (2, 0.8))}
_SPREAD_ALLOCATORS = ("best-bandwidth", "nsys", "random")
_SPREAD_LOAD = 0.5
_OCCUPANCY_LOADS = (0.2, 0.5, 0.8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The results of a study, the curves behind its applications, and the looks of its policies."""

    results: Results
    curves: Mapping[str, Curve]
    allocators: Mapping[str, Look]
    placers: Mapping[str, Look]

    @classmethod
    def of(cls, results: Results, curves: Mapping[str, Curve]) -> Subject:
        """Keep the study's order of policies, but put the paper's placements before others."""
        placers = sorted(results.placers(), key=[*looks.LOOKS["placers"], *results.placers()].index)
        allocators = looks.looks_of(results.allocators(), "allocators")
        return cls(results=results, curves=curves, allocators=allocators, placers=looks.looks_of(placers, "placers"))

    @property
    def placer(self) -> str:
        """The placement under which allocators are compared: the paper's, or else the first."""
        return GREEDY if GREEDY in self.placers or not self.placers else next(iter(self.placers))

    @property
    def targets(self) -> str:
        return "OSTs" if self.results.study == "osts" else "I/O nodes"

    def by_load(self, metric: str, place: str, *, factor: float = 1.0) -> dict[str, Band]:
        """Return the metric for each bin of load, for every allocator that ran with that placement."""
        values = self.results.runs[metric] * factor
        bands = {name: by_bin(self.results, self.results.select(name, place), values) for name in self.allocators}
        return {name: band for name, band in bands.items() if band.x.size}

    def classes(self) -> dict[Shape, list[Curve]]:
        """Return the curves of each class that has any."""
        members: dict[Shape, list[Curve]] = {shape: [] for shape in Shape}
        for curve in self.curves.values():
            members[classify(curve)].append(curve)
        return {shape: curves for shape, curves in members.items() if curves}

    def legend(self, names: Mapping[str, object] | None = None) -> list[Line2D]:
        """Return a legend entry for each allocator, or for those in `names`."""
        return [key(name, look) for name, look in self.allocators.items() if names is None or name in names]


def figures_of(results: Results, curves: Mapping[str, Curve]) -> Iterator[Sketch]:
    """Yield each figure whose policies and loads were run."""
    subject = Subject.of(results, curves)
    near = results.nearest_bin(results.select(), _SPREAD_LOAD)
    values = {
        "number": 2 if results.study == "osts" else 1,
        "targets": subject.targets,
        "origin": results.origin,
        "counts": join_names([f"{len(members)} {shape}" for shape, members in subject.classes().items()]),
        "placer": subject.placer,
        "allocate": _spread_allocators(subject)[0] if subject.allocators else "",
        "spread_load": near.label if near else "",
        "slowest": describe_leaders(subject, "mean_io_slowdown"),
        "idlest": describe_leaders(subject, "machine_idle"),
        "boxes": looks.BOXES,
        "change": _CHANGE if (results.runs["curves"] == TRUE).any() else "Machine idle time with class curves. ",
    }
    compared = (
        *(curves_by_class, mean_slowdown, spread, occupancy, low_and_high, two_causes, idle_time, class_regressions),
        *((slowdown_and_idle,) if results.study == "osts" else ()),
    )
    draws = (curves_by_class, class_regressions, robustness) if results.study == "robustness" else compared
    return sketch_each(__file__, draws, subject, **values)


def describe_leaders(subject: Subject, metric: str) -> str:
    """Say which policy is lowest in how many bins, like ` Lowest mean: tcpu (in 7 of 10 bins) and nsys (3).`

    A bin counts only the sets that every policy ran on. Return "" if nothing can be compared.
    """
    tables: dict[str, dict[tuple[float, int, float], float]] = {}
    for name in subject.allocators:
        runs = subject.results.runs[subject.results.select(name, subject.placer)]
        values: Floats = runs[metric]
        runs = runs[np.isfinite(values)]
        if runs.size:
            tables[name] = dict(zip(runs[["load", "set", "io_load_sys"]].tolist(), runs[metric].tolist(), strict=True))
    common = set.intersection(*map(set, tables.values())) if len(tables) > 1 else set()
    wins: Counter[str] = Counter()
    for bin_ in subject.results.bins:
        shared = [same for same in sorted(common) if bin_.low <= same[2] < bin_.high]
        if shared:
            wins[min(tables, key=lambda name: np.mean([tables[name][same] for same in shared]))] += 1
    if not wins:
        return ""
    (first, most), *others = wins.most_common()
    shown = [f"{first} (in {most} of {wins.total()} bins)", *(f"{name} ({bins})" for name, bins in others)]
    return f" Lowest mean: {join_names(shown)}."


def by_bin(results: Results, chosen: Bools, values: Floats) -> Band:
    """Return the mean, 10th and 90th percentile of the values of the chosen runs, for every bin that has any."""
    points = []
    for bin_ in results.bins:
        sample = finite_values(values[chosen & results.within(*bin_)])
        if sample.size:
            points.append((bin_.middle, sample.mean(), *np.percentile(sample, (10, 90))))
    return Band(*np.array(points, dtype=float).reshape(-1, 4).T)


def _spread_allocators(subject: Subject) -> list[str]:
    """Return the allocators of the paper's Figure 6 that were run, or else the first three."""
    return [name for name in _SPREAD_ALLOCATORS if name in subject.allocators] or list(subject.allocators)[:3]


def curves_by_class(subject: Subject) -> Figure:
    """Figure 1 (I/O nodes) or 2 (OSTs): every curve divided by its own maximum, and the median of each class."""
    medians = {}
    for shape, curves in subject.classes().items():
        shares: dict[int, list[float]] = {}
        for curve in curves:
            for n, bandwidth in zip(curve.counts, curve.bandwidths, strict=True):
                shares.setdefault(n, []).append(bandwidth / max(curve.bandwidths))
        medians[shape] = Curve.of({n: float(np.median(values)) for n, values in shares.items()})
    return _draw_classes(subject, medians, "median")


def class_regressions(subject: Subject) -> Figure:
    """Figure 11: the polynomial regression of each class over its curves."""
    return _draw_classes(subject, class_curves(subject.curves) if subject.curves else {}, "regression")


def _draw_classes(subject: Subject, typical: Mapping[Shape, Curve], label: str) -> Figure:
    """Draw all curves of each class, and in bold the one that represents it."""

    def draw(axes: Axes, shape: Shape, curves: Sequence[Curve]) -> None:
        alpha = float(np.clip(12 / len(curves), 0.35, 1.0))  # fainter where many overlap
        lines = [np.column_stack((c.counts, np.array(c.bandwidths) / max(c.bandwidths))) for c in curves]
        axes.add_collection(LineCollection(lines, colors=FAINT, linewidths=0.8, alpha=alpha))
        axes.plot(typical[shape].counts, typical[shape].bandwidths, **_BOLD)
        counts = sorted({n for curve in curves for n in curve.counts})
        margin = 0.05 * (counts[-1] - counts[0]) or 0.5
        axes.set(xlim=(counts[0] - margin, counts[-1] + margin), ylim=(0.0, 1.05))
        scales.whole_numbers(axes, counts)

    return draw_panels(
        subject.classes().items(),
        draw,
        title=lambda shape, curves: f"{shape} ({len(curves)})",
        ylabel="bandwidth (share of maximum)",
        xlabel=f"number of {subject.targets}",
        columns=4,
        height=2.0,
        sharey=True,
        legend=[
            Line2D([], [], color=FAINT, linewidth=1.0, label="one application"),
            Line2D([], [], label=f"{label} of the class", **_BOLD),
        ],
    )


def mean_slowdown(subject: Subject) -> Figure:
    """Figure 5: the slowdown of every allocator, a panel for each placement."""
    by_place = {place: subject.by_load("mean_io_slowdown", place) for place in subject.placers}
    several = [bands for bands in by_place.values() if bands]
    far = scales.off_scale(several)

    def draw(axes: Axes, place: str, bands: Bands) -> None:
        scales.plot_by_load(axes, bands, subject.allocators, title=printable(place), without=far)
        scales.slowdown_axis(axes, scales.top_of(several, far))

    cells = [(place, bands) for place, bands in by_place.items() if bands]
    legend = subject.legend()
    return draw_panels(cells, draw, ylabel=_SLOWDOWN, xlabel=_LOAD, height=2.9, sharey=True, legend=legend)


def two_causes(subject: Subject) -> Figure:
    """Figure 9: how much of the slowdown the allocation causes, and how much congestion."""

    def draw(axes: Axes, label: str, least: float, bands: Bands) -> None:
        far = scales.off_scale([bands])
        scales.plot_by_load(axes, bands, subject.allocators, without=far, markers=False)
        axes.set(ylabel=label, ylim=(0.92 * least, 1.05 * scales.top_of([bands], far)))

    cells = [
        (label, least, _trends(subject, metric, least))
        for label, metric, least in ((_RHO_IO, "rho_io", 1.0), (_RHO_CON, "rho_con", 0.0))
    ]
    some = any(bands for *_, bands in cells)
    return draw_panels(cells if some else (), draw, xlabel=_LOAD, height=2.9, legend=subject.legend())


def _trends(subject: Subject, metric: str, least: float) -> dict[str, Band]:
    """Return regressions of the metric, cut off at its `least` possible value."""
    results = subject.results
    binned = np.logical_or.reduce([results.within(*b) for b in results.bins], initial=False)
    # Lower degrees do not follow tcpu, whose rho_io stays 1 up to some load and climbs from there.
    degree = min(4, len(results.bins_of(binned)) - 1)
    every = {name: results.runs[results.select(name, subject.placer) & binned] for name in subject.allocators}
    trends = {n: looks.regression(runs["io_load_sys"], runs[metric], degree) for n, runs in every.items()}
    return {name: band.at_least(least) for name, band in trends.items() if band.x.size}


def idle_time(subject: Subject) -> Figure:
    """Figure 10: the share of the machine that waits for I/O."""
    bands = subject.by_load("machine_idle", subject.placer, factor=100.0)

    def draw(axes: Axes) -> None:
        scales.plot_by_load(axes, bands, subject.allocators)
        scales.idle_axis(axes, bands)
        axes.set_xlabel(_LOAD)

    return draw_panels([()] if bands else (), draw, height=3.2, legend=subject.legend(bands))


def slowdown_and_idle(subject: Subject) -> Figure:
    """Figure 13: slowdown and idle time side by side."""
    slow = subject.by_load("mean_io_slowdown", subject.placer)
    idle = subject.by_load("machine_idle", subject.placer, factor=100.0)

    def draw(axes: Axes, bands: Bands) -> None:
        far = scales.off_scale([bands]) if bands is slow else []
        scales.plot_by_load(axes, bands, subject.allocators, without=far)
        if bands is slow:
            scales.slowdown_axis(axes, scales.top_of([bands], far))
            axes.set_ylabel(_SLOWDOWN)
        else:
            scales.idle_axis(axes, bands)

    cells = [(slow,), (idle,)] if slow or idle else []
    return draw_panels(cells, draw, xlabel=_LOAD, height=2.9, legend=subject.legend(slow | idle))


def low_and_high(subject: Subject) -> Figure:
    """Figure 8: a row for the mean and one for the maximum, a column for low and one for high load."""
    results, ranges = subject.results, _ranges(subject)
    names = list(subject.allocators)

    def draw(axes: Axes, metric: str, title: str) -> None:
        masks = [results.select(name, subject.placer) & ranges[title] for name in names]
        values = results.runs[metric]
        looks.boxes(axes, {name: values[mask] for name, mask in zip(names, masks, strict=True)}, subject.allocators)
        scales.slowdown_axis(axes, float(finite_values(values[results.select(place=subject.placer)]).max(initial=1.0)))
        if metric != "mean_io_slowdown":
            scales.name_groups(axes, names)
            return
        axes.set_title(title, loc="left")
        for position, mask in enumerate(masks):
            costs = finite_values(results.runs["rho_io"][mask])
            if costs.size:
                axes.hlines(costs.mean(), position - 0.38, position + 0.38, zorder=7, clip_on=False, **_COST)

    return draw_panels(
        product(("mean_io_slowdown", "max_io_slowdown"), ranges),
        draw,
        ylabel=(_SLOWDOWN, "maximum I/O slowdown (times)"),
        columns=len(ranges),
        height=2.3,
        sharey="row",
        legend=[Line2D([], [], label=r"mean $\rho_{\mathrm{io}}$, the cost of the allocation", **_COST)],
    )


def _ranges(subject: Subject) -> dict[str, Bools]:
    """Return, by title, masks of the runs in the lowest and in the highest third of the bins that have any."""
    results = subject.results
    chosen = results.select(place=subject.placer) & np.isfinite(results.runs["mean_io_slowdown"])
    held = results.bins_of(chosen)
    if not held:
        return {}
    part = max(1, len(held) // 3)
    titled = {"low I/O load": held[:part], "high I/O load": held[-part:]} if len(held) > 1 else {"I/O load": held}
    return {
        f"{title}, {bins[0].low:g} to {bins[-1].high:g}": results.within(bins[0].low, bins[-1].high)
        for title, bins in titled.items()
    }


def spread(subject: Subject) -> Figure:
    """Figure 6: I/O-spread of the placements at a medium load, a panel for each of three allocators."""
    results = subject.results
    near = results.nearest_bin(results.select(), _SPREAD_LOAD)
    at_load = results.within(*near) if near else results.select()

    def draw(axes: Axes, allocate: str) -> None:
        masks = {place: results.select(allocate, place) & at_load for place in subject.placers}
        looks.boxes(axes, {p: results.runs["io_spread"][mask] for p, mask in masks.items()}, subject.placers)
        axes.set_title(printable(allocate), loc="left")
        _share_axis(axes, 1.0)

    cells = [(name,) for name in _spread_allocators(subject)] if near else []
    legend = [key(name, look, line=False) for name, look in subject.placers.items()]
    return draw_panels(cells, draw, ylabel="I/O spread (percentage points)", sharey=True, legend=legend)


def occupancy(subject: Subject) -> Figure:
    """Figure 7: the occupancy of every target by rank, a panel for each of three loads."""
    results = subject.results
    allocate = next(iter(_spread_allocators(subject)), "")
    chosen = results.select(allocate=allocate)

    def draw(axes: Axes, bin_: Bin) -> None:
        for place, look in subject.placers.items():
            rows = results.occupancy[results.select(allocate, place) & results.within(*bin_)]
            if len(rows):
                looks.draw_band(axes, looks.mean_of_rows(rows), look)
        axes.set_title(f"I/O load {bin_.label}", loc="left")
        _share_axis(axes, 1.02)

    near = dict.fromkeys(results.nearest_bin(chosen, load) for load in _OCCUPANCY_LOADS)
    return draw_panels(
        [(bin_,) for bin_ in near if bin_ is not None] if results.occupancy.size else (),
        draw,
        ylabel="occupancy (% of time)",
        xlabel="targets, from the busiest to the least busy",
        sharey=True,
        legend=[key(name, look) for name, look in subject.placers.items()],
    )


def _share_axis(axes: Axes, top: float) -> None:
    axes.set_ylim(0.0, top)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=None))


def robustness(subject: Subject) -> Figure:
    """Figure 12: the change of the slowdown, and the idle time, with class curves."""
    runs = subject.results.runs
    same = runs[["load", "set", "allocate", "place"]].tolist()
    slowdowns = zip(same, runs["mean_io_slowdown"].tolist(), runs["curves"], strict=True)
    true = {key: slowdown for key, slowdown, curves in slowdowns if curves == TRUE}
    before = np.array([true.get(key, np.nan) for key in same], dtype=float)
    slowdown: Floats = runs["mean_io_slowdown"]
    change = _by_combination(subject, 100.0 * (slowdown / before - 1.0))
    idle = _by_combination(subject, runs["machine_idle"] * 100.0)
    # The colour of the allocator with the marker and the dashes of the placement.
    combined = {
        f"{allocate} + {place}": replace(look, marker=other.marker, dashes=other.dashes)
        for (allocate, look), (place, other) in product(subject.allocators.items(), subject.placers.items())
    }

    def draw(axes: Axes, bands: Bands, title: str) -> None:
        scales.plot_by_load(axes, bands, combined, title=title)
        if bands is idle:
            scales.idle_axis(axes, idle)
        else:
            axes.axhline(0.0, color=INK, linewidth=0.8, zorder=1)
            axes.set_ylabel("change of mean I/O slowdown (%)")

    cells = [(change, "(a) class curves against true curves"), (idle, "(b) with class curves")]
    if not change:
        cells = [(idle, "with class curves")] if idle else []
    legend = [key(name, combined[name]) for name in idle]
    return draw_panels(cells, draw, xlabel=_LOAD, height=2.9, legend=legend, legend_columns=2)


def _by_combination(subject: Subject, values: Floats) -> Bands:
    """Return the values with class curves, for each allocator with each placement."""
    bands = {
        f"{allocate} + {place}": by_bin(subject.results, subject.results.select(allocate, place, CLASS), values)
        for allocate, place in product(subject.allocators, subject.placers)
    }
    return {name: band for name, band in bands.items() if band.x.size}
