"""What the figures of a storage study are drawn from, and what several of them draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

from forebay.show.figures.looks import INK, STORAGE, Look, key, looks_of
from forebay.show.figures.scales import name_groups
from forebay.show.figures.sheet import WIDTH, Sketch, legend_above, panels, printable
from forebay.show.phrases import MODES, describe_splitting, join_names, size
from forebay.show.rows import Floats, Rows, distinct, finite, select
from forebay.studies.burst_buffer.results import (
    BEST,
    CORRECT,
    FOREBAY,
    LAYOUTS,
    OPTIMAL,
    StorageResults,
    StorageView,
    by_policy,
    cohens_table,
    count_missed,
)

SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
_MOST_COLUMNS = 6
_GOLDEN = 0.6180339887  # multiples of it, less their whole parts, are spread evenly however many there are


@dataclass(frozen=True, slots=True)
class StorageSubject:
    """A study's results and its policies' looks."""

    view: StorageView
    looks: Mapping[str, Look]

    @classmethod
    def of(cls, results: StorageResults) -> StorageSubject:
        return cls(StorageView(results), looks_of(results.policies(), STORAGE))


def mode_title(mode: str) -> str:
    return printable(MODES.get(mode, mode))


def some_of(capacities: Sequence[int], wanted: Sequence[int] = ()) -> list[int]:
    """The wanted ones that are there, else all; of very many a few, evenly chosen."""
    shown = [c for c in wanted if c in capacities] or list(capacities)
    if len(shown) <= _MOST_COLUMNS:
        return shown
    return [shown[i] for i in np.linspace(0, len(shown) - 1, _MOST_COLUMNS).round().astype(int)]


def strips(axes: Axes, samples: Mapping[str, Floats], looks: Mapping[str, Look], *, sigma: bool = False) -> None:
    """A dot for each value side by side, a line for their mean and, if wanted, their standard deviation in words."""
    for position, (name, values) in enumerate(samples.items()):
        values = np.sort(finite(values))
        if not values.size:
            continue
        aside = 0.3 * (2 * ((np.arange(values.size) * _GOLDEN) % 1) - 1)
        many = values.size > 200
        dots: dict[str, Any] = {"s": 4 if many else 9, "alpha": 0.2 if many else 0.55, "rasterized": many}
        axes.scatter(position + aside, values, color=looks[name].colour, linewidths=0, zorder=3, **dots)
        axes.hlines(values.mean(), position - 0.38, position + 0.38, color=INK, linewidth=1.3, zorder=4)
        if sigma:
            spread = values.std(ddof=1) if values.size > 1 else 0.0
            where: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 6.5}
            axes.annotate(f"{SIGMA} {spread:.2g}", (position, values[-1]), (0, 3), color=INK, **where)
    axes.set_xlim(-0.6, max(len(samples), 3) - 0.4)
    axes.grid(axis="x", visible=False)


def width_for(columns: int) -> float:
    """Inches: a panel alone is not drawn as wide as the page."""
    return WIDTH if columns > 1 else 0.65 * WIDTH


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


_USE_CAPACITIES = tuple(terabytes * 10**12 for terabytes in (16, 32, 64))
_LABELS = {"mean_allocations": "mean allocations", "max_allocations": "most allocations at once"}
DOTS = "Each dot is a disk of a run, a line the mean of a group"
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7F7F7F")
_TWO_LINE_LABELS = _LABELS | {"max_allocations": "most allocations\nat once"}
_MOST_PANELS = 4
_MOST_NODES_NAMED = 12  # nodes; of more, some stay without a name


def disk_use(subject: StorageSubject) -> Sketch | None:
    """Figure 5: the fullest that each disk ever was."""
    view = subject.view
    columns = some_of(sorted(distinct(view.compared(), "capacity")), _USE_CAPACITIES)
    modes = [m for m in view.modes if any(view.disks(m, c) for c in columns)]
    if not modes:
        return None
    figure, grid = panels(
        len(modes) * len(columns), columns=len(columns), height=2.0, sharey=True, width=width_for(len(columns))
    )
    cells = [(mode, capacity) for mode in modes for capacity in columns]
    for axes, (mode, capacity) in zip(grid, cells, strict=True):
        disks = _for_all(view, view.disks(mode, capacity))
        strips(axes, {name: 100 * finite(rows["max_use"]) for name, rows in disks.items()}, subject.looks)
        axes.set_title(f"{size(capacity)}, {mode_title(mode)}", loc="left")
        axes.set_ylim(0, 105)
        name_groups(axes, list(disks) if mode == modes[-1] else [])
    for axes in grid[:: len(columns)]:
        axes.set_ylabel("maximum use (% of the disk)")
    return Sketch(
        name="figure-05-maximum-disk-use",
        title=f"Maximum use of the disks by policy, requests {describe_splitting(view.split)}, without 1N1D",
        caption=f"{DOTS}.{_full(view, modes)}",
        figure=figure,
    )


def fairness(subject: StorageSubject) -> Sketch | None:
    """Figure 6: mean and maximum number of allocations per disk."""
    view = subject.view
    modes = [m for m in view.modes if view.disks(m)]
    if not modes:
        return None
    figure, grid = panels(2 * len(modes), columns=len(modes), height=2.3, sharey="row", width=width_for(len(modes)))
    cells = [(metric, mode) for metric in _LABELS for mode in modes]
    for axes, (metric, mode) in zip(grid, cells, strict=True):
        disks = _for_all(view, view.disks(mode))
        strips(axes, {name: finite(rows[metric]) for name, rows in disks.items()}, subject.looks, sigma=True)
        axes.margins(y=0.14)
        if metric == "mean_allocations":
            axes.set_title(mode_title(mode), loc="left")
        name_groups(axes, list(disks) if metric == "max_allocations" else [])
    for axes, label in zip(grid[:: len(modes)], _LABELS.values(), strict=True):
        axes.set_ylabel(label)
    return Sketch(
        name="figure-06-allocations-per-disk",
        title=f"Mean and maximum number of allocations per disk with {size(view.capacity)}, "
        f"requests {describe_splitting(view.split)}, without 1N1D",
        caption=f"{DOTS} and {SIGMA} its standard deviation; the y axes need not start at 0. "
        "The fewer at once and the more alike the disks, the more bandwidth a job can count on.",
        figure=figure,
    )


def _for_all(view: StorageView, disks: dict[str, Rows]) -> dict[str, Rows]:
    """A place for each policy that is compared, so that the panels of all modes have the same groups."""
    empty = view.results.rows[:0]
    return {name: disks.get(name, empty) for name in by_policy(view.compared(), view.results.policies())}


def _full(view: StorageView, modes: list[str]) -> str:
    """Who filled a disk to the last byte at the capacity for comparisons."""
    parts = []
    for mode in modes:
        disks = view.disks(mode)
        full = [name for name, rows in disks.items() if finite(rows["max_use"]).max(initial=0) >= 1]
        if disks:
            parts.append(f"{join_names(full) or 'no policy'} ({mode_title(mode)})")
    return f" With {size(view.capacity)}, disks get full under {' and under '.join(parts)}." if parts else ""


def by_node(subject: StorageSubject) -> Sketch | None:
    """Figure 10: mean and maximum allocations of every disk, node by node."""
    view = subject.view
    if view.mixed is None:
        return None
    runs = _shown_runs(subject)
    colours = _kinds(np.concatenate([rows for _, rows in runs]))
    figure, grid = panels(2 * len(runs), columns=len(runs), height=1.7, sharey="row", width=width_for(len(runs)))
    cells = [(metric, title, rows) for metric in _TWO_LINE_LABELS for title, rows in runs]
    for axes, (metric, title, rows) in zip(grid, cells, strict=True):
        _bars(axes, rows, metric, colours, named=metric == "max_allocations")
        if metric == "mean_allocations":
            axes.set_title(printable(title), loc="left")
    for axes, label in zip(grid[:: len(runs)], _TWO_LINE_LABELS.values(), strict=True):
        axes.set_ylabel(label)
    legend_above(figure, [Patch(color=colour, label=printable(_kind(kind))) for kind, colour in colours.items()])
    return Sketch(
        name="figure-10-allocations-by-node",
        title=f"Mean and maximum number of allocations of each disk of {view.mixed}, by node",
        caption=f"Each bar is a disk, the disks of a node are side by side.{_most(runs, colours)}",
        figure=figure,
    )


def by_kind(subject: StorageSubject) -> Sketch | None:
    """Figure 11: maximum allocations per disk by policy and kind of disk."""
    view = subject.view
    modes = [m for m in view.modes if view.mixed is not None and view.mixed_disks(m)]
    if not modes:
        return None
    found = {mode: view.mixed_disks(mode) for mode in modes}
    names = [n for n in subject.looks if any(n in own for own in found.values())]
    kinds = list(_kinds(np.concatenate([rows for own in found.values() for rows in own.values()])))
    figure, grid = panels(
        len(modes) * len(kinds), columns=len(kinds), height=2.0, sharey=True, width=width_for(len(kinds))
    )
    for axes, (mode, kind) in zip(grid, ((m, k) for m in modes for k in kinds), strict=True):
        own = {name: select(found[mode][name], kind=kind) if name in found[mode] else None for name in names}
        samples = {n: finite(np.zeros(0) if rows is None else rows["max_allocations"]) for n, rows in own.items()}
        strips(axes, samples, subject.looks)
        axes.set_title(f"{printable(_kind(kind))}, {mode_title(mode)}", loc="left")
        name_groups(axes, names if mode == modes[-1] else [])
    for axes in grid[:: len(kinds)]:
        axes.set_ylabel("most allocations at once")
        axes.set_ylim(bottom=0)
    return Sketch(
        name="figure-11-maximum-allocations-by-kind",
        title=f"Maximum number of allocations per disk of {view.mixed}, by policy and kind of disk",
        caption="Each dot is a disk, a line the mean of a group. A policy that knows how fast disks are "
        "keeps allocations off the slow ones.",
        figure=figure,
    )


def _shown_runs(subject: StorageSubject) -> list[tuple[str, Rows]]:
    """By title: the disks of one run of the paper's policy in each mode, and of forebay's."""
    view, shown = subject.view, []
    for mode in view.modes:
        disks = view.mixed_disks(mode)
        names = [n for n in (BEST, FOREBAY) if n in disks] or list(disks)[:2]
        shown += [(f"{name}, {mode_title(mode)}", _one_run(disks[name])) for name in names]
    return shown[:_MOST_PANELS]


def _one_run(disks: Rows) -> Rows:
    """Without requeueing, as in the paper, if there is such a run."""
    first = disks[np.argmin(disks["tries"])]
    return select(disks, tries=first["tries"], interval=first["interval"])


def _kinds(disks: Rows) -> dict[str, str]:
    """A colour for each kind of disk."""
    return {kind: _COLOURS[i % len(_COLOURS)] for i, kind in enumerate(distinct(disks, "kind"))}


def _bars(axes: Axes, disks: Rows, metric: str, colours: Mapping[str, str], *, named: bool) -> None:
    nodes = distinct(disks, "node")
    gap = 1.0
    number = {node: i for i, node in enumerate(nodes)}
    x = np.arange(disks.size) + gap * np.array([number[node] for node in disks["node"].tolist()])
    values = np.nan_to_num(disks[metric])
    axes.bar(x, values, 0.9, color=[colours[kind] for kind in disks["kind"].tolist()], zorder=2)
    ticks = [float(x[disks["node"] == node].mean()) for node in nodes] if named else []
    skip = max(1, -(-len(nodes) // _MOST_NODES_NAMED))
    how: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor", "fontsize": 6.5}
    axes.set_xticks(ticks[::skip], [printable(n, 16) for n in nodes[::skip]] if named else [], **how)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)


def _most(runs: list[tuple[str, Rows]], colours: Mapping[str, str]) -> str:
    """The most allocations at once on any disk of each kind."""
    parts = []
    for title, rows in runs:
        most = {kind: finite(select(rows, kind=kind)["max_allocations"]).max(initial=0) for kind in colours}
        parts.append(f"{join_names([f'{m:.0f} on any {_kind(k)}' for k, m in most.items()])} ({title})")
    return f" At most {'; '.join(parts)}."


def _kind(kind: str) -> str:
    return kind or "other disk"


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


_PAINTERS = (*(shares, disk_use, fairness, mean_effects, max_effects, missed_requests, by_node, by_kind), slowdowns)


def figures_of(results: StorageResults) -> Iterator[Sketch | None]:
    """Each figure shows the runs that are there, by both sets of rules where both were run; None if there are none."""
    subject = StorageSubject.of(results)
    for paint in _PAINTERS:
        yield paint(subject)
