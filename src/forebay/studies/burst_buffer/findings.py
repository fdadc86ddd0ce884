"""The findings, computed from the results: sentences about the correct rules, unless only others were run."""

from collections.abc import Iterator

import numpy as np

from forebay.model.units import plural
from forebay.show.phrases import MODES, compare, join_names, number, percent, size, span
from forebay.show.report import Details, Report, Section
from forebay.show.rows import Floats, Rows, distinct, finite, records, select
from forebay.studies.burst_buffer.figures import figures_of
from forebay.studies.burst_buffer.results import (
    BASELINE,
    BEST,
    CORRECT,
    ENOUGH,
    FOREBAY,
    METRICS,
    OPTIMAL,
    PAPER_POLICIES,
    STORALLOC,
    StorageResults,
    StorageView,
    by_policy,
    cohens_table,
    count_missed,
    describe_missed,
    effect,
    effects,
    enough_of,
    without_baseline,
)
from forebay.studies.burst_buffer.tables import disk_records, effects_table, run_tables, served_table

_SAME_RUN = ["platform", "split", "tries", "interval"]
_COUNTED = "The column 'served' counts requests; 'optimal' is not a run but what no policy can exceed."


def conclusions(results: StorageResults) -> list[str]:
    """A comparison whose runs are missing is left out."""
    sizes, disks = (_smallest, _sizing, _splitting, _requeueing, _layouts), (_disks, _effects, _misses, _mixed_platform)
    view = StorageView(results)
    count = int((view.results.runs["policy"] != OPTIMAL).sum())
    rules = "" if view.mode == CORRECT else f" All that follows is {MODES.get(view.mode, view.mode)}."
    first = f"{view.results.origin}; {plural(count, 'run')}.{rules}"
    return [first, *(sentence for part in (*sizes, *disks, _forebay, _slowdown) for sentence in part(view))]


def changes(results: StorageResults) -> list[str]:
    """A sentence for each of Figures 4 to 9, from StorAlloc's own rules to the correct ones."""
    view = StorageView(results)
    if not {STORALLOC, CORRECT} <= set(view.modes):
        return []
    parts = (_shares_change, _disks_change, _effects_change, _missed_change)
    return [sentence for part in parts for sentence in part(view)]


def _fit(view: StorageView) -> Rows:
    """Runs of any platform but the baseline, with requests split in any way, that serve 99 % without requeueing."""
    runs = without_baseline(view.results.runs)
    runs = view.plain(runs[(runs["policy"] != OPTIMAL) & (runs["mode"] == view.mode)])
    return runs[runs["allocated_share"] >= ENOUGH]


def _smallest(view: StorageView) -> Iterator[str]:
    """The smallest platform that serves 99 %, under the policy that serves most there."""
    fit = _fit(view)
    if fit.size:
        best = min(fit, key=lambda run: (run["capacity"], -run["allocated_share"]))
        how = f"{size(best['split'])} blocks" if best["split"] else "requests that are not split"
        yield (
            f"The smallest platform studied that serves at least {100 * ENOUGH:g} % of the bytes is {best['platform']} "
            f"({size(best['capacity'])}), with {best['policy']} and {how}: {percent(best['allocated_share'])}."
        )


def _sizing(view: StorageView) -> Iterator[str]:
    """The least capacity that serves 99 %, and what the next smaller one serves."""
    runs = view.compared(view.mode)
    plain, requeued = view.plain(runs), runs[runs["tries"] > 0]
    enough, again = enough_of(plain), enough_of(requeued)
    if not runs.size or (enough is None and _fit(view).size):
        return
    if enough is None:
        best = plain[np.argmax(plain["allocated_share"])]
        text = (
            f"No capacity studied serves {100 * ENOUGH:g} % of the bytes {view.blocks} and without {BASELINE}; the "
            f"most is {percent(best['allocated_share'])} with {best['policy']} and {size(best['capacity'])}"
        )
    else:
        text = (
            f"{size(enough)} {view.blocks} and without {BASELINE} serve at least {100 * ENOUGH:g} % of the bytes "
            f"under {_able(select(plain, capacity=enough))}"
        )
        smaller = max((c for c in distinct(plain, "capacity") if c < enough), default=None)
        if smaller is not None:
            text += f"; {size(smaller)} serve {span(100 * select(plain, capacity=smaller)['allocated_share'])} %"
    if again is not None and again != enough and plain.size < runs.size:
        text += f". With requeueing {size(again)} do under {_able(select(requeued, capacity=again))}"
    yield f"{text}."


