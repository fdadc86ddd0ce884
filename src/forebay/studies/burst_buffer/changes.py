"""What the correct rules change in the paper's figures, in words, computed from the numbers."""

from __future__ import annotations

import numpy as np

from forebay.show.phrases import join_names, now, number, size, span
from forebay.show.rows import Floats, Rows, finite, select
from forebay.studies.burst_buffer.phrases import blocks, both, where
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
    missed,
)


def storage_changes(results: StorageResults) -> list[str]:
    """A sentence for each of Figures 4 to 9, from StorAlloc's own rules to the correct ones.

    Only policies that were run by both are compared; empty if there are none.
    """
    view = StorageView(results)
    if not {STORALLOC, CORRECT} <= set(view.modes):
        return []
    said = []
    for part in (_shares, _use, _fairness, _mean_effects, _max_effects, _missed):
        said += part(view)
    return said


def _shares(view: StorageView) -> list[str]:
    told = []
    for capacity in view.capacities:
        before, after = (_shared(view.compared(m, capacity=capacity), view) for m in (STORALLOC, CORRECT))
        if before.size and after.size:
            shares = (f"{span(100 * runs['allocated_share'])} %" for runs in (after, before))
            told.append(f"{now(*shares)} with {size(capacity)}")
    if not told:
        return []
    return [
        f"Figure 4: {blocks(view)} and without {BASELINE}, what is served net of parts taken back is "
        f"{join_names(told)}."
    ]


def _use(view: StorageView) -> list[str]:
    told = []
    for name, pair in _disks(view).items():
        before, after = (finite(rows["max_use"]) for rows in pair)
        if before.size and after.size:
            parts = (f"{100 * (values >= 1).mean():.0f} %" for values in (after, before))
            told.append(f"{name} {now(*parts)}")
    if not told:
        return []
    return [f"Figure 5: at {where(view)} this part of the disks was full at some time: {join_names(told)}."]


def _fairness(view: StorageView) -> list[str]:
    told = []
    for name, pair in _disks(view).items():
        values = [[finite(rows[metric]) for rows in pair] for metric in METRICS]
        if all(own.size > 1 for both_modes in values for own in both_modes):
            (mean, mean_now), (most, most_now) = ([own.std(ddof=1) for own in both_modes] for both_modes in values)
            of_mean, of_most = now(f"{mean_now:.3f}", f"{mean:.3f}"), now(f"{most_now:.2f}", f"{most:.2f}")
            told.append(f"{name} {of_mean} and {of_most}")
    if not told:
        return []
    return [f"Figure 6: the standard deviations of mean and of maximum allocations per disk are {'; '.join(told)}."]


def _mean_effects(view: StorageView) -> list[str]:
    """The strongest effect on the mean."""
    told = []
    for names, table in (_table(view, METRICS[0], mode) for mode in (CORRECT, STORALLOC)):
        if len(names) < 2:
            return []
        strongest = np.abs(np.nan_to_num(table, nan=0.0))
        row, column = np.unravel_index(int(np.argmax(strongest)), table.shape)
        told.append(f"{number(strongest[row, column])} between {names[row]} and {names[column]}")
    return [f"Figure 7: the strongest effect on mean allocations, as Cohen's d, is {now(*told)}."]


def _max_effects(view: StorageView) -> list[str]:
    """best-bandwidth against the others for the maximum."""
    tables = [_table(view, METRICS[1], mode) for mode in (CORRECT, STORALLOC)]
    names = tables[0][0]
    told = []
    for name in names if BEST in names else ():
        pair = [table[own.index(BEST), own.index(name)] for own, table in tables]
        if name != BEST and not np.isnan(pair).any():
            told.append(f"{now(*map(number, pair))} against {name}")
    return [f"Figure 8: Cohen's d of {BEST} for maximum allocations is {join_names(told)}."] if told else []


def _missed(view: StorageView) -> list[str]:
    runs = select(view.runs, split=view.split)
    told = []
    for capacity in view.capacities if view.split else ():
        before, after = (by_policy(select(runs, mode=m, capacity=capacity)) for m in (STORALLOC, CORRECT))
        counts = {name: (missed(after[name]), missed(before[name])) for name in before if name in after}
        if any(sum(a) + sum(b) for a, b in counts.values()):
            moved = join_names(f"{name} {now(*map(both, pair))}" for name, pair in counts.items())
            told.append(f"with {size(capacity)} {moved}")
    if not told:
        return []
    return [f"Figure 9: at most so many split requests failed or were refused in one run: {'; '.join(told)}."]


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
    common = [set(cohens_table(view, metric, m)[0]) for m in (STORALLOC, CORRECT)]
    names, table = cohens_table(view, metric, mode)
    kept = [i for i, name in enumerate(names) if name in set.intersection(*common)]
    return [names[i] for i in kept], table[np.ix_(kept, kept)]
