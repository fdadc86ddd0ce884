"""The tables of the report, as text."""

from typing import Any

import numpy as np

from forebay.model.units import plural
from forebay.show.phrases import MODES, describe_splitting, format_finite, number, size
from forebay.show.report import Table
from forebay.show.rows import Record, distinct_values, finite_values, group, records, select
from forebay.studies.burst_buffer.results import BEST, KEY, METRICS, OPTIMAL, StorageResults, effects

_DISK = (*KEY, "layout", "capacity", "node", "disk", "kind", "disk_capacity", "max_use", "mean_use", *METRICS[::-1])
_COUNTS = {"served": "allocated", "refused": "refused", "failed": "failed", "delayed": "delayed"}


def disk_records(results: StorageResults) -> list[Record]:
    """Return a record for every disk of every run, with the columns that identify the run."""
    return records(results.disks(), _DISK)


def served_table(results: StorageResults, mode: str) -> Table:
    """Tabulate the share served: a line for each platform and threshold, a column for each policy."""
    runs = select(results.runs, mode=mode, tries=0)
    policies = distinct_values(runs, "policy")
    shares = {run[["platform", "split", "policy"]].item(): 100 * float(run["allocated_share"]) for run in runs}
    rows = [
        [platform, f"{split / 1e9:g} GB" if split else "no"]
        + [f"{shares[platform, split, p]:.2f}" if (platform, split, p) in shares else "-" for p in policies]
        for platform, split in distinct_values(runs, "platform", "split")
    ]
    return Table(f"Bytes served, in %, rules: {mode}", ("platform", "split", *policies), rows)


def effects_table(results: StorageResults) -> Table:
    """Table 5: Cohen's d of best-bandwidth against each other policy, on disks of each kind."""
    chosen = [e for e in effects(results) if e["policy"] == BEST and e["metric"] == METRICS[1]]
    others = list(dict.fromkeys(e["against"] for e in chosen))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for e in chosen:
        key = (MODES.get(e["mode"]) or e["mode"], e["platforms"], e["disks"])
        lines.setdefault(key, {})[e["against"]] = "–" if np.isnan(e["d"]) else number(e["d"])
    rows = [(*key, *(cells.get(other, "–") for other in others)) for key, cells in lines.items()]
    title = f"Table 5: Cohen's d of {BEST} for the maximum number of allocations per disk"
    note = "Positive where best-bandwidth has fewer allocations."
    return Table(title, ("rules", "platform", "disks", *others), rows, note)


def run_tables(results: StorageResults) -> list[Table]:
    """Tabulate all runs by rules, splitting and capacity; runs that serve most come first."""
    runs, crowds = results.runs, _crowds(results)
    tables = []
    keys = distinct_values(runs, "mode", "split", "capacity")
    for mode, split, capacity in sorted(keys, key=lambda key: (results.modes.index(key[0]), *key[1:])):
        rows = select(runs, mode=mode, split=split, capacity=capacity)
        rows = rows[np.argsort(-rows["allocated_share"], kind="stable")]
        title = f"{MODES.get(mode, mode)}, {describe_splitting(split)}, {size(capacity)}: {plural(rows.size, 'run')}"
        crowd = (crowds.get(key, ()) for key in rows[list(KEY)].tolist())
        tables.append(Table.of(title, [_format_run(r, c) for r, c in zip(records(rows), crowd, strict=True)]))
    return tables


def _format_run(run: Record, crowd: tuple[float, ...]) -> dict[str, str]:
    counted = run["policy"] != OPTIMAL
    use, mean, most = crowd or (np.nan, np.nan, np.nan)
    return {
        "platform": run["platform"],
        "policy": run["policy"],
        "requeue": "yes" if run["tries"] else "no",
        "bytes served": f"{100 * run['allocated_share']:.2f} %",
        **{head: f"{run[name]:,}" if counted else "–" for head, name in _COUNTS.items()},
        "fullest disk": format_finite(100 * use, "{:.1f} %"),
        "mean use": format_finite(100 * mean, "{:.2f} %"),
        "most on a disk": format_finite(most, "{:.0f}"),
        "mean slowdown": format_finite(run["mean_slowdown"], "{:.3f}"),
    }


def _crowds(results: StorageResults) -> dict[tuple[Any, ...], tuple[float, ...]]:
    """Return for each run the use of its fullest disk, the mean use, and the most allocations on a disk."""
    crowds: dict[tuple[Any, ...], tuple[float, ...]] = {}
    for key, rows in group(results.disks(), KEY):
        use, mean, most = (finite_values(rows[name]) for name in ("max_use", "mean_use", "max_allocations"))
        if use.size and mean.size and most.size:
            crowds[tuple(key.values())] = (float(use.max()), float(mean.mean()), float(most.max()))
    return crowds
