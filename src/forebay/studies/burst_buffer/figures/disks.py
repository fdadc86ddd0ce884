"""Figures 5, 6, 10 and 11: how full the disks got, and how many allocations were on each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from forebay.show.figures.scales import name_groups
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.show.figures.text import printable
from forebay.show.phrases import describe_splitting, join_names, size
from forebay.show.rows import Rows, distinct, finite, select
from forebay.studies.burst_buffer.figures.subject import SIGMA, StorageSubject, mode_title, some_of, strips, width_for
from forebay.studies.burst_buffer.view import BEST, FOREBAY, StorageView, by_policy

_USE_CAPACITIES = tuple(terabytes * 10**12 for terabytes in (16, 32, 64))
_LABELS = {"mean_allocations": "mean allocations", "max_allocations": "most allocations at once"}
DOTS = "Each dot is a disk of a run, a line the mean of a group"
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7F7F7F")
_TWO_LINE_LABELS = _LABELS | {"max_allocations": "most allocations\nat once"}
_MOST_PANELS = 4
_MOST_NAMED = 12  # nodes; of more, some stay without a name


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
    skip = max(1, -(-len(nodes) // _MOST_NAMED))
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
