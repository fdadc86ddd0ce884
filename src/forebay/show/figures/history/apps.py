"""Which applications matter: runs, volume and performance of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from forebay.history.store.totals import AppSums
from forebay.model.units import format_size, plural
from forebay.show.figures.looks import FAINT, INK
from forebay.show.figures.scales import bandwidth_axis
from forebay.show.figures.sheet import house_style, panels, write
from forebay.show.figures.text import printable
from forebay.show.phrases import shorten

_NAMED = 6
_TOP = 15


def draw_apps(apps: Sequence[AppSums], out: Path) -> Path:
    """Write to `out` a point for each application, runs against volume; and the performance of those that ran most.

    The line beside each name goes from its mean to its best run.
    """
    with house_style():
        figure, (left, right) = panels(2, columns=2, height=3.4)
        _draw_volumes(left, apps)
        _draw_performance(right, [app for app in apps if app.mean_perf][:_TOP])
        return write(figure, out)


def _draw_volumes(axes: Axes, apps: Sequence[AppSums]) -> None:
    moved = [app for app in apps if app.total_bytes > 0]
    axes.set_title(f"{plural(len(apps), 'application')}: runs and volume", loc="left")
    axes.scatter([a.runs for a in moved], [a.total_bytes for a in moved], s=14, color="#0072B2", alpha=0.6, zorder=3)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(0.15)
    for app in _apart([*sorted(moved, key=lambda a: -a.total_bytes)[:_NAMED], *moved[:_NAMED]]):
        left = app.runs**2 > max(a.runs for a in moved)  # a name that starts at the edge would leave the picture
        axes.annotate(
            printable(app.app, 20),
            (app.runs, app.total_bytes),
            (-4 if left else 4, 3),
            textcoords="offset points",
            ha="right" if left else "left",
            fontsize=6,
            color=INK,
        )
    axes.set_xlabel("runs")
    axes.set_ylabel("volume")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shorten(format_size(value))))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())


def _apart(apps: Sequence[AppSums]) -> list[AppSums]:
    """Those whose names would not lie on each other."""
    kept: list[AppSums] = []
    for app in apps:
        near = (
            abs(math.log10(app.total_bytes / k.total_bytes)) < 0.5 and abs(math.log10(app.runs / k.runs)) < 1.0
            for k in kept
        )
        if not any(near):
            kept.append(app)
    return kept


def _draw_performance(axes: Axes, apps: Sequence[AppSums]) -> None:
    axes.set_title("performance of those that ran most", loc="left")
    y = np.arange(len(apps))[::-1]
    mean = np.array([app.mean_perf for app in apps])
    best = np.array([app.best_perf for app in apps])
    axes.hlines(y, mean, best, color=FAINT, linewidth=1.6, zorder=2)
    axes.scatter(mean, y, s=12, color="#0072B2", zorder=4, label="mean")  # over the other, where there is one run only
    axes.scatter(best, y, s=26, color="#D55E00", marker="D", zorder=3, label="best run")
    axes.set_yticks(y, [printable(app.app, 22) for app in apps], fontsize=6.5)
    axes.set_ylim(-0.7, max(len(apps), 3) - 0.3)
    if apps:
        bandwidth_axis(axes, "x", np.concatenate((mean, best)), most_ticks=6)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, fontsize=7)
