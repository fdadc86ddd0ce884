"""Figures of the history: applications, OSTs, runs of one application, and use of the file system."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from forebay.history.run_fields import Row
from forebay.history.store.totals import AppSums
from forebay.model.arrays import Floats
from forebay.model.layout import DEFAULT_SIZE
from forebay.model.units import format_binary, plural
from forebay.profile.filesystem_usage import DEFAULT_COUNT, Bin, Usage
from forebay.profile.ost_health import OstHealth
from forebay.show.figures.looks import FAINT, INK, annotate, centre_groups
from forebay.show.figures.scales import bandwidth_axis, date_axis
from forebay.show.figures.sheet import WIDTH, Style, blank_sheet, house_style, legend_above, panels, printable, write
from forebay.show.phrases import format_share, size

_NAMED = 6
_TOP = 15


def draw_apps(apps: Sequence[AppSums], where: str, out: Path) -> Path:
    """Write to `out` the runs and volume of each application, and the performance of those with most runs.

    `where` names the file systems in the title; "" if none is known.
    """
    with house_style():
        figure, (left, right) = panels(2, columns=2, height=3.4)
        if where:
            figure.suptitle(f"Runs on {printable(where)}", fontsize=8.5)
        _draw_volumes(left, apps)
        _draw_performance(right, [app for app in apps if app.mean_perf][:_TOP])
        return write(figure, out)


def _draw_volumes(axes: Axes, apps: Sequence[AppSums]) -> None:
    moved = [app for app in apps if app.total_bytes > 0]
    axes.scatter([a.runs for a in moved], [a.total_bytes for a in moved], s=14, color="#0072B2", alpha=0.6, zorder=3)
    title = f"{plural(len(apps), 'application')}: runs and volume"
    axes.set(title=title, xlabel="runs", ylabel="volume", xscale="log", yscale="log")
    axes.margins(0.15)
    named: list[AppSums] = []
    for app in (*sorted(moved, key=lambda a: -a.total_bytes)[:_NAMED], *moved[:_NAMED]):
        near = (
            abs(math.log10(app.total_bytes / k.total_bytes)) < 0.5 and abs(math.log10(app.runs / k.runs)) < 1.0
            for k in named
        )
        if any(near):
            continue  # the names would overlap
        named.append(app)
        left = app.runs**2 > max(a.runs for a in moved)  # a name to the right of the edge would be cut off
        side, shift = ("right", -4) if left else ("left", 4)
        annotate(axes, printable(app.app, 20), (app.runs, app.total_bytes), (shift, 3), ha=side, fontsize=6)
    axes.xaxis.set_major_locator(_count_ticks(max((a.runs for a in moved), default=1)))
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    for axis, form in ((axes.xaxis, "{:,.0f}".format), (axes.yaxis, size)):
        axis.set_major_formatter(FuncFormatter(lambda value, _, form=form: form(value)))
        axis.set_minor_formatter(NullFormatter())


def _count_ticks(most: float) -> LogLocator:
    """Powers of ten for a logarithmic axis, and 2 and 5 times these if there are few."""
    return LogLocator(subs=(1, 2, 5) if most < 100 else (1,), numticks=12)


def _draw_performance(axes: Axes, apps: Sequence[AppSums]) -> None:
    y = np.arange(len(apps))[::-1]
    mean = np.array([app.mean_perf for app in apps])
    best = np.array([app.best_perf for app in apps])
    axes.hlines(y, mean, best, color=FAINT, linewidth=1.6, zorder=2)
    axes.scatter(mean, y, s=12, color="#0072B2", zorder=4, label="mean")  # on top, because a single run has both
    axes.scatter(best, y, s=26, color="#D55E00", marker="D", zorder=3, label="best run")
    axes.set_yticks(y, [printable(app.app, 22) for app in apps], fontsize=6.5)
    axes.set(title="performance of the applications with the most runs", ylim=(-0.7, max(len(apps), 3) - 0.3))
    if apps:
        bandwidth_axis(axes, "x", np.concatenate((mean, best)), most_ticks=6)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, fontsize=7)


_COLOURS = {"sick": "#D55E00", "fine": "#0072B2", "too little data": FAINT}
_MARKERS = {"sick": "D", "fine": "o", "too little data": "x"}
_SICK_NAMED = 12
_MOST_SYSTEMS = 3


def draw_osts(osts: Sequence[OstHealth], out: Path) -> Path:
    """Write to `out`, for each file system, the bytes of each OST and, where known, its slowness; name sick OSTs.
    Of many file systems, show those with sick OSTs or most bytes."""
    every = [[o for o in osts if o.filesystem == name] for name in {o.filesystem: None for o in osts}]
    every.sort(key=lambda of_one: (-sum(o.verdict == "sick" for o in of_one), -sum(o.total_bytes for o in of_one)))
    systems = every[:_MOST_SYSTEMS]
    known = [any(o.slowness is not None for o in of_one) for of_one in systems]
    count = len(systems) + sum(known)
    with house_style():
        figure = blank_sheet(WIDTH, 2.1 * count)
        axes = iter(figure.subplots(count, 1, squeeze=False)[:, 0])
        for of_one, has_slowness in zip(systems, known, strict=True):
            above = last = next(axes)
            _draw_bytes(above, of_one)
            if has_slowness:
                last = next(axes)
                last.sharex(above)
                above.tick_params(labelbottom=False)
                _draw_slowness(last, of_one)
            last.set_xlabel("OST")
            last.xaxis.set_major_locator(MaxNLocator(12, integer=True))
        part = f"{len(systems)} of {len(every)} file systems; use --filesystem for another"
        shown = [o for of_one in systems for o in of_one]
        pointed = {o.verdict for o in shown if o.slowness is not None}
        entries = [
            Line2D([], [], color=colour, marker=_MARKERS[v] if v in pointed else "s", linestyle="none", label=v)
            for v, colour in _COLOURS.items()
            if any(o.verdict == v for o in shown)
        ]
        title = part if len(systems) < len(every) else None
        figure.legend(handles=entries, loc="outside lower center", ncols=3, title=title)
        return write(figure, out)


def _draw_bytes(axes: Axes, osts: Sequence[OstHealth]) -> None:
    wide = 0.8 if len(osts) <= 200 else 1.0
    axes.bar([o.ost for o in osts], [o.total_bytes for o in osts], wide, color=[_COLOURS[o.verdict] for o in osts])
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: size(round(value))))
    axes.grid(axis="x", visible=False)
    sick = sum(o.verdict == "sick" for o in osts)
    where = osts[0].filesystem or "unknown file system"
    axes.set(title=f"{where}: {plural(len(osts), 'OST')}, {sick or 'none'} sick", ylabel="volume")


def _draw_slowness(axes: Axes, osts: Sequence[OstHealth]) -> None:
    known = [o for o in osts if o.slowness is not None]
    for verdict, colour in _COLOURS.items():
        alike = [o for o in known if o.verdict == verdict]
        at, median, worst = (_column(alike, name) for name in ("ost", "slowness", "worst_slowness"))
        axes.vlines(at, median, worst, color=colour, linewidth=0.8, alpha=0.7, zorder=2)
        axes.scatter(at, median, s=22 if verdict == "sick" else 10, color=colour, marker=_MARKERS[verdict], zorder=3)
    low, high = _column(known, "slowness").min(initial=1), _column(known, "worst_slowness").max(initial=1)
    limits = (min(0.5, 0.8 * low), max(2.5, 1.6 * high))
    axes.set(yscale="log", ylim=limits, ylabel="slowness in a run:\nmedian, up to the worst")
    axes.axhline(1, color=INK, linewidth=0.8, linestyle=(0, (3, 2)), zorder=2)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    for o in [o for o in known if o.verdict == "sick"][:_SICK_NAMED]:
        label = f"OST {o.ost}: {o.slowness:.3g} times the median OST"
        if o.compared_runs > 1:
            label += f", at worst {o.worst_slowness:.3g}"
        side, shift = ("right", -6) if o.ost > 0.7 * max(o.ost for o in osts) else ("left", 6)
        how: Style = {"ha": side, "va": "center", "fontsize": 7, "color": _COLOURS["sick"]}
        annotate(axes, label, (o.ost, o.worst_slowness or 1.0), (shift, 0), **how)


def _column(osts: Sequence[OstHealth], name: str) -> Floats:
    values: Floats = np.array([getattr(o, name) for o in osts], dtype=float)
    return values


_DAY = 86_400.0
_MOST_COUNTS = 8
_POINT = np.dtype([("time", "f8"), ("perf", "f8"), ("count", "i8"), ("partial", "?")])


def draw_runs(app: str, runs: Iterable[Row], out: Path) -> Path:
    """Write to `out` a point for each run: start time, performance, and stripe count as the colour."""
    mounts: set[str] = set()

    def measure(run: Row) -> tuple[float, float, int, bool]:
        mounts.add(run["filesystem"] or "")
        return run["start_time"], run["perf_by_slowest"], run["stripe_count"] or 0, run["partial_flag"]

    every = np.fromiter(map(measure, runs), dtype=_POINT)
    points = every[every["perf"] > 0]
    with house_style():
        figure, (axes,) = panels(1, height=3.0, width=WIDTH)
        entries: list[Line2D] = []
        for label, colour, mask in _stripe_groups(points["count"]):
            for partial, marker in ((False, "o"), (True, "x")):
                shown = points[mask & (points["partial"] == partial)]
                if shown.size:
                    named = f"{label}, partial log" if partial else label
                    entries.append(Line2D([], [], color=colour, marker=marker, linestyle="none", label=named))
                    size, edge = 3.5 if points.size < 2000 else 1.8, 0.8 if partial else 0
                    dots: Style = {"marker": marker, "markersize": size, "markeredgewidth": edge, "alpha": 0.8}
                    x, y = shown["time"] / _DAY, shown["perf"]
                    axes.plot(x, y, linestyle="none", color=colour, zorder=3, rasterized=True, **dots)
        known = mounts - {""}
        place = f"{len(known)} file systems" if len(known) > 1 else printable("".join(known))
        title = f"{printable(app)}{f' on {place}' if place else ''}: {_describe_drawn(points.size, every.size)}"
        axes.set(title=title, ylabel="performance by the slowest process")
        if points.size:
            days = points["time"] / _DAY
            margin = 0.02 * (days.max() - days.min()) or 0.5
            axes.set_xlim(days.min() - margin, days.max() + margin)
            date_axis(axes, 3, 9)
            bandwidth_axis(axes, "y", points["perf"])
            legend_above(figure, entries, columns=5)
        else:
            axes.set(xticks=[], yticks=[])
        return write(figure, out)


def _describe_drawn(drawn: int, every: int) -> str:
    """
    >>> _describe_drawn(40, 40), _describe_drawn(39, 40), _describe_drawn(0, 2)
    ('40 runs', '39 of 40 runs; 1 without timed I/O', 'none of 2 runs has timed I/O')
    """
    if not drawn:
        return f"none of {plural(every, 'run')} has timed I/O"
    left_out = f"; {every - drawn:,} without timed I/O"
    return plural(drawn, "run") if drawn == every else f"{drawn:,} of {plural(every, 'run')}{left_out}"


def _stripe_groups(counts: Any) -> list[tuple[str, Any, Any]]:
    """Return the label, colour and mask of each stripe count, or of bins if there are many counts."""
    known = sorted({int(n) for n in counts if n})
    bins = [(n, n) for n in known]
    if len(known) > _MOST_COUNTS:
        exponents = sorted({(n - 1).bit_length() for n in known})
        bins = [((1 << k - 1) + 1 if k else 1, 1 << k) for k in exponents]
    shades = colormaps["viridis"](np.linspace(0.0, 0.88, max(len(bins), 2)))
    made = []
    for (low, high), shade in zip(bins, shades, strict=False):
        label = plural(low, "OST") if low == high else f"{low}–{high} OSTs"
        made.append((label, shade, (counts >= low) & (counts <= high)))
    if (counts == 0).any():
        made.append(("OSTs unknown", FAINT, counts == 0))
    return made


_DEFAULT, _OTHER = "#0072B2", FAINT


def draw_usage(usage: Usage, where: str, out: Path) -> Path:
    """Write to `out` how many runs are in each bin of stripe counts and sizes, on a logarithmic scale.

    `where` names the file systems in the title; "" if none is known.
    """
    counts, sizes = usage.stripe_counts, usage.stripe_sizes
    labels = [b.label for b in counts], [format_binary(b.low).replace(" ", "\n") for b in sizes]
    kinds = (
        ("OSTs of a run", "OSTs that the run used", counts, labels[0], usage.default_count, "one", DEFAULT_COUNT),
        ("stripe size", "stripe size", sizes, labels[1], usage.default_size, "1 MiB", DEFAULT_SIZE),
    )
    with house_style():
        figure, grid = panels(2, columns=2, height=3.0)
        for axes, (what, xlabel, bins, names, share, value, default) in zip(grid, kinds, strict=True):
            _draw_bins(axes, bins, names, default)
            known = "unknown" if share is None else f"{format_share(share)} of the runs have {value}"
            axes.set(title=f"{what}: {known}", xlabel=xlabel)
        grid[0].set_ylabel("runs")
        if usage.default_layout is not None:
            runs = f"{format_share(usage.default_layout)} of the runs{f' on {printable(where)}' if where else ''}"
            figure.suptitle(f"{runs} use the default layout, one stripe of 1 MiB", fontsize=8.5)
        return write(figure, out)


def _draw_bins(axes: Axes, bins: Sequence[Bin], labels: Sequence[str], default: int) -> None:
    x, runs = np.arange(len(bins)), np.array([b.runs for b in bins], dtype=float)
    colours = [_DEFAULT if b.low == default else _OTHER for b in bins]
    axes.bar(x, np.where(runs > 0, runs, np.nan), 0.75, bottom=0, color=colours, zorder=2)
    crowded = len(bins) > 6
    axes.set_xticks(x, labels, fontsize=6.5 if crowded else 7.5)
    if crowded:
        axes.tick_params(axis="x", rotation=40)
    centre_groups(axes, len(bins), 4)
    axes.set(yscale="log", ylim=(0.6, 4 * max(float(runs.max(initial=0)), 1.0)))
    axes.yaxis.set_major_locator(_count_ticks(float(runs.max(initial=0))))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    for at, b in zip(x, bins, strict=True):
        if b.runs:
            annotate(axes, format_share(b.share), (float(at), float(b.runs)), (0, 2), ha="center", fontsize=6)
