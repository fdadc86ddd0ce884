"""The picture of one simulation: who is on which targets, how busy those are, and who pays for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from forebay.show.figures.looks import INK
from forebay.show.figures.sheet import WIDTH, house_style, printable, write
from forebay.show.rows import Floats

_OWN, _IO, _CON, _BUSY, _STUCK = "#0072B2", "#56B4E9", "#D55E00", "#7F7F7F", "#DDDDDD"
_CELLS = ListedColormap(["#F1F1F1", _OWN])
_NAMED = 80  # more applications than this have no room for names


def draw_simulation(
    names: Sequence[str],
    placement: Sequence[Sequence[int]],
    slowdown: Sequence[float] | Floats,
    rho_io: Sequence[float] | Floats,
    occupancy: Sequence[float] | Floats,
    out: Path,
) -> Path:
    """Write a picture of one scenario to `out`, as PNG or, if its suffix says so, as PDF.

    A row for each application: the targets that it is on, and its I/O slowdown, split into what
    its number of targets costs (rho_io) and what congestion does; nan is an application that
    completed no phase. Above them the occupancy of each target. More than 80 applications are
    ranked by slowdown and not named.
    """
    slow, cost = np.asarray(slowdown, dtype=float), np.asarray(rho_io, dtype=float)
    named = len(names) <= _NAMED
    order = np.arange(len(names)) if named else np.argsort(-np.nan_to_num(slow, nan=np.inf), kind="stable")
    with house_style():
        figure, above, matrix, bars = _layout(len(names))
        _draw_occupancy(above, np.asarray(occupancy, dtype=float))
        _draw_matrix(matrix, [placement[i] for i in order], len(occupancy))
        _draw_slowdown(bars, slow[order], cost[order], named=named)
        _label_rows(matrix, [printable(names[i], 40) for i in order] if named else None)
        _legend(figure, stuck=bool(np.isnan(slow).any()))
        return write(figure, out)


def _layout(rows: int) -> tuple[Figure, Axes, Axes, Axes]:
    height = float(np.clip(0.15 * rows, 0.9, 10.0))
    figure = Figure(figsize=(WIDTH + 1.0, height + 2.0))
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2, width_ratios=(1.3, 1), height_ratios=(0.7, height))
    matrix = figure.add_subplot(grid[1, 0])
    above = figure.add_subplot(grid[0, 0], sharex=matrix)
    bars = figure.add_subplot(grid[1, 1], sharey=matrix)
    return figure, above, matrix, bars


def _draw_occupancy(axes: Axes, occupancy: Floats) -> None:
    axes.bar(np.arange(occupancy.size), occupancy, width=0.85 if occupancy.size <= 200 else 1.0, color=_BUSY)
    axes.set_ylim(0.0, 1.0)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=None))
    axes.set_ylabel("occupancy\n(% of time)")
    axes.tick_params(labelbottom=False)
    axes.grid(axis="x", visible=False)


def _draw_matrix(axes: Axes, placement: Sequence[Sequence[int]], targets: int) -> None:
    held = np.zeros((len(placement), targets))
    for row, targets_held in zip(held, placement, strict=True):
        row[list(targets_held)] = 1.0
    edges: dict[str, Any] = {"edgecolors": "white", "linewidth": 0.8} if max(held.shape) <= _NAMED else {}
    x, y = np.arange(targets + 1) - 0.5, np.arange(len(held) + 1) - 0.5
    # Thousands of cells as vectors would make a PDF that is slow to open.
    axes.pcolormesh(x, y, held, cmap=_CELLS, vmin=0.0, vmax=1.0, rasterized=not edges, **edges)
    axes.set_ylim(len(held) - 0.5, -0.5)
    axes.set_xlabel("target")
    axes.xaxis.set_major_locator(MaxNLocator(20 if targets <= 40 else 10, integer=True, min_n_ticks=1))
    axes.grid(visible=False)


def _draw_slowdown(axes: Axes, slowdown: Floats, rho_io: Floats, *, named: bool) -> None:
    known = slowdown[np.isfinite(slowdown)]
    # A few very slow applications would press all others against the axis.
    end = float(max(1.5, min(1.02 * known.max(), 6 * np.median(known)))) if known.size else 1.5
    rows = np.arange(slowdown.size)
    thickness = 0.8 if named else 1.0
    stuck = np.isnan(slowdown)
    axes.barh(rows[stuck], end, height=thickness, color=_STUCK)
    axes.barh(rows, np.where(stuck, 0.0, rho_io), height=thickness, color=_IO)
    axes.barh(rows, np.where(stuck, 0.0, slowdown - rho_io).clip(0), left=rho_io, height=thickness, color=_CON)
    axes.axvline(1.0, color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
    axes.set_xlim(0.0, end)
    axes.set_xlabel("I/O slowdown (times)" + ("; longer bars are cut" if known.size and known.max() > end else ""))
    axes.tick_params(labelleft=False, left=False)
    axes.grid(axis="y", visible=False)
    for row, value in enumerate(slowdown if named else ()):
        text = "" if np.isnan(value) else f"{value:.3g}"
        axes.annotate(
            text,
            (min(value, end) if value == value else end, row),
            (2, 0),
            textcoords="offset points",
            fontsize=6,
            va="center",
            annotation_clip=False,
        )


def _label_rows(axes: Axes, labels: Sequence[str] | None) -> None:
    """Names beside the rows, or ranks if there are too many for names."""
    if labels is None:
        axes.set_ylabel("applications, from the slowest")
        return
    axes.set_yticks(range(len(labels)), labels, fontsize=6.5)
    axes.tick_params(axis="y", length=0)


def _legend(figure: Figure, *, stuck: bool) -> None:
    entries = [
        Patch(color=_OWN, label="on this target"),
        Patch(color=_IO, label=r"$\rho_{\mathrm{io}}$, from the number of targets"),
        Patch(color=_CON, label=r"$\rho_{\mathrm{con}}$, from congestion"),
    ]
    if stuck:
        entries.append(Patch(color=_STUCK, label="no phase completed"))
    figure.legend(handles=entries, loc="outside lower center", ncols=4, handlelength=1.4)
