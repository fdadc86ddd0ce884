"""Figures 5 and 6: how full the disks got, and how many allocations were on each."""

from __future__ import annotations

from forebay.show.figures.sheet import Sketch, panels
from forebay.show.phrases import join_names, size, splitting
from forebay.show.rows import Rows, finite
from forebay.studies.burst_buffer.figures.subject import (
    SIGMA,
    StorageSubject,
    mode_title,
    name_policies,
    some_of,
    strips,
    width_for,
)
from forebay.studies.burst_buffer.view import StorageView, by_policy

_TERABYTE = 10**12
_USE_CAPACITIES = (16 * _TERABYTE, 32 * _TERABYTE, 64 * _TERABYTE)
_LABELS = {"mean_allocations": "mean allocations", "max_allocations": "most allocations at once"}
DOTS = "Each dot is a disk of a run, a line the mean of a group"


def disk_use(subject: StorageSubject) -> Sketch | None:
    """Figure 5: the fullest that each disk ever was."""
    view = subject.view
    columns = some_of(sorted(set(view.compared()["capacity"].tolist())), _USE_CAPACITIES)
    modes = [m for m in view.modes if any(view.disks(m, c) for c in columns)]
    if not modes:
        return None
    figure, grid = panels(
        len(modes) * len(columns), columns=len(columns), height=2.0, sharey=True, width=width_for(len(columns))
    )
    cells = [(mode, capacity) for mode in modes for capacity in columns]
    for axes, (mode, capacity) in zip(grid, cells, strict=True):
        disks = _for_all(view, view.disks(mode, capacity))
        strips(axes, {name: 100 * finite(own["max_use"]) for name, own in disks.items()}, subject.looks)
        axes.set_title(f"{size(capacity)}, {mode_title(mode)}", loc="left")
        axes.set_ylim(0, 105)
        name_policies(axes, list(disks) if mode == modes[-1] else [])
    for axes in grid[:: len(columns)]:
        axes.set_ylabel("maximum use (% of the disk)")
    return Sketch(
        name="figure-05-maximum-disk-use",
        title=f"Maximum use of the disks by policy, requests {splitting(view.split)}, without 1N1D",
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
        strips(axes, {name: finite(own[metric]) for name, own in disks.items()}, subject.looks, sigma=True)
        axes.margins(y=0.14)
        if metric == "mean_allocations":
            axes.set_title(mode_title(mode), loc="left")
        name_policies(axes, list(disks) if metric == "max_allocations" else [])
    for axes, label in zip(grid[:: len(modes)], _LABELS.values(), strict=True):
        axes.set_ylabel(label)
    return Sketch(
        name="figure-06-allocations-per-disk",
        title=f"Mean and maximum number of allocations per disk with {size(view.capacity)}, "
        f"requests {splitting(view.split)}, without 1N1D",
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
    told = []
    for mode in modes:
        disks = view.disks(mode)
        full = [name for name, own in disks.items() if finite(own["max_use"]).max(initial=0) >= 1]
        if disks:
            told.append(f"{join_names(full) or 'no policy'} ({mode_title(mode)})")
    return f" With {size(view.capacity)}, disks get full under {' and under '.join(told)}." if told else ""
