"""Figures 4 and 9, and with feedback 12: what is served, what is not, and how much longer jobs take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

from forebay.show.figures.looks import INK, STORAGE, Look, key
from forebay.show.figures.scales import name_groups
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.show.figures.text import printable
from forebay.show.phrases import describe_splitting, size
from forebay.show.rows import Floats, Rows, distinct, select
from forebay.studies.burst_buffer.figures.subject import StorageSubject, mode_title, some_of, width_for
from forebay.studies.burst_buffer.results import LAYOUTS, OPTIMAL
from forebay.studies.burst_buffer.view import CORRECT, by_policy, count_missed

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
_MOST_MARKED = 80  # runs in a panel; above their bars there is no room for markers
_MOST_NAMED = 10
_BOUND: dict[str, Any] = {"color": STORAGE["optimal"].colour, "linewidth": 1.5}
_REQUEUED: dict[str, Any] = {"hatch": "/////", "edgecolor": "white", "linewidth": 0.0}
_MISSED_CAPACITIES = tuple(terabytes * 10**12 for terabytes in (8, 16, 32))
_HATCHED: dict[str, Any] = {"hatch": "//////", "linewidth": 0.7}
_MOST_PLATFORMS = 40


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
        _draw_shares(axes, subject, select(view.runs, **chosen), select(view.bounds, **chosen), marks)
    for axes, capacity in zip(grid, columns, strict=False):
        axes.set_title(size(capacity), loc="left")
    for axes, (split, mode) in zip(grid[:: len(columns)], rows, strict=True):
        axes.set_ylabel(f"{describe_splitting(split)}\n{mode_title(mode)}\n% of bytes", fontsize=7)
    legend_above(figure, _legend(subject, marks))
    return Sketch(
        name="figure-04-bytes-served",
        title="Part of all bytes asked for that each run serves, by capacity and splitting",
        caption="Each bar is a run, ordered by what it serves. As StorAlloc counts, parts of a request that were "
        f"taken back are served too; by the correct rules they aren't.{_range(subject)}",
        figure=figure,
    )


def _draw_shares(axes: Axes, subject: StorageSubject, runs: Rows, bounds: Rows, marks: Mapping[str, str]) -> None:
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
    bounded = np.flatnonzero(np.isfinite(limit))
    return bounded.astype(float), limit[bounded]


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
    parts = []
    for mode in view.modes:
        percent = 100 * view.compared(mode, capacity=view.capacity)["allocated_share"]
        if percent.size:
            how = "by the correct rules" if mode == CORRECT else mode_title(mode)
            parts.append(f"{percent.min():.1f} to {percent.max():.1f} % {how}")
    if not parts:
        return ""
    return f" With {size(view.capacity)}, {describe_splitting(view.split)} and without 1N1D: {' and '.join(parts)}."


def missed_requests(subject: StorageSubject) -> Sketch | None:
    """Figure 9: of all runs of a policy at a capacity, the one that served the fewest split requests."""
    view = subject.view
    runs = select(view.runs, split=view.split)
    if not view.split or not runs.size:
        return None
    columns = some_of(sorted(distinct(runs, "capacity")), _MISSED_CAPACITIES)
    modes = [m for m in view.modes if select(runs, mode=m).size]
    figure, grid = panels(len(modes) * len(columns), columns=len(columns), height=1.9, width=width_for(len(columns)))
    names = list(by_policy(runs, list(subject.looks)))
    tops: dict[int, int] = {}
    for axes, (mode, capacity) in zip(grid, ((m, c) for m in modes for c in columns), strict=True):
        counts = {n: count_missed(rows) for n, rows in by_policy(select(runs, mode=mode, capacity=capacity)).items()}
        tops[capacity] = max(tops.get(capacity, 1), *(sum(both) for both in counts.values()), 1)
        _draw_missed(axes, names, counts, subject.looks)
        axes.set_title(f"{size(capacity)}, {mode_title(mode)}", loc="left")
        name_groups(axes, names if mode == modes[-1] else [])
    for axes, capacity in zip(grid, columns * len(modes), strict=True):
        axes.set_ylim(0, 1.15 * tops[capacity])  # the same for all modes
    for axes in grid[:: len(columns)]:
        axes.set_ylabel("split requests")
    legend_above(
        figure,
        [
            Patch(color="#666666", label="failed: accepted, but the space was not there"),
            Patch(facecolor="#66666640", edgecolor="#666666", label="refused", **_HATCHED),
        ],
    )
    return Sketch(
        name="figure-09-failed-and-refused",
        title=f"Most split requests (above {size(view.split)}) that failed or were refused in one run",
        caption="Of all runs of a policy at a capacity, the one that missed most. The scale is the same for all "
        "sets of rules, but differs from capacity to capacity.",
        figure=figure,
    )


def _draw_missed(
    axes: Axes, names: list[str], counts: Mapping[str, tuple[int, int]], looks: Mapping[str, Look]
) -> None:
    for x, name in enumerate(names):
        if name not in counts:
            continue
        (failed, refused), colour = counts[name], looks[name].colour
        axes.bar(x, failed, 0.7, color=colour, zorder=2)
        axes.bar(x, refused, 0.7, failed, color=(colour, 0.25), edgecolor=colour, zorder=2, **_HATCHED)
        axes.text(x, failed + refused, f"{failed + refused}", ha="center", va="bottom", fontsize=6.5, color=INK)
    axes.set_xlim(-0.6, max(len(names), 3) - 0.4)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="x", visible=False)


def slowdowns(subject: StorageSubject) -> Sketch | None:
    """Mean slowdown of the jobs by platform and policy, a panel for each splitting."""
    runs = subject.view.results.runs
    runs = runs[np.isfinite(runs["mean_slowdown"]) & (runs["policy"] != OPTIMAL)]
    if not runs.size:
        return None
    platforms = distinct(runs, "platform")[:_MOST_PLATFORMS]
    kinds = [(m, s) for m in subject.view.modes for s in sorted(distinct(select(runs, mode=m), "split"))]
    columns = min(len(kinds), 3)
    figure, grid = panels(
        len(kinds), columns=columns, height=0.8 + 0.21 * max(len(platforms), 4), sharey=True, width=width_for(columns)
    )
    for axes, (mode, split) in zip(grid, kinds, strict=True):
        _draw_slowdowns(axes, subject, select(runs, mode=mode, split=split), platforms)
        axes.set_title(f"{describe_splitting(split)}, {mode_title(mode)}", loc="left")
    for axes in grid[::columns]:
        axes.set_yticks(range(len(platforms)), [printable(p, 28) for p in platforms])
    names = [n for n in subject.looks if (runs["policy"] == n).any()]
    legend_above(figure, [key(name, subject.looks[name], line=False) for name in names])
    return Sketch(
        name="figure-12-mean-job-slowdown",
        title="Mean slowdown of the jobs by policy and platform",
        caption="How much longer jobs take than without any I/O, from when they asked to start; jobs whose "
        "request is not served do their I/O on the parallel file system. Each dot is a run; the lower the better.",
        figure=figure,
    )


def _draw_slowdowns(axes: Axes, subject: StorageSubject, runs: Rows, platforms: list[str]) -> None:
    for name, look in subject.looks.items():
        rows = runs[(runs["policy"] == name) & np.isin(runs["platform"], platforms)]
        y = [platforms.index(platform) for platform in rows["platform"].tolist()]
        axes.plot(100 * (rows["mean_slowdown"] - 1), y, **look.style() | {"linestyle": "none", "markersize": 5})
    axes.set_ylim(len(platforms) - 0.5, -0.5)
    axes.margins(x=0.08)
    if (runs["mean_slowdown"] > 1).all():  # from percents to hundreds of them
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_xlabel("mean slowdown, % over none")
