"""The runs of an application over time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from forebay.model.units import plural
from forebay.show.figures.looks import FAINT
from forebay.show.figures.scales import bandwidth_axis, date_axis
from forebay.show.figures.sheet import house_style, legend_above, panels, write
from forebay.show.figures.text import printable

_DAY = 86_400.0
_MOST_COUNTS = 8
_POINT = np.dtype([("time", "f8"), ("perf", "f8"), ("count", "i8"), ("partial", "?")])


def draw_runs(app: str, runs: Iterable[dict[str, Any]], out: Path) -> Path:
    """Write to `out` a point for each run: when it started, its performance, its stripe count as the colour.

    Runs from partial logs are crosses; runs without I/O that could be timed are left out, and counted.
    """
    rows = ((r["start_time"], r["perf_by_slowest"], r["stripe_count"] or 0, r["partial_flag"]) for r in runs)
    every = np.fromiter(rows, dtype=_POINT)
    points = every[every["perf"] > 0]
    with house_style():
        figure, (axes,) = panels(1, height=3.0, columns=1)
        figure.set_figwidth(7.2)
        groups = _groups(points["count"])
        entries = [entry for label, colour, mask in groups for entry in _draw(axes, points, mask, label, colour)]
        _axes(axes, points)
        axes.set_title(f"{printable(app)}: {_which(points.size, every.size)}", loc="left")
        if entries:
            legend_above(figure, entries, columns=5)
        return write(figure, out)


def _which(drawn: int, every: int) -> str:
    """
    >>> _which(40, 40), _which(39, 40), _which(0, 2)
    ('40 runs', '39 of 40 runs; 1 had no I/O that could be timed', 'none of 2 runs had I/O that could be timed')
    """
    if not drawn:
        return f"none of {plural(every, 'run')} had I/O that could be timed"
    left_out = f"; {every - drawn:,} had no I/O that could be timed"
    return plural(drawn, "run") if drawn == every else f"{drawn:,} of {plural(every, 'run')}{left_out}"


def _groups(counts: Any) -> list[tuple[str, Any, Any]]:
    """Label, colour and mask of each stripe count, or of bins of them if they are many."""
    known = sorted({int(n) for n in counts if n})
    bins = [(n, n) for n in known]
    if len(known) > _MOST_COUNTS:
        exponents = sorted({(n - 1).bit_length() for n in known})
        bins = [((1 << k - 1) + 1 if k else 1, 1 << k) for k in exponents]
    shades = colormaps["viridis"](np.linspace(0.0, 0.88, max(len(bins), 2)))
    made = []
    for (low, high), shade in zip(bins, shades, strict=False):
        label = f"{low} OST{'' if high == 1 else 's'}" if low == high else f"{low}–{high} OSTs"
        made.append((label, shade, (counts >= low) & (counts <= high)))
    if (counts == 0).any():
        made.append(("OSTs unknown", FAINT, counts == 0))
    return made


def _draw(axes: Axes, points: Any, mask: Any, label: str, colour: Any) -> list[Line2D]:
    """The entries of the legend for what is drawn."""
    entries = []
    size = 3.5 if points.size < 2000 else 1.8
    for partial, marker in ((False, "o"), (True, "x")):
        shown = points[mask & (points["partial"] == partial)]
        if not shown.size:
            continue
        named = f"{label}, partial log" if partial else label
        entries.append(Line2D([], [], color=colour, marker=marker, linestyle="none", label=named))
        axes.plot(
            shown["time"] / _DAY, shown["perf"], linestyle="none", marker=marker, markersize=size, color=colour,
            alpha=0.8, markeredgewidth=0.8 if partial else 0, zorder=3, rasterized=True,
        )  # fmt: skip
    return entries


def _axes(axes: Axes, points: Any) -> None:
    axes.set_ylabel("performance by the slowest process")
    if not points.size:
        axes.set_xticks([])
        axes.set_yticks([])
        return
    days = points["time"] / _DAY
    margin = 0.02 * (days.max() - days.min()) or 0.5
    axes.set_xlim(days.min() - margin, days.max() + margin)
    date_axis(axes, 3, 9)
    bandwidth_axis(axes, "y", points["perf"])