def _able(runs: Rows) -> str:
    """Who serves 99 % in every layout, with the least share of each."""
    least = {name: rows["allocated_share"].min() for name, rows in by_policy(runs).items()}
    return join_names(f"{name} ({percent(share)})" for name, share in least.items() if share >= ENOUGH)


def _splitting(view: StorageView) -> Iterator[str]:
    """The best policy with and without, at every capacity where both were run."""
    runs = view.plain(select(without_baseline(view.runs), mode=view.mode))
    parts = []
    for capacity in sorted(distinct(runs, "capacity")):
        whole, split = (select(runs, capacity=capacity, split=s)["allocated_share"] for s in (0, view.split))
        if view.split and whole.size and split.size:
            parts.append(f"from {percent(whole.max())} to {percent(split.max())} with {size(capacity)}")
    if parts:
        best = f"what the best policy serves without {BASELINE}"
        yield f"Splitting at {size(view.split)} brings {best} {join_names(parts)}."


def _requeueing(view: StorageView) -> Iterator[str]:
    """Runs that had anything to requeue against the same without."""
    runs = select(view.runs, mode=view.mode)
    same = ["platform", "policy", "split"]
    before = {run[same].item(): float(run["allocated_share"]) for run in select(runs, tries=0)}
    pairs = [(run, before[key]) for run in runs[runs["tries"] > 0] if (key := run[same].item()) in before]
    changed = [(run, share) for run, share in pairs if run["requeued"]]
    if changed:
        gains = [100 * (float(run["allocated_share"]) - share) for run, share in changed]
        run, share = changed[int(np.argmax(gains))]
        yield (
            f"In {len(changed)} of {plural(len(pairs), 'run')} with requeueing something was requeued; the share "
            f"served changes by {min(gains):+.2f} to {max(gains):+.2f} points, most with {run['policy']} on "
            f"{run['platform']} (from {percent(share)} to {percent(run['allocated_share'])})."
        )
    elif pairs:
        yield f"Nothing was requeued in {plural(len(pairs), 'run')} with requeueing."


def _layouts(view: StorageView) -> Iterator[str]:
    """How far apart the layouts of one capacity are under each policy, with split requests."""
    runs = view.compared(view.mode)
    runs = runs[runs["layout"] != ""]
    layouts = distinct(runs, "layout")
    if len(layouts) > 1:
        spreads = []
        for name, rows in by_policy(runs, view.results.policies()).items():
            alike = (select(rows, capacity=c, tries=t) for c, t in distinct(rows, "capacity", "tries"))
            spreads.append(f"{100 * max(np.ptp(group['allocated_share']) for group in alike):.2f} ({name})")
        yield (
            f"With split requests the layouts {join_names(layouts)} of one capacity differ in the share served by at "
            f"most {join_names(spreads)} points."
        )


def _disks(view: StorageView) -> Iterator[str]:
    """How full disks get, and how many allocations are on each."""
    disks = view.disks(view.mode)
    values = {
        metric: {name: sample for name, rows in disks.items() if (sample := finite(rows[metric])).size}
        for metric in ("max_use", "mean_use", *METRICS)
    }
    fullest = [f"{name} {100 * sample.max():.1f} %" for name, sample in values["max_use"].items()]
    if fullest:
        mean = np.concatenate([finite(disks[name]["mean_use"]) for name in values["max_use"]])
        after = f", while disks are {100 * mean.mean():.2f} % full on average" if mean.size else ""
        yield f"At {view.where} the fullest disks reach {join_names(fullest)} of their capacity{after}."
    means = {name: sample for name, sample in values[METRICS[0]].items() if sample.size > 1}
    if means:
        spread = join_names(f"{sample.std(ddof=1):.3f} ({name})" for name, sample in means.items())
        yield f"The mean number of allocations per disk at {view.where} has a standard deviation of {spread}."
    most = [f"{span(sample, 0)} ({name})" for name, sample in values[METRICS[1]].items()]
    if most:
        yield f"The most allocations at once on a disk are {join_names(most)}."


def _effects(view: StorageView) -> Iterator[str]:
    """Cohen's d of the paper's recommended policy against the others."""
    disks = view.disks(view.mode)
    others = {n: effect(disks[BEST], rows, METRICS[1]) for n, rows in disks.items() if BEST in disks and n != BEST}
    sizes = [f"{number(d)} against {name}" for name, d in others.items() if not np.isnan(d)]
    if sizes:
        yield (
            f"Cohen's d of {BEST} for the maximum number of allocations is {join_names(sizes)} "
            f"(positive: {BEST} has fewer)."
        )


