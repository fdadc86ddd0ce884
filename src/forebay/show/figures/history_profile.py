"""An application's bandwidth by number of OSTs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from forebay.model.units import format_bandwidth
from forebay.profile.application import Profile
from forebay.show.figures.looks import INK
from forebay.show.figures.series import Floats
from forebay.show.figures.sheet import house_style, panels, write
from forebay.show.figures.words import printable
from forebay.show.history_tables import short

_LINE = "#0072B2"


def draw_profile(profile: Profile, out: Path) -> Path:
    """Write to `out` b(n): the median of the runs on n OSTs, 10 to 90 % of them, and how many there were."""
    with house_style():
        figure, (axes,) = panels(1, height=3.2)
        processes = f"{profile.processes} process{'' if profile.processes == 1 else 'es'}"
        axes.set_title(f"{printable(profile.app)}, {processes}: bandwidth by OSTs", loc="left")
        axes.set_xlabel("OSTs that the run used, n")
        axes.set_ylabel("b(n), performance by the slowest process")
        if profile.points:
            _draw(axes, profile)
        else:
            axes.text(0.5, 0.5, "no whole run tells its OSTs", transform=axes.transAxes, ha="center", color=INK)
            axes.set_xticks([])
            axes.set_yticks([])
        return write(figure, out)


def _draw(axes: Axes, profile: Profile) -> None:
    points = profile.points
    n = np.array([p.n for p in points], dtype=float)
    middle, low, high = (np.array([getattr(p.perf, name) for p in points]) for name in ("median", "p10", "p90"))
    axes.errorbar(
        n, middle, (middle - low, high - middle), color=_LINE, marker="o", markersize=4, linewidth=1.3, capsize=3,
        elinewidth=0.9, zorder=3,
    )  # fmt: skip
    for point, top in zip(points, high, strict=True):
        told = f"{point.perf.runs:,} run{'' if point.perf.runs == 1 else 's'}"
        how: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 6.5, "color": INK}
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.8}  # over the line, still to be read
        axes.annotate(told, (point.n, top), (0, 6), bbox=box, zorder=4, **how)
    axes.set_ylim(0, 1.18 * float(high.max()))
    axes.set_xscale("log", base=2)
    axes.set_xlim(n.min() / 1.5, n.max() * 1.5)
    axes.set_xticks(_ticks(n), [f"{value:g}" for value in _ticks(n)])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(format_bandwidth(value)) if value else "0"))


def _ticks(counts: Floats) -> list[float]:
    """The numbers of OSTs there are, without those too close to the one before."""
    kept: list[float] = []
    for count in counts.tolist():
        if not kept or count >= 1.25 * kept[-1]:
            kept.append(count)
    return kept
