"""The figure of one simulation: the targets of each application, their occupancy, and the slowdowns."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from forebay.model.arrays import Floats
from forebay.show.figures.looks import INK, annotate
from forebay.show.figures.sheet import WIDTH, Style, blank_sheet, house_style, printable, write

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
    """Draw one scenario to `out`: the targets of each application, its I/O slowdown, and the causes of the slowdown.

    The slowdown of an application that completed no phase is nan. Many applications are sorted by it and not named.
    """
    slow, cost, busy = (np.asarray(values, dtype=float) for values in (slowdown, rho_io, occupancy))
    named = len(names) <= _NAMED
    order = np.arange(len(names)) if named else np.argsort(-np.nan_to_num(slow, nan=np.inf), kind="stable")
    height = float(np.clip(0.15 * len(names), 0.9, 10.0))
    with house_style():
        figure = blank_sheet(WIDTH + 1.0, height + 2.0)
        grid = figure.add_gridspec(2, 2, width_ratios=(1.3, 1), height_ratios=(0.7, height))
        matrix = figure.add_subplot(grid[1, 0])
        above = figure.add_subplot(grid[0, 0], sharex=matrix)
        above.bar(np.arange(busy.size), busy, width=0.85 if busy.size <= 200 else 1.0, color=_BUSY)
        above.set(ylim=(0.0, 1.0), ylabel="occupancy\n(% of time)")
        above.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=None))
        above.tick_params(labelbottom=False)
        above.grid(axis="x", visible=False)
        _draw_matrix(matrix, [placement[i] for i in order], busy.size)
        _draw_slowdown(figure.add_subplot(grid[1, 1], sharey=matrix), slow[order], cost[order], named=named)
        if named:
            matrix.set_yticks(range(len(names)), [printable(names[i], 40) for i in order], fontsize=6.5)
            matrix.tick_params(axis="y", length=0)
        else:
            matrix.set_ylabel("applications, from the slowest")
        labels = {
            _OWN: "on this target",
            _IO: r"$\rho_{\mathrm{io}}$, from the number of targets",
            _CON: r"$\rho_{\mathrm{con}}$, from congestion",
        }
        if np.isnan(slow).any():
            labels[_STUCK] = "no phase completed"
        entries = [Patch(color=colour, label=label) for colour, label in labels.items()]
        figure.legend(handles=entries, loc="outside lower center", ncols=4, handlelength=1.4)
        return write(figure, out)


def _draw_matrix(axes: Axes, placement: Sequence[Sequence[int]], targets: int) -> None:
    held = np.zeros((len(placement), targets))
    for row, targets_held in zip(held, placement, strict=True):
        row[list(targets_held)] = 1.0
    edges: Style = {"edgecolors": "white", "linewidth": 0.8} if max(held.shape) <= _NAMED else {}
    x, y = np.arange(targets + 1) - 0.5, np.arange(len(held) + 1) - 0.5
    # Thousands of cells as vectors would make a PDF that is slow to open.
    axes.pcolormesh(x, y, held, cmap=_CELLS, vmin=0.0, vmax=1.0, rasterized=not edges, **edges)
    axes.set(xlabel="target", ylim=(len(held) - 0.5, -0.5))
    axes.xaxis.set_major_locator(MaxNLocator(20 if targets <= 40 else 10, integer=True, min_n_ticks=1))
    axes.grid(visible=False)


def _draw_slowdown(axes: Axes, slowdown: Floats, rho_io: Floats, *, named: bool) -> None:
    known = slowdown[np.isfinite(slowdown)]
    # A few very slow applications would hide the differences of all others.
    end = float(max(1.5, min(1.02 * known.max(), 6 * np.median(known)))) if known.size else 1.5
    rows = np.arange(slowdown.size)
    thickness = 0.8 if named else 1.0
    stuck = np.isnan(slowdown)
    axes.barh(rows[stuck], end, height=thickness, color=_STUCK)
    axes.barh(rows, np.where(stuck, 0.0, rho_io), height=thickness, color=_IO)
    axes.barh(rows, np.where(stuck, 0.0, slowdown - rho_io).clip(0), left=rho_io, height=thickness, color=_CON)
    axes.axvline(1.0, color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
    cut = "; longer bars are cut" if known.size and known.max() > end else ""
    axes.set(xlim=(0.0, end), xlabel=f"I/O slowdown (times){cut}")
    axes.tick_params(labelleft=False, left=False)
    axes.grid(axis="y", visible=False)
    for row, value in enumerate(slowdown.tolist() if named else ()):
        if value == value:
            how: Style = {"color": "black", "fontsize": 6, "va": "center", "annotation_clip": False}
            annotate(axes, f"{value:.3g}", (min(value, end), row), (2, 0), **how)
