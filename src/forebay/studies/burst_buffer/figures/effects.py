"""Figures 7 and 8: how much the choice of a policy does, as Cohen's d."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from forebay.show.figures.looks import INK
from forebay.show.figures.sheet import Sketch, panels
from forebay.show.figures.text import printable
from forebay.show.phrases import describe_splitting, size
from forebay.show.rows import Floats
from forebay.studies.burst_buffer.figures.subject import StorageSubject, mode_title, width_for
from forebay.studies.burst_buffer.view import cohens_table

_MORE_LESS = LinearSegmentedColormap.from_list("more-less", ["#D55E00", "#FFFFFF", "#0072B2"])
_FULL_COLOUR = 2.0  # Cohen calls 0.8 large


def mean_effects(subject: StorageSubject) -> Sketch | None:
    """Figure 7."""
    return _effects(subject, "mean_allocations", "figure-07-effect-on-mean-allocations", "mean")


def max_effects(subject: StorageSubject) -> Sketch | None:
    """Figure 8."""
    return _effects(subject, "max_allocations", "figure-08-effect-on-maximum-allocations", "maximum")


def _effects(subject: StorageSubject, metric: str, name: str, word: str) -> Sketch | None:
    view = subject.view
    tables = {mode: cohens_table(view, metric, mode) for mode in view.modes}
    tables = {mode: (names, table) for mode, (names, table) in tables.items() if len(names) > 1}
    if not tables:
        return None
    most = max(len(names) for names, _ in tables.values())
    height = min(7.0, 1.1 + 0.33 * most)
    figure, grid = panels(len(tables), columns=len(tables), height=height, width=width_for(len(tables)))
    for axes, (mode, (names, table)) in zip(grid, tables.items(), strict=True):
        _matrix(axes, names, table)
        axes.set_title(mode_title(mode), loc="left")
    return Sketch(
        name=name,
        title=f"Cohen's d between policies for the {word} number of allocations per disk, "
        f"with {size(view.capacity)}, requests {describe_splitting(view.split)}, without 1N1D",
        caption="By how many standard deviations the policy of a row stays below that of a column: blue where it has "
        "fewer allocations, red where it has more. 0.2 is called a small effect, 0.8 a large one.",
        figure=figure,
    )


def _matrix(axes: Axes, names: list[str], table: Floats) -> None:
    count = len(names)
    edges = np.arange(count + 1) - 0.5
    shade = np.clip(np.nan_to_num(table, nan=0.0), -_FULL_COLOUR, _FULL_COLOUR)
    axes.pcolormesh(
        edges, edges, shade, cmap=_MORE_LESS, vmin=-_FULL_COLOUR, vmax=_FULL_COLOUR, edgecolors="#DDDDDD", linewidth=0.5
    )
    for (row, column), value in np.ndenumerate(table):
        colour = "white" if abs(shade[row, column]) > 0.7 * _FULL_COLOUR else INK
        text = "" if row == column else _shown(float(value))
        axes.text(column, row, text, ha="center", va="center", fontsize=7 if count <= 8 else 5, color=colour)
    shown = [printable(name, 24) for name in names]
    axes.set_xticks(range(count), shown, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(count), shown)
    axes.tick_params(length=0)
    axes.set_ylim(count - 0.5, -0.5)
    axes.grid(visible=False)


def _shown(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.2f}".replace("-0.00", "0.00").replace("inf", "∞").replace("-", "−")  # noqa: RUF001
