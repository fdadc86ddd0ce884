"""Stripe counts and stripe sizes of all runs, as bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from forebay.model.layout import DEFAULT_SIZE
from forebay.profile.filesystem_usage import DEFAULT_COUNT, Bin, Usage
from forebay.show.figures.looks import FAINT, INK
from forebay.show.figures.sheet import house_style, panels, write
from forebay.show.history.tables import format_share
from forebay.show.phrases import format_binary

_DEFAULT, _OTHER = "#0072B2", FAINT


def draw_usage(usage: Usage, out: Path) -> Path:
    """Write to `out` how many runs are in each bin of stripe counts and sizes, on a logarithmic scale.

    The bar of what a file system does by itself is dark; every bar carries its share.
    """
    with house_style():
        figure, (left, right) = panels(2, columns=2, height=3.0)
        counts, sizes = usage.stripe_counts, usage.stripe_sizes
        _draw(left, counts, [b.label for b in counts], DEFAULT_COUNT)
        left.set_title(_title("OSTs of a run", usage.default_count, "one"), loc="left")
        left.set_xlabel("OSTs that the run used")
        left.set_ylabel("runs")
        _draw(right, sizes, [format_binary(b.low).replace(" ", "\n") for b in sizes], DEFAULT_SIZE)
        right.set_title(_title("stripe size", usage.default_size, "1 MiB"), loc="left")
        right.set_xlabel("stripe size")
        if usage.default_layout is not None:
            share = format_share(usage.default_layout)
            figure.suptitle(f"{share} of the runs have files of one 1 MiB stripe each, the default", fontsize=8.5)
        return write(figure, out)


def _title(what: str, share: float | None, value: str) -> str:
    return f"{what}: no run tells" if share is None else f"{what}: {format_share(share)} of the runs have {value}"


def _draw(axes: Axes, bins: Sequence[Bin], labels: Sequence[str], default: int) -> None:
    x, runs = np.arange(len(bins)), np.array([b.runs for b in bins], dtype=float)
    colours = [_DEFAULT if b.low == default else _OTHER for b in bins]
    axes.bar(x, np.where(runs > 0, runs, np.nan), 0.75, bottom=0, color=colours, zorder=2)
    crowded = len(bins) > 6
    axes.set_xticks(x, labels, fontsize=6.5 if crowded else 7.5)
    if crowded:
        axes.tick_params(axis="x", rotation=40)
    middle, half = (len(bins) - 1) / 2, max(len(bins), 4) / 2 + 0.1
    axes.set_xlim(middle - half, middle + half)
    axes.grid(axis="x", visible=False)
    top = max(float(runs.max(initial=0)), 1.0)
    axes.set_yscale("log")
    axes.set_ylim(0.6, top * 4)
    axes.yaxis.set_major_locator(LogLocator(numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    for at, b in zip(x, bins, strict=True):
        if b.runs:
            where = (float(at), float(b.runs))
            axes.annotate(
                format_share(b.share), where, (0, 2), textcoords="offset points", ha="center", fontsize=6, color=INK
            )
