"""What the correct rules change in the paper's figures, computed from the results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from forebay.show.phrases import compare, join_names, number, size, span
from forebay.show.rows import Floats, Rows, finite, select
from forebay.studies.burst_buffer.results import StorageResults
from forebay.studies.burst_buffer.view import (
    BASELINE,
    BEST,
    CORRECT,
    METRICS,
    STORALLOC,
    StorageView,
    by_policy,
    cohens_table,
    count_missed,
    describe_missed,
)


def changes(results: StorageResults) -> list[str]:
    """A sentence for each of Figures 4 to 9, from StorAlloc's own rules to the correct ones.

    Only policies that were run by both are compared; empty if there are none.
    """
    view = StorageView(results)
    if not {STORALLOC, CORRECT} <= set(view.modes):
        return []
    parts = (_shares, _use, _fairness, _mean_effects, _max_effects, _missed)
    return [sentence for part in parts for sentence in part(view)]


def _shares(view: StorageView) -> Iterator[str]:
    parts = []
    for capacity in view.capacities:
        before, after = (_shared(view.compared(m, capacity=capacity), view) for m in (STORALLOC, CORRECT))
        if before.size and after.size:
            shares = (f"{span(100 * runs['allocated_share'])} %" for runs in (after, before))
            parts.append(f"{compare(*shares)} with {size(capacity)}")
    if parts:
        yield (
            f"Figure 4: {view.blocks} and without {BASELINE}, what is served net of parts taken back is "
            f"{join_names(parts)}."
        )


def _use(view: StorageView) -> Iterator[str]:
    parts = []
    for name, pair in _disks(view).items():
        before, after = (finite(rows["max_use"]) for rows in pair)
        if before.size and after.size:
            full = (f"{100 * (values >= 1).mean():.0f} %" for values in (after, before))
            parts.append(f"{name} {compare(*full)}")
    if parts:
        yield f"Figure 5: at {view.where} this part of the disks was full at some time: {join_names(parts)}."


def _fairness(view: StorageView) -> Iterator[str]:
    parts = []
    for name, pair in _disks(view).items():
        values = [[finite(rows[metric]) for rows in pair] for metric in METRICS]
        if all(sample.size > 1 for both in values for sample in both):
            (mean, mean_now), (most, most_now) = ([sample.std(ddof=1) for sample in both] for both in values)
            of_mean, of_most = compare(f"{mean_now:.3f}", f"{mean:.3f}"), compare(f"{most_now:.2f}", f"{most:.2f}")
            parts.append(f"{name} {of_mean} and {of_most}")
    if parts:
        yield f"Figure 6: the standard deviations of mean and of maximum allocations per disk are {'; '.join(parts)}."


def _mean_effects(view: StorageView) -> Iterator[str]:
    """The strongest effect on the mean."""
    parts = []
    for names, table in (_table(view, METRICS[0], mode) for mode in (CORRECT, STORALLOC)):
        if len(names) < 2:
            return
        strength = np.abs(np.nan_to_num(table, nan=0.0))
        row, column = np.unravel_index(int(np.argmax(strength)), table.shape)
        parts.append(f"{number(strength[row, column])} between {names[row]} and {names[column]}")
    yield f"Figure 7: the strongest effect on mean allocations, as Cohen's d, is {compare(*parts)}."


def _max_effects(view: StorageView) -> Iterator[str]:
    """best-bandwidth against the others for the maximum."""
    tables = [_table(view, METRICS[1], mode) for mode in (CORRECT, STORALLOC)]
    names = tables[0][0]
    parts = []
    for name in names if BEST in names else ():
        pair = [table[order.index(BEST), order.index(name)] for order, table in tables]
        if name != BEST and not np.isnan(pair).any():
            parts.append(f"{compare(*map(number, pair))} against {name}")
    if parts:
        yield f"Figure 8: Cohen's d of {BEST} for maximum allocations is {join_names(parts)}."


def _missed(view: StorageView) -> Iterator[str]:
    runs = select(view.runs, split=view.split)
    parts = []
    for capacity in view.capacities if view.split else ():
        before, after = (by_policy(select(runs, mode=m, capacity=capacity)) for m in (STORALLOC, CORRECT))
        counts = {name: (count_missed(after[name]), count_missed(before[name])) for name in before if name in after}
        if any(sum(a) + sum(b) for a, b in counts.values()):
            moved = join_names(f"{name} {compare(*map(describe_missed, pair))}" for name, pair in counts.items())
            parts.append(f"with {size(capacity)} {moved}")
    if parts:
        yield f"Figure 9: at most so many split requests failed or were refused in one run: {'; '.join(parts)}."


def _shared(runs: Rows, view: StorageView) -> Rows:
    """Runs of policies that were run by both sets of rules."""
    names = [set(view.compared(mode)["policy"].tolist()) for mode in (STORALLOC, CORRECT)]
    return runs[np.isin(runs["policy"], sorted(set.intersection(*names)))]


def _disks(view: StorageView) -> dict[str, tuple[Rows, Rows]]:
    """By policy, the disks that are compared, by StorAlloc's rules and by the correct ones."""
    before, after = view.disks(STORALLOC), view.disks(CORRECT)
    return {name: (before[name], after[name]) for name in before if name in after}


def _table(view: StorageView, metric: str, mode: str) -> tuple[list[str], Floats]:
    """Cohen's d among the policies that have both."""
    common = set.intersection(*(set(cohens_table(view, metric, m)[0]) for m in (STORALLOC, CORRECT)))
    names, table = cohens_table(view, metric, mode)
    kept = [i for i, name in enumerate(names) if name in common]
    return [names[i] for i in kept], table[np.ix_(kept, kept)]