def _misses(view: StorageView) -> Iterator[str]:
    """Split requests that failed or were refused, at every capacity."""
    runs = select(view.runs, mode=view.mode, split=view.split)
    if not view.split or not runs.size:
        return
    parts, none = [], []
    for capacity in sorted(distinct(runs, "capacity")):
        policies = by_policy(select(runs, capacity=capacity), view.results.policies())
        counts = {name: count_missed(rows) for name, rows in policies.items()}
        if any(sum(both) for both in counts.values()):
            most = join_names(f"{describe_missed(both)} ({name})" for name, both in counts.items())
            parts.append(f"with {size(capacity)} at most {most}")
        else:
            none.append(size(capacity))
    if none:
        parts.append(f"with {join_names(none)} none")
    yield f"Split requests that failed or were refused in one run: {'; '.join(parts)}."


def _mixed_platform(view: StorageView) -> Iterator[str]:
    """What is served on the platform with several kinds of disks, and which kind holds it."""
    disks = {name: view.plain(rows) for name, rows in view.mixed_disks(view.mode).items()} if view.mixed else {}
    if not disks:
        return
    shares = [f"{percent(rows['allocated_share'].max())} ({name})" for name, rows in disks.items()]
    kinds = [kind for rows in disks.values() for kind in distinct(rows, "kind")]
    fast = "SSD" if "SSD" in kinds else kinds[0]
    parts = []
    for name, rows in disks.items():
        held = np.nan_to_num(rows["mean_use"]) * rows["disk_capacity"]
        if held.sum() > 0:
            parts.append(f"{percent(held[rows['kind'] == fast].sum() / held.sum())} ({name})")
    after = f"; of what is held there, weighted by time, {fast} disks have {join_names(parts)}" if parts else ""
    yield f"On {view.mixed} the share served is {join_names(shares)}{after}."


def _forebay(view: StorageView) -> Iterator[str]:
    """forebay against the best of the paper's policies, and against the bound."""
    runs = view.plain(view.compared(view.mode))
    same = ["mode", *_SAME_RUN]
    bounds = {bound[same].item(): float(bound["allocated_share"]) for bound in view.bounds}
    parts = []
    for capacity in sorted(distinct(runs, "capacity")):
        policies = by_policy(select(runs, capacity=capacity))
        shares = {name: rows["allocated_share"].mean() for name, rows in policies.items()}
        best = max((name for name in PAPER_POLICIES if name in shares), key=shares.__getitem__, default="")
        if FOREBAY in shares and best:
            limits = [bounds.get(run[same].item(), np.nan) for run in policies[FOREBAY]]
            bound = sum(limits) / len(limits)
            limit = "" if np.isnan(bound) else f"; no policy above {percent(bound, 2)}"
            others = f"({best}: {percent(shares[best], 2)}{limit})"
            parts.append(f"{percent(shares[FOREBAY], 2)} with {size(capacity)} {others}")
    if parts:
        yield f"Averaged over the layouts without {BASELINE}, forebay serves {join_names(parts)}."
    disks = view.disks(view.mode)
    crowds = {name: most.max() for name, rows in disks.items() if (most := finite(rows[METRICS[1]])).size}
    best = min((name for name in PAPER_POLICIES if name in crowds), key=crowds.__getitem__, default="")
    if FOREBAY in crowds and best:
        yield (
            f"At {view.where} forebay has at most {crowds[FOREBAY]:.0f} allocations at once on a disk; "
            f"of the paper's policies {best} has the least, {crowds[best]:.0f}."
        )


def _slowdown(view: StorageView) -> Iterator[str]:
    """With feedback, the mean slowdown of each policy over the runs that all of them have."""
    runs = select(view.results.runs, mode=view.mode)
    runs = runs[np.isfinite(runs["mean_slowdown"]) & (runs["policy"] != OPTIMAL)]
    tables = {
        name: {run[_SAME_RUN].item(): float(run["mean_slowdown"]) for run in rows}
        for name, rows in by_policy(runs, view.results.policies()).items()
    }
    common = set.intersection(*(set(table) for table in tables.values())) if tables else set()
    if common:
        means = {name: sum(table[key] for key in common) / len(common) for name, table in tables.items()}
        parts = [f"{mean:.3f} ({name})" for name, mean in sorted(means.items(), key=lambda item: item[1])]
        over = f"{plural(len(common), 'pair')} of platform and rules"
        yield f"With feedback the jobs' mean slowdown over {over} is {join_names(parts)}."


