"""What each window and each scheduler wins and loses against fifo."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from forebay.show.figures.boxes import boxes
from forebay.show.figures.looks import INK, key, looks_of
from forebay.show.figures.sheet import WIDTH, Sketch, legend_above, panels
from forebay.show.phrases import format_binary
from forebay.show.rows import Floats
from forebay.studies.request_windows.figures.looks import PATTERNS, SCHEDULERS
from forebay.studies.request_windows.results import FIFO, TWINS, RequestWindowsResults
from forebay.studies.request_windows.view import SHORT, find_experiments, milliseconds, percent, values_of

_ROW, _ABOVE = 0.135, 0.36  # inches: of a situation, and over each panel
# Red and blue are told apart by nearly everybody; the sign is in the number too.
_COLOURS = "RdBu"
_WHISKERS = "Boxes hold the middle half, whiskers reach from the 10th to the 90th percentile; a line marks the median, "
_WHISKERS += "a marker the mean."


def heat(results: RequestWindowsResults) -> Sketch:
    """A panel for each pattern, operation and size of requests; a line for each number of nodes and processes."""
    gains = 100 * results.gains()
    kinds = list(dict.fromkeys((e.workload.operation, e.workload.request) for e in results.experiments))
    patterns = values_of(results, "pattern")
    places = sorted({(e.nodes, e.workload.processes) for e in results.experiments})
    height = len(kinds) * (len(places) * _ROW + _ABOVE) + 0.55
    figure = Figure(figsize=(WIDTH, height))
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(kinds), len(patterns), squeeze=False)
    norm = _norm(gains)
    for (down, (operation, request)), (across, pattern) in product(enumerate(kinds), enumerate(patterns)):
        axes = grid[down, across]
        chosen = find_experiments(results, pattern=pattern, operation=operation, request=request)
        table = np.full((len(places), gains.shape[1]), np.nan)
        for e in chosen:
            experiment = results.experiments[e]
            table[places.index((experiment.nodes, experiment.workload.processes))] = gains[e]
        _cells(axes, table, norm)
        axes.set_title(f"{SHORT[pattern]}, {operation}, {format_binary(request)}", loc="left", fontsize=7.5, pad=3)
        _labels(axes, results, places, left=across == 0, below=down == len(kinds) - 1)
    bar = figure.colorbar(axes.images[0], ax=grid.ravel().tolist(), location="bottom", shrink=0.5, aspect=45, pad=0.01)
    bar.set_label("bandwidth over fifo (%)")
    bar.outline.set_visible(False)
    figure.supylabel("I/O nodes, processes", fontsize=8)
    return Sketch(
        name="figure-windows",
        title="What each window wins or loses over fifo, in every situation",
        caption=f"Bandwidth of the whole run over that of fifo, in percent, of {gains.shape[0]} situations (lines: "
        f"I/O nodes, then processes) and {gains.shape[1]} windows (columns); blue wins, red loses, and the best window "
        f"of each situation is bold. Means of {_repetitions(results)}. Colours end at ±{norm.vmax:.0f} %, numbers "
        "don't. The server model is fitted to the paper's figures, so that this is no validation of them.",
        figure=figure,
    )


def spread(results: RequestWindowsResults) -> Sketch:
    """A panel for each operation and pattern, a box for each window."""
    gains = 100 * results.gains()
    kinds = [(operation, pattern) for operation in values_of(results, "operation") for pattern in SHORT]
    kinds = [kind for kind in kinds if find_experiments(results, operation=kind[0], pattern=kind[1]).size]
    figure, grid = panels(len(kinds), columns=3, height=1.9, sharey="row")
    for axes, (operation, pattern) in zip(grid, kinds, strict=True):
        gained = gains[find_experiments(results, operation=operation, pattern=pattern)]
        named = {milliseconds(w): gained[:, k] for k, w in enumerate(results.windows)}
        boxes(axes, named, dict.fromkeys(named, PATTERNS[pattern]))
        axes.set_xticks(range(len(named)), list(named), fontsize=6.5)
        axes.axhline(0, color=INK, linewidth=0.8, zorder=1)
        axes.set_title(f"{SHORT[pattern]}, {operation}s ({len(gained)})", loc="left")
    for axes in grid[::3]:
        axes.set_ylabel("bandwidth over fifo (%)")
    figure.supxlabel("window (ms)", fontsize=8)
    return Sketch(
        name="figure-windows-spread",
        title="The same as distributions over situations, for each pattern and operation",
        caption=f"Bandwidth over that of fifo; in brackets, how many situations there are. {_WHISKERS}",
        figure=figure,
    )


def schedulers(results: RequestWindowsResults) -> Sketch:
    """A panel for each operation and pattern, a box for each scheduler but fifo."""
    over = {name: 100 * (ratio - 1) for name, ratio in results.schedulers().items() if name != FIFO}
    names = sorted(over, key=lambda name: (name != TWINS, -float(np.median(over[name]))))
    looks = looks_of(names, SCHEDULERS)
    kinds = [(operation, pattern) for operation in values_of(results, "operation") for pattern in SHORT]
    kinds = [kind for kind in kinds if find_experiments(results, operation=kind[0], pattern=kind[1]).size]
    figure, grid = panels(len(kinds), columns=3, height=1.8, sharey="row")
    for axes, (operation, pattern) in zip(grid, kinds, strict=True):
        chosen = find_experiments(results, operation=operation, pattern=pattern)
        boxes(axes, {name: over[name][chosen] for name in names}, looks)
        axes.axhline(0, color=INK, linewidth=0.8, zorder=1)
        axes.set_title(f"{SHORT[pattern]}, {operation}s ({chosen.size})", loc="left")
    for axes in grid[::3]:
        axes.set_ylabel("bandwidth over fifo (%)")
    entries = [key(f"{name} (best window)" if name == TWINS else name, looks[name], line=False) for name in names]
    legend_above(figure, entries)
    return Sketch(
        name="figure-schedulers",
        title="All schedulers over fifo",
        caption="Bandwidth over that of fifo, in all situations of each pattern and operation (how many, in "
        "brackets). twins has the best of its windows in each situation, as if it was known; the others have their "
        "own settings, and run once. One program with requests of one size leaves some nothing to choose from. "
        f"{_WHISKERS}",
        figure=figure,
    )


def _norm(gains: Floats) -> Normalize:
    """The same both ways, and not stretched by the few largest."""
    limit = max(10.0 * np.ceil(np.nanpercentile(np.abs(gains), 95) / 10), 10.0)
    return Normalize(-limit, limit)


def _cells(axes: Axes, table: Floats, norm: Normalize) -> None:
    axes.imshow(table, cmap=_COLOURS, norm=norm, aspect="auto", interpolation="none")
    for (y, x), value in np.ndenumerate(table):
        if np.isfinite(value):
            how: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 5.4}
            how["color"] = "white" if abs(value) > 0.68 * float(norm.vmax or 1) else "black"
            how["weight"] = "bold" if value == np.nanmax(table[y]) else "normal"
            axes.text(x, y, percent(value / 100).removesuffix(" %").replace("-", "\N{MINUS SIGN}"), **how)
    axes.grid(visible=False)


def _labels(
    axes: Axes, results: RequestWindowsResults, places: list[tuple[int, int]], *, left: bool, below: bool
) -> None:
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    labels = [f"{nodes},{processes:>4}" for nodes, processes in places]
    axes.set_yticks(range(len(places)), labels if left else [""] * len(labels), fontsize=5.8, family="DejaVu Sans Mono")
    names = [milliseconds(w) for w in results.windows]
    axes.set_xticks(range(len(names)), names if below else [""] * len(names), fontsize=6)
    if below:
        axes.set_xlabel("window (ms)", fontsize=7, labelpad=2)
    for y, (above, this) in enumerate(pairwise(places)):
        if above[0] != this[0]:
            axes.axhline(y + 0.5, color="white", linewidth=1.6)


def _repetitions(results: RequestWindowsResults) -> str:
    count = int(results.periods["repetition"].max(initial=0)) + 1
    return f"{count} repetition{'s' * (count > 1)}"
