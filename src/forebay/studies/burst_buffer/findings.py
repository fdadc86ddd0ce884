"""What came out of a storage study, in words, computed from its numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from forebay.model.units import plural
from forebay.show.phrases import MODES, join_names, number, percent, size, span
from forebay.show.rows import Rows, finite, select
from forebay.studies.burst_buffer.changes import storage_changes
from forebay.studies.burst_buffer.phrases import blocks, both, where
from forebay.studies.burst_buffer.results import OPTIMAL, StorageResults
from forebay.studies.burst_buffer.view import (
    BASELINE,
    BEST,
    CORRECT,
    ENOUGH,
    FOREBAY,
    METRICS,
    PAPER_POLICIES,
    StorageView,
    by_policy,
    effect,
    enough_of,
    missed,
    without_baseline,
)

__all__ = ["storage_changes", "storage_conclusions"]


def storage_conclusions(results: StorageResults) -> list[str]:
    """Sentences, each true of these results; a comparison whose runs are missing is left out.

    They are about the correct rules, unless only others were run. Where runs with and without
    requeueing are there, sizes are compared without.
    """
    view = StorageView(results)
    said = [_data(view)]
    for part in (_smallest, _sizing, _splitting, _requeueing, _layouts, _use, _fairness, _effects, _missed, _mixed):
        said += part(view)
    return said + _forebay(view) + _slowdown(view)


def _data(view: StorageView) -> str:
    runs = view.results.runs
    count = int((runs["policy"] != OPTIMAL).sum())
    rules = "" if view.mode == CORRECT else f" All that follows is {MODES.get(view.mode, view.mode)}."
    return f"{view.results.origin}; {plural(count, 'run')}.{rules}"


def _fit(view: StorageView) -> Rows:
    """Runs of any platform but the baseline, with requests split in any way, that serve 99 % without requeueing."""
    runs = without_baseline(view.results.runs)
    runs = view.plain(runs[(runs["policy"] != OPTIMAL) & (runs["mode"] == view.mode)])
    return runs[runs["allocated_share"] >= ENOUGH]


def _smallest(view: StorageView) -> list[str]:
    """The smallest platform that serves 99 %, under the policy that serves most there."""
    fit = _fit(view)
    if not fit.size:
        return []
    best = min(fit, key=lambda run: (run["capacity"], -run["allocated_share"]))
    how = f"{size(best['split'])} blocks" if best["split"] else "requests that are not split"
    return [
        f"The smallest platform studied that serves at least {100 * ENOUGH:g} % of the bytes is {best['platform']} "
        f"({size(best['capacity'])}), with {best['policy']} and {how}: {percent(best['allocated_share'])}."
    ]


def _sizing(view: StorageView) -> list[str]:
    """The least capacity that serves 99 %, and what the next smaller one serves."""
    runs = view.compared(view.mode)
    plain = view.plain(runs)
    if not runs.size:
        return []
    enough, again = enough_of(plain), enough_of(runs[runs["tries"] > 0])
    if enough is None:
        if _fit(view).size:
            return []
        best = plain[np.argmax(plain["allocated_share"])]
        said = (
            f"No capacity studied serves {100 * ENOUGH:g} % of the bytes {blocks(view)} and without {BASELINE}; the "
            f"most is {percent(best['allocated_share'])} with {best['policy']} and {size(best['capacity'])}."
        )
    else:
        said = (
            f"{size(enough)} {blocks(view)} and without {BASELINE} serve at least {100 * ENOUGH:g} % of the bytes "
            f"under {_able(select(plain, capacity=enough))}"
        )
        smaller = [c for c in sorted(set(plain["capacity"].tolist())) if c < enough]
        if smaller:
            said += (
                f"; {size(smaller[-1])} serve {span(100 * select(plain, capacity=smaller[-1])['allocated_share'])} %"
            )
        said += "."
    if again is not None and again != enough and plain.size < runs.size:
        requeued = select(runs[runs["tries"] > 0], capacity=again)
        said += f" With requeueing {size(again)} do under {_able(requeued)}."
    return [said]


def _able(runs: Rows) -> str:
    """Who serves 99 % in every layout, with the least share of each."""
    least = {name: own["allocated_share"].min() for name, own in by_policy(runs).items()}
    return join_names(f"{name} ({percent(share)})" for name, share in least.items() if share >= ENOUGH)


def _splitting(view: StorageView) -> list[str]:
    """The best policy with and without, at every capacity where both were run."""
    runs = view.plain(select(without_baseline(view.runs), mode=view.mode))
    told = []
    for capacity in sorted(set(runs["capacity"].tolist())):
        whole, split = (select(runs, capacity=capacity, split=s)["allocated_share"] for s in (0, view.split))
        if view.split and whole.size and split.size:
            told.append(f"from {percent(whole.max())} to {percent(split.max())} with {size(capacity)}")
    if not told:
        return []
    return [
        f"Splitting at {size(view.split)} brings what the best policy serves without {BASELINE} {join_names(told)}."
    ]


def _requeueing(view: StorageView) -> list[str]:
    """Runs that had anything to requeue against the same without."""
    runs = select(view.runs, mode=view.mode)
    same = ("platform", "policy", "split")
    before = {tuple(run[list(same)].item()): float(run["allocated_share"]) for run in select(runs, tries=0)}
    pairs = [(run, before[key]) for run in runs[runs["tries"] > 0] if (key := tuple(run[list(same)].item())) in before]
    if not pairs:
        return []
    changed = [(run, was) for run, was in pairs if run["requeued"]]
    if not changed:
        return [f"Nothing was requeued in {plural(len(pairs), 'run')} with requeueing."]
    gains = [100 * (float(run["allocated_share"]) - was) for run, was in changed]
    run, was = changed[int(np.argmax(gains))]
    return [
        f"In {len(changed)} of {plural(len(pairs), 'run')} with requeueing something was requeued; the share served "
        f"changes by {min(gains):+.2f} to {max(gains):+.2f} points, most with {run['policy']} on {run['platform']} "
        f"(from {percent(was)} to {percent(run['allocated_share'])})."
    ]


def _layouts(view: StorageView) -> list[str]:
    """How far apart the layouts of one capacity are under each policy, with split requests."""
    runs = view.compared(view.mode)
    runs = runs[runs["layout"] != ""]
    layouts = list(dict.fromkeys(runs["layout"].tolist()))
    if len(layouts) < 2:
        return []
    spreads: dict[str, float] = {}
    for name, own in by_policy(runs, view.results.policies()).items():
        groups = {(run["capacity"].item(), run["tries"].item()) for run in own}
        ranges = [np.ptp(select(own, capacity=c, tries=t)["allocated_share"]) for c, t in sorted(groups)]
        spreads[name] = 100 * float(max(ranges))
    told = [f"{points:.2f} ({name})" for name, points in spreads.items()]
    return [
        f"With split requests the layouts {join_names(layouts)} of one capacity differ in the share served by at most "
        f"{join_names(told)} points."
    ]


def _use(view: StorageView) -> list[str]:
    disks = {name: own for name, own in view.disks(view.mode).items() if finite(own["max_use"]).size}
    if not disks:
        return []
    told = [f"{name} {100 * finite(own['max_use']).max():.1f} %" for name, own in disks.items()]
    mean = finite(np.concatenate([own["mean_use"] for own in disks.values()]))
    after = f", while disks are {100 * mean.mean():.2f} % full on average" if mean.size else ""
    return [f"At {where(view)} the fullest disks reach {join_names(told)} of their capacity{after}."]


def _fairness(view: StorageView) -> list[str]:
    disks = view.disks(view.mode)
    said = []
    spread = _deviations(disks, "mean_allocations")
    if spread:
        said.append(
            f"The mean number of allocations per disk at {where(view)} has a standard deviation of "
            f"{join_names([f'{value:.3f} ({name})' for name, value in spread.items()])}."
        )
    most = {name: finite(own["max_allocations"]) for name, own in disks.items()}
    told = [f"{span(values, 0)} ({name})" for name, values in most.items() if values.size]
    if told:
        said.append(f"The most allocations at once on a disk are {join_names(told)}.")
    return said


def _effects(view: StorageView) -> list[str]:
    """Cohen's d of the paper's recommended policy against the others."""
    disks = view.disks(view.mode)
    told = [f"{number(d)} against {other}" for other, d in _against(disks).items()]
    if not told:
        return []
    return [
        f"Cohen's d of {BEST} for the maximum number of allocations is {join_names(told)} (positive: {BEST} has fewer)."
    ]


def _missed(view: StorageView) -> list[str]:
    """Split requests that failed or were refused, at every capacity."""
    runs = select(view.runs, mode=view.mode, split=view.split)
    if not view.split or not runs.size:
        return []
    told, none = [], []
    for capacity in sorted(set(runs["capacity"].tolist())):
        counts = {
            n: missed(own) for n, own in by_policy(select(runs, capacity=capacity), view.results.policies()).items()
        }
        if any(sum(both) for both in counts.values()):
            most = join_names(f"{both(counted)} ({name})" for name, counted in counts.items())
            told.append(f"with {size(capacity)} at most {most}")
        else:
            none.append(size(capacity))
    if none:
        told.append(f"with {join_names(none)} none")
    return [f"Split requests that failed or were refused in one run: {'; '.join(told)}."]


def _mixed(view: StorageView) -> list[str]:
    """What is served on the platform with several kinds of disks, and which kind holds it."""
    if view.mixed is None:
        return []
    disks = {name: view.plain(rows) for name, rows in view.mixed_disks(view.mode).items()}
    shares = [f"{percent(rows['allocated_share'].max())} ({name})" for name, rows in disks.items()]
    if not shares:
        return []
    kinds = list(dict.fromkeys(kind for rows in disks.values() for kind in rows["kind"].tolist()))
    fast = "SSD" if "SSD" in kinds else kinds[0]
    held = {name: np.nan_to_num(rows["mean_use"]) * rows["disk_capacity"] for name, rows in disks.items()}
    parts = [
        f"{percent(own[disks[name]['kind'] == fast].sum() / own.sum())} ({name})"
        for name, own in held.items()
        if own.sum() > 0
    ]
    after = f"; of what is held there, weighted by time, {fast} disks have {join_names(parts)}" if parts else ""
    return [f"On {view.mixed} the share served is {join_names(shares)}{after}."]


def _forebay(view: StorageView) -> list[str]:
    """forebay against the best of the paper's policies, and against the bound."""
    runs = view.plain(view.compared(view.mode))
    told = []
    for capacity in sorted(set(runs["capacity"].tolist())):
        shares = {
            name: own["allocated_share"].mean() for name, own in by_policy(select(runs, capacity=capacity)).items()
        }
        others = {name: shares[name] for name in PAPER_POLICIES if name in shares}
        if FOREBAY not in shares or not others:
            continue
        best = max(others, key=lambda name: others[name])
        text = f"{percent(shares[FOREBAY], 2)} with {size(capacity)} ({best}: {percent(others[best], 2)}"
        bound = _bound(view, select(runs, capacity=capacity, policy=FOREBAY))
        told.append(text + (f"; no policy above {percent(bound, 2)})" if bound is not None else ")"))
    said = [f"Averaged over the layouts without {BASELINE}, forebay serves {join_names(told)}."] if told else []
    return said + _forebay_crowd(view)