def _shares_change(view: StorageView) -> Iterator[str]:
    names = [set(view.compared(mode)["policy"].tolist()) for mode in (STORALLOC, CORRECT)]
    common = sorted(set.intersection(*names))
    parts = []
    for capacity in view.capacities:
        every = (view.compared(mode, capacity=capacity) for mode in (CORRECT, STORALLOC))
        shares = [100 * runs["allocated_share"][np.isin(runs["policy"], common)] for runs in every]
        if all(values.size for values in shares):
            parts.append(f"{compare(*(f'{span(values)} %' for values in shares))} with {size(capacity)}")
    if parts:
        where = f"{view.blocks} and without {BASELINE}"
        yield f"Figure 4: {where}, what is served net of parts taken back is {join_names(parts)}."


def _disks_change(view: StorageView) -> Iterator[str]:
    after, before = view.disks(CORRECT), view.disks(STORALLOC)
    full, spread = [], []
    for name in (name for name in before if name in after):
        use, mean, most = (
            [finite(rows[metric]) for rows in (after[name], before[name])] for metric in ("max_use", *METRICS)
        )
        if all(values.size for values in use):
            shares = (f"{100 * (values >= 1).mean():.0f} %" for values in use)
            full.append(f"{name} {compare(*shares)}")
        if all(values.size > 1 for values in (*mean, *most)):
            of_mean = compare(*(f"{values.std(ddof=1):.3f}" for values in mean))
            of_most = compare(*(f"{values.std(ddof=1):.2f}" for values in most))
            spread.append(f"{name} {of_mean} and {of_most}")
    if full:
        yield f"Figure 5: at {view.where} this part of the disks was full at some time: {join_names(full)}."
    if spread:
        yield f"Figure 6: the standard deviations of mean and of maximum allocations per disk are {'; '.join(spread)}."


def _effects_change(view: StorageView) -> Iterator[str]:
    """The strongest effect on the mean, and best-bandwidth against the others for the maximum."""
    parts = []
    for names, table in _common_effects(view, METRICS[0]):
        if len(names) > 1:
            strength = np.abs(np.nan_to_num(table, nan=0.0))
            row, column = np.unravel_index(int(np.argmax(strength)), table.shape)
            parts.append(f"{number(strength[row, column])} between {names[row]} and {names[column]}")
    if len(parts) == 2:
        yield f"Figure 7: the strongest effect on mean allocations, as Cohen's d, is {compare(*parts)}."
    tables = _common_effects(view, METRICS[1])
    names, parts = tables[0][0], []
    for name in names if BEST in names else ():
        pair = [table[order.index(BEST), order.index(name)] for order, table in tables]
        if name != BEST and not np.isnan(pair).any():
            parts.append(f"{compare(*map(number, pair))} against {name}")
    if parts:
        yield f"Figure 8: Cohen's d of {BEST} for maximum allocations is {join_names(parts)}."


def _common_effects(view: StorageView, metric: str) -> list[tuple[list[str], Floats]]:
    """Cohen's d by the correct rules and by StorAlloc's, among the policies that have both."""
    tables = [cohens_table(view, metric, mode) for mode in (CORRECT, STORALLOC)]
    common = set.intersection(*(set(names) for names, _ in tables))
    kept = []
    for names, table in tables:
        rows = [i for i, name in enumerate(names) if name in common]
        kept.append(([names[i] for i in rows], table[np.ix_(rows, rows)]))
    return kept


def _missed_change(view: StorageView) -> Iterator[str]:
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


def make_report(results: StorageResults) -> Report:
    view = StorageView(results)
    sentences, changed = conclusions(results), changes(results)
    files = {"runs": records(results.runs), "disks": disk_records(view), "effects": effects(view)}
    return Report(
        about=f"{results.origin}; every policy on every platform, after Monniot et al. 2023, section 5.",
        findings=[
            Section("What came out", sentences),
            Section("What changes between StorAlloc's own rules and the correct ones", changed),
        ],
        records=files,
        document={
            "requests": results.origin,
            "settings": dict(results.settings),
            "conclusions": sentences,
            "changes": changed,
            "runs": files["runs"],
            "effects": files["effects"],
        },
        figures=figures_of(results),
        summary=[served_table(results, mode) for mode in results.modes()],
        tables=[effects_table(view)],
        details=Details("All runs", _COUNTED, run_tables(view)),
    )
