"""Figure 4: which part of all bytes asked for each run has served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from forebay.show.figures.looks import INK, STORAGE
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.show.figures.text import printable
from forebay.show.phrases import size, splitting
from forebay.show.rows import Floats, Rows, select
from forebay.studies.burst_buffer.figures.subject import StorageSubject, mode_title, some_of, width_for
from forebay.studies.burst_buffer.results import LAYOUTS
from forebay.studies.burst_buffer.view import CORRECT

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
_MOST_MARKED = 80  # runs in a panel; above their bars there is no room for markers
_MOST_NAMED = 10
_BOUND: dict[str, Any] = {"color": STORAGE["optimal"].colour, "linewidth": 1.5}
_REQUEUED: dict[str, Any] = {"hatch": "/////", "edgecolor": "white", "linewidth": 0.0}


def shares(subject: StorageSubject) -> Sketch | None:
    """Figure 4: a column for each capacity, a row for each splitting and mode, a bar for each run."""
    view = subject.view
    if not view.runs.size:
        return None
    columns = some_of(view.capacities)
    rows = [(s, m) for s in view.splits for m in view.modes if select(view.runs, split=s, mode=m).size]
    marks = _marks(view.runs)
    width = width_for(len(columns))
    figure, grid = panels(len(rows) * len(columns), columns=len(columns), height=1.4, sharey=True, width=width)
    cells = [(split, mode, capacity) for split, mode in rows for capacity in columns]
    for axes, (split, mode, capacity) in zip(grid, cells, strict=True):
        chosen = {"split": split, "mode": mode, "capacity": capacity}
        _panel(axes, subject, select(view.runs, **chosen), select(view.bounds, **chosen), marks)
    for axes, capacity in zip(grid, columns, strict=False):
        axes.set_title(size(capacity), loc="left")
    for axes, (split, mode) in zip(grid[:: len(columns)], rows, strict=True):
        axes.set_ylabel(f"{splitting(split)}\n{mode_title(mode)}\n% of bytes", fontsize=7)
    legend_above(figure, _legend(subject, marks))
    return Sketch(
        name="figure-04-bytes-served",
        title="Part of all bytes asked for that each run serves, by capacity and splitting",
        caption="Each bar is a run, ordered by what it serves. As StorAlloc counts, parts of a request that were "
        f"taken back are served too; by the correct rules they aren't.{_range(subject)}",
        figure=figure,
    )


def _panel(axes: Axes, subject: StorageSubject, runs: Rows, bounds: Rows, marks: Mapping[str, str]) -> None:
    percent = 100 * np.nan_to_num(runs["allocated_share"])
    # Runs that serve the same but for rounding are shown policy by policy.
    order = np.lexsort((runs["platform"], runs["tries"], runs["policy"], percent.round(1)))
    runs, percent = runs[order], percent[order]
    for name, look in subject.looks.items():
        for again, more in ((False, {}), (True, _REQUEUED)):
            x = np.flatnonzero((runs["policy"] == name) & ((runs["tries"] > 0) == again))
            axes.bar(x, percent[x], 0.9, color=look.colour, zorder=2, **more)
    of, limit = _limits(runs, bounds)
    axes.hlines(100 * limit, of - 0.5, of + 0.5, zorder=4, **_BOUND)
    if runs.size <= _MOST_MARKED:
        for label, marker in marks.items():
            mine = np.flatnonzero([_label(run) == label for run in runs])
            axes.plot(mine, percent[mine] + 6, marker, color=INK, markersize=2.1, markeredgewidth=0, zorder=5)
    axes.set_xticks([])
    axes.set_xlim(-1, max(runs.size, 4))
    axes.set_ylim(0, max(112.0, 1.12 * percent.max(initial=0.0)))
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.grid(axis="x", visible=False)


def _limits(runs: Rows, bounds: Rows) -> tuple[Floats, Floats]:
    """The numbers of the runs whose bound is known, and their bounds."""
    of = ("platform", "tries", "interval")
    table = dict(zip(bounds[list(of)].tolist(), bounds["allocated_share"].tolist(), strict=True))
    limit = np.array([table.get(run, np.nan) for run in runs[list(of)].tolist()], dtype=float)
    found = np.flatnonzero(np.isfinite(limit))
    return found.astype(float), limit[found]


def _label(run: Any) -> str:
    """The run's layout, or the name of a platform that has none of the paper's."""
    return str(run["layout"]) or str(run["platform"])


def _marks(runs: Rows) -> dict[str, str]:
    """A marker for each layout, the paper's first."""
    met = dict.fromkeys(_label(run) for run in runs)
    names = [name for name in LAYOUTS if name in met] + [name for name in met if name not in LAYOUTS]
    return {name: _MARKERS[i % len(_MARKERS)] for i, name in enumerate(names)}


def _legend(subject: StorageSubject, marks: Mapping[str, str]) -> list[Artist]:
    view = subject.view
    entries: list[Artist] = [Patch(color=look.colour, label=printable(name)) for name, look in subject.looks.items()]
    if (view.runs["tries"] > 0).any() and (view.runs["tries"] == 0).any():
        entries.append(Patch(facecolor="#888888", label="with requeueing", **_REQUEUED))
    if view.bounds.size:
        entries.append(Line2D([], [], label="no policy can do better", **_BOUND))
    how: dict[str, Any] = {"linestyle": "none", "markersize": 3.5, "color": INK}
    for name, marker in list(marks.items())[:_MOST_NAMED]:
        entries.append(Line2D([], [], marker=marker, label=printable(name), **how))
    return entries


def _range(subject: StorageSubject) -> str:
    """From what to what, at the capacity for comparisons."""
    view = subject.view
    told = []
    for mode in view.modes:
        percent = 100 * view.compared(mode, capacity=view.capacity)["allocated_share"]
        if percent.size:
            how = "by the correct rules" if mode == CORRECT else mode_title(mode)
            told.append(f"{percent.min():.1f} to {percent.max():.1f} % {how}")
    if not told:
        return ""
    return f" With {size(view.capacity)}, {splitting(view.split)} and without 1N1D: {' and '.join(told)}."
