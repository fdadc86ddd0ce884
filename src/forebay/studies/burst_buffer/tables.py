"""Tables of a storage study: rows for files, and cells for the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forebay.model.units import plural
from forebay.show.phrases import MODES, number, size, splitting
from forebay.show.rows import Rows, finite, select
from forebay.studies.burst_buffer.results import KEY, OPTIMAL
from forebay.studies.burst_buffer.view import BEST, METRICS, StorageView, effects

_DISK = (*KEY, "layout", "capacity", "node", "disk", "kind", "disk_capacity", "max_use", "mean_use", *METRICS[::-1])
_COUNTS = ("allocated", "refused", "failed", "delayed")
_HEADS = ("served", "refused", "failed", "delayed")
_DISK_HEADS = ("fullest disk", "mean use", "most on a disk", "mean slowdown")


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that one looks at together, as text."""

    title: str
    heads: tuple[str, ...]
    rows: list[tuple[str, ...]]


def records(table: Rows, columns: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """A dict for each row, of all columns or some of them, in Python's own types."""
    names = columns or table.dtype.names or ()
    values = [table[name].tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def disk_records(view: StorageView) -> list[dict[str, Any]]:
    """Every disk of every run, with what tells the run."""
    return records(view.results.disks(), _DISK)


def effects_by_kind(view: StorageView) -> Group | None:
    """Table 5: Cohen's d of best-bandwidth against each other policy, on disks of each kind."""
    found = [e for e in effects(view) if e["policy"] == BEST and e["metric"] == METRICS[1]]
    others = list(dict.fromkeys(str(e["against"]) for e in found))
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for e in found:
        d = float(str(e["d"]))
        key = (MODES.get(str(e["mode"]), str(e["mode"])), str(e["platforms"]), str(e["disks"]))
        cells.setdefault(key, {})[str(e["against"])] = "–" if np.isnan(d) else number(d)
    rows = [(*key, *(own.get(other, "–") for other in others)) for key, own in cells.items()]
    title = f"Cohen's d of {BEST} for the maximum number of allocations per disk"
    return Group(title, ("rules", "platform", "disks", *others), rows) if rows else None


def runs_by_group(view: StorageView) -> list[Group]:
    """All runs, by rules, splitting and capacity, those that serve most first."""
    runs, crowds = view.results.runs, _crowds(view)
    keys = set(runs[["mode", "split", "capacity"]].tolist())
    heads = ("platform", "policy", "requeue", "bytes served", *_HEADS, *_DISK_HEADS)
    groups = []
    for mode, split, capacity in sorted(keys, key=lambda key: (view.modes.index(key[0]), *key[1:])):
        own = select(runs, mode=mode, split=split, capacity=capacity)
        own = own[np.argsort(-own["allocated_share"], kind="stable")]
        title = f"{MODES.get(mode, mode)}, {splitting(split)}, {size(capacity)}: {plural(own.size, 'run')}"
        told = (crowds.get(key, ()) for key in own[list(KEY)].tolist())
        groups.append(Group(title, heads, [_cells(r, c) for r, c in zip(records(own), told, strict=True)]))
    return groups


def _cells(run: dict[str, Any], crowd: tuple[float, ...]) -> tuple[str, ...]:
    counted = run["policy"] != OPTIMAL
    use, mean, most = crowd or (np.nan, np.nan, np.nan)
    return (
        run["platform"],
        run["policy"],
        "yes" if run["tries"] else "no",
        f"{100 * run['allocated_share']:.2f} %",
        *(f"{run[name]:,}" if counted else "–" for name in _COUNTS),
        _shown(100 * use, "{:.1f} %"),
        _shown(100 * mean, "{:.2f} %"),
        _shown(most, "{:.0f}"),
        _shown(run["mean_slowdown"], "{:.3f}"),
    )


def _shown(value: float, how: str) -> str:
    return how.format(value) if np.isfinite(value) else "–"


def _crowds(view: StorageView) -> dict[tuple[Any, ...], tuple[float, ...]]:
    """For each run its fullest disk's use, the mean use and the most allocations on a disk."""
    disks = view.results.disks()
    keys, of = np.unique(disks[list(KEY)], return_inverse=True)
    found: dict[tuple[Any, ...], tuple[float, ...]] = {}
    by_run = disks[np.argsort(of, kind="stable")]
    edges = np.cumsum(np.bincount(of, minlength=keys.size))[:-1]
    for key, own in zip(keys.tolist(), np.split(by_run, edges), strict=False):
        use, mean, most = (finite(own[name]) for name in ("max_use", "mean_use", "max_allocations"))
        if use.size and mean.size and most.size:
            found[key] = (float(use.max()), float(mean.mean()), float(most.max()))
    return found