def _forebay_crowd(view: StorageView) -> list[str]:
    most = {name: finite(own["max_allocations"]) for name, own in view.disks(view.mode).items()}
    others = {name: most[name].max() for name in PAPER_POLICIES if name in most and most[name].size}
    if not others or FOREBAY not in most or not most[FOREBAY].size:
        return []
    best = min(others, key=lambda name: others[name])
    return [
        f"At {where(view)} forebay has at most {most[FOREBAY].max():.0f} allocations at once on a disk; "
        f"of the paper's policies {best} has the least, {others[best]:.0f}."
    ]


def _bound(view: StorageView, runs: Rows) -> float | None:
    """The mean bound of these runs, if it is known for all."""
    same = ["mode", "platform", "split", "tries", "interval"]
    table = {tuple(b[same].item()): float(b["allocated_share"]) for b in view.bounds}
    bounds = [table.get(tuple(run[same].item())) for run in runs]
    found = [b for b in bounds if b is not None]
    return sum(found) / len(found) if found and len(found) == len(bounds) else None


def _slowdown(view: StorageView) -> list[str]:
    """With feedback, the mean slowdown of each policy over the runs that all of them have."""
    runs = select(view.results.runs, mode=view.mode)
    runs = runs[np.isfinite(runs["mean_slowdown"]) & (runs["policy"] != OPTIMAL)]
    same = ["platform", "split", "tries", "interval"]
    tables = {
        name: {tuple(run[same].item()): float(run["mean_slowdown"]) for run in own}
        for name, own in by_policy(runs, view.results.policies()).items()
    }
    common = set.intersection(*(set(t) for t in tables.values())) if tables else set()
    if not common:
        return []
    means = {name: sum(table[key] for key in common) / len(common) for name, table in tables.items()}
    told = [f"{mean:.3f} ({name})" for name, mean in sorted(means.items(), key=lambda item: item[1])]
    over = f"{plural(len(common), 'pair')} of platform and rules"
    return [f"With feedback the jobs' mean slowdown over {over} is {join_names(told)}."]


def _against(disks: Mapping[str, Rows]) -> dict[str, float]:
    """Cohen's d of best-bandwidth for the maximum number of allocations against each other policy."""
    if BEST not in disks:
        return {}
    found = {n: effect(disks[BEST], own, METRICS[1]) for n, own in disks.items() if n != BEST}
    return {name: d for name, d in found.items() if not np.isnan(d)}


def _deviations(disks: Mapping[str, Rows], metric: str) -> dict[str, float]:
    values = {name: finite(own[metric]) for name, own in disks.items()}
    return {name: float(own.std(ddof=1)) for name, own in values.items() if own.size > 1}
