"""The findings, computed from the results. They describe the correct rules unless only StorAlloc's were run."""

from collections.abc import Iterator

import numpy as np

from forebay.model.arrays import Floats, Ints
from forebay.model.units import plural
from forebay.show.phrases import compare, join_names, number, percent, size, span
from forebay.show.report import Details, Report, Section
from forebay.show.rows import Rows, distinct_values, match_rows, records, select
from forebay.studies.burst_buffer import results as study
from forebay.studies.burst_buffer.figures import figures_of
from forebay.studies.burst_buffer.results import BASELINE, BEST, CORRECT, ENOUGH, FOREBAY, METRICS, StorageResults
from forebay.studies.burst_buffer.tables import disk_records, effects_table, run_tables, served_table

_SAME_RUN = ["platform", "split", "tries", "interval"]
_AFTER_AND_BEFORE = (CORRECT, study.STORALLOC)
_COUNTED = "The column 'served' counts requests; 'optimal' is not a run but the upper bound of all policies."


def conclusions(results: StorageResults) -> list[str]:
    """Return the findings as sentences. A comparison that lacks runs is left out."""
    sizes, disks = (
        (_name_smallest_platform, _size_platform, _compare_splits, _compare_requeueing, _compare_layouts),
        (_compare_disks, _list_effects, _count_misses, _mixed_platform),
    )
    count = int((~match_rows(results.runs, policy=study.OPTIMAL)).sum())
    rules = "" if results.mode == CORRECT else f" All findings use the rules {results.mode!r}."
    first = f"{results.origin}; {plural(count, 'run')}.{rules}"
    return [first, *(sentence for part in (*sizes, *disks, _forebay, _slowdown) for sentence in part(results))]


def changes(results: StorageResults) -> list[str]:
    """Return a sentence for each of Figures 4 to 9: what changes from StorAlloc's rules to the correct ones."""
    if not set(_AFTER_AND_BEFORE) <= set(results.modes):
        return []
    parts = (_shares_change, _disks_change, _effects_change, _missed_change)
    return [sentence for part in parts for sentence in part(results)]


def _sufficient_runs(results: StorageResults) -> Rows:
    """Return the runs without requeueing that serve 99 %, on any platform but the baseline and with any splitting."""
    runs = study.without_baseline(select(results.runs, mode=results.mode))
    runs = study.without_requeueing(runs[~match_rows(runs, policy=study.OPTIMAL)])
    return runs[runs["allocated_share"] >= ENOUGH]


def _name_smallest_platform(results: StorageResults) -> Iterator[str]:
    """Name the smallest platform that serves 99 %, and the policy that serves most there."""
    sufficient = _sufficient_runs(results)
    if sufficient.size:
        best = min(sufficient, key=lambda run: (run["capacity"], -run["allocated_share"]))
        how = f"{size(best['split'])} blocks" if best["split"] else "unsplit requests"
        yield (
            f"The smallest platform studied that serves at least {100 * ENOUGH:g} % of the bytes is {best['platform']} "
            f"({size(best['capacity'])}), with {best['policy']} and {how}: {percent(best['allocated_share'])}."
        )


def _size_platform(results: StorageResults) -> Iterator[str]:
    """Name the least capacity that serves 99 %, and what the next smaller one serves."""
    runs = results.compared_runs(results.mode)
    plain, requeued = study.without_requeueing(runs), runs[runs["tries"] > 0]
    enough, again = study.enough_of(plain), study.enough_of(requeued)
    if not runs.size or (enough is None and _sufficient_runs(results).size):
        return
    if enough is None:
        share: Floats = plain["allocated_share"]
        best = plain[np.argmax(share)]
        text = (
            f"No capacity studied serves {100 * ENOUGH:g} % of the bytes {results.blocks} ({BASELINE} excluded); the "
            f"most is {percent(best['allocated_share'])} with {best['policy']} and {size(best['capacity'])}"
        )
    else:
        text = (
            f"{size(enough)} {results.blocks} ({BASELINE} excluded) serves at least {100 * ENOUGH:g} % of the bytes "
            f"under {_sufficient_policies(select(plain, capacity=enough))}"
        )
        smaller = max((c for c in distinct_values(plain, "capacity") if c < enough), default=None)
        if smaller is not None:
            text += f"; {size(smaller)} serves {span(100 * select(plain, capacity=smaller)['allocated_share'])} %"
    if again is not None and again != enough and plain.size < runs.size:
        text += f". With requeueing, {size(again)} does under {_sufficient_policies(select(requeued, capacity=again))}"
    yield f"{text}."


def _sufficient_policies(runs: Rows) -> str:
    """Name the policies that serve 99 % in every layout, each with its least share."""
    least = {name: rows["allocated_share"].min() for name, rows in study.by_policy(runs).items()}
    return join_names(f"{name} ({percent(share)})" for name, share in least.items() if share >= ENOUGH)


def _compare_splits(results: StorageResults) -> Iterator[str]:
    """Compare the best policy with and without splitting, at every capacity that has both."""
    runs = study.without_requeueing(select(study.without_baseline(results.alike), mode=results.mode))
    parts = []
    for capacity in sorted(distinct_values(runs, "capacity")):
        whole, split = (select(runs, capacity=capacity, split=s)["allocated_share"] for s in (0, results.split))
        if results.split and whole.size and split.size:
            parts.append(f"from {percent(whole.max())} to {percent(split.max())} with {size(capacity)}")
    if parts:
        share = f"the share that the best policy serves ({BASELINE} excluded)"
        yield f"Splitting at {size(results.split)} changes {share} {join_names(parts)}."


def _compare_requeueing(results: StorageResults) -> Iterator[str]:
    """Compare the runs that requeued a request with the same runs without requeueing."""
    runs = select(results.alike, mode=results.mode)
    same = ["platform", "policy", "split"]
    before = {run[same].item(): float(run["allocated_share"]) for run in select(runs, tries=0)}
    pairs = [(run, before[key]) for run in runs[runs["tries"] > 0] if (key := run[same].item()) in before]
    changed = [(run, share) for run, share in pairs if run["requeued"]]
    if changed:
        gains = [100 * (float(run["allocated_share"]) - share) for run, share in changed]
        run, share = changed[int(np.argmax(gains))]
        yield (
            f"In {len(changed)} of {plural(len(pairs), 'run')} with requeueing, requests were requeued; the share "
            f"served changes by {min(gains):+.2f} to {max(gains):+.2f} points, most with {run['policy']} on "
            f"{run['platform']} (from {percent(share)} to {percent(run['allocated_share'])})."
        )
    elif pairs:
        yield f"No request was requeued in {plural(len(pairs), 'run')} with requeueing."


def _compare_layouts(results: StorageResults) -> Iterator[str]:
    """Give the largest difference between layouts of the same capacity under each policy, with split requests."""
    runs = results.compared_runs(results.mode)
    runs = runs[~match_rows(runs, layout="")]
    layouts = distinct_values(runs, "layout")
    if len(layouts) > 1:
        spreads = []
        for name, rows in study.by_policy(runs, results.policies).items():
            alike = (select(rows, capacity=c, tries=t) for c, t in distinct_values(rows, "capacity", "tries"))
            shares: list[Floats] = [group["allocated_share"] for group in alike]
            spreads.append(f"{100 * max(np.ptp(share) for share in shares):.2f} ({name})")
        yield (
            f"With split requests, layouts of the same capacity ({join_names(layouts)}) differ in the share served by "
            f"at most {join_names(spreads)} points."
        )


def _compare_disks(results: StorageResults) -> Iterator[str]:
    """Describe how full disks get, and how many allocations each holds."""
    columns = ("max_use", "mean_use", *METRICS)
    fullest, use, mean, most = (results.samples(results.mode, column) for column in columns)
    if fullest:
        parts = [f"{100 * values.max():.1f} % ({name})" for name, values in fullest.items()]
        full = np.concatenate([use.get(name, np.zeros(0)) for name in fullest])
        after = f", while disks are {100 * full.mean():.2f} % full on average" if full.size else ""
        yield f"At {results.where}, the fullest disk reaches {join_names(parts)} of its capacity{after}."
    spread = [f"{values.std(ddof=1):.3f} ({name})" for name, values in mean.items() if values.size > 1]
    if spread:
        deviations = f"a standard deviation of {join_names(spread)}"
        yield f"The mean number of allocations per disk at {results.where} has {deviations}."
    if most:
        crowds = join_names(f"{span(values, 0)} ({name})" for name, values in most.items())
        yield f"The maximum number of allocations at once on a disk is {crowds}."


def _list_effects(results: StorageResults) -> Iterator[str]:
    """Give Cohen's d of the policy that the paper recommends against the others."""
    samples = results.samples(results.mode, METRICS[1])
    best = samples.pop(BEST, np.zeros(0))
    effects = {name: study.cohens_d(best, values) for name, values in samples.items()}
    sizes = [f"{number(d)} against {name}" for name, d in effects.items() if not np.isnan(d)]
    if sizes:
        yield (
            f"Cohen's d of {BEST} for the maximum number of allocations is {join_names(sizes)} "
            f"(positive: {BEST} has fewer)."
        )


def _count_misses(results: StorageResults) -> Iterator[str]:
    """Count the split requests that failed or were refused, at every capacity."""
    parts, none = [], []
    for capacity in results.capacities if results.split else ():
        counts = results.missed_requests(results.mode, capacity)
        if any(sum(both) for both in counts.values()):
            most = join_names(f"{study.describe_missed(both)} ({name})" for name, both in counts.items())
            parts.append(f"with {size(capacity)} at most {most}")
        elif counts:
            none.append(size(capacity))
    if none:
        parts.append(f"with {join_names(none)} none")
    if parts:
        yield f"Split requests that failed or were refused in one run: {'; '.join(parts)}."


def _mixed_platform(results: StorageResults) -> Iterator[str]:
    """Give the share served on the platform with several kinds of disks, and the share that the fast kind holds."""
    every = results.mixed_disks(results.mode)
    if not every:
        return
    disks = {name: study.without_requeueing(rows) for name, rows in every.items()}
    shares = [f"{percent(rows['allocated_share'].max())} ({name})" for name, rows in disks.items()]
    kinds = [kind for rows in disks.values() for kind in distinct_values(rows, "kind")]
    fast = "SSD" if "SSD" in kinds else kinds[0]
    parts = []
    for name, rows in disks.items():
        use: Floats = rows["mean_use"]
        capacity: Ints = rows["disk_capacity"]
        held = np.nan_to_num(use) * capacity
        if held.sum() > 0:
            parts.append(f"{percent(held[match_rows(rows, kind=fast)].sum() / held.sum())} ({name})")
    after = f"; averaged over time, {fast} disks hold {join_names(parts)} of the stored bytes" if parts else ""
    yield f"On {results.mixed_platform}, the share served is {join_names(shares)}{after}."


def _forebay(results: StorageResults) -> Iterator[str]:
    """Compare forebay with the best of the paper's policies, and with the bound."""
    runs = study.without_requeueing(results.compared_runs(results.mode))
    same = ["mode", *_SAME_RUN]
    bounds = {bound[same].item(): float(bound["allocated_share"]) for bound in results.bounds}
    parts = []
    for capacity in sorted(distinct_values(runs, "capacity")):
        policies = study.by_policy(select(runs, capacity=capacity))
        shares = {name: rows["allocated_share"].mean() for name, rows in policies.items()}
        best = max((name for name in study.PAPER_POLICIES if name in shares), key=shares.__getitem__, default="")
        if FOREBAY in shares and best:
            limits = [bounds.get(run[same].item(), np.nan) for run in policies[FOREBAY]]
            bound = sum(limits) / len(limits)
            limit = "" if np.isnan(bound) else f"; upper bound: {percent(bound, 2)}"
            others = f"({best}: {percent(shares[best], 2)}{limit})"
            parts.append(f"{percent(shares[FOREBAY], 2)} with {size(capacity)} {others}")
    if parts:
        yield f"Averaged over all layouts but {BASELINE}, forebay serves {join_names(parts)}."
    crowds = {name: most.max() for name, most in results.samples(results.mode, METRICS[1]).items()}
    best = min((name for name in study.PAPER_POLICIES if name in crowds), key=crowds.__getitem__, default="")
    if FOREBAY in crowds and best:
        yield (
            f"At {results.where}, forebay places at most {crowds[FOREBAY]:.0f} allocations on a disk at once; "
            f"of the paper's policies, {best} places the fewest, {crowds[best]:.0f}."
        )


def _slowdown(results: StorageResults) -> Iterator[str]:
    """Give the mean slowdown of each policy with feedback, over the runs that all policies have."""
    runs = select(results.runs, mode=results.mode)
    slowdown: Floats = runs["mean_slowdown"]
    runs = runs[np.isfinite(slowdown) & ~match_rows(runs, policy=study.OPTIMAL)]
    tables = {
        name: {run[_SAME_RUN].item(): float(run["mean_slowdown"]) for run in rows}
        for name, rows in study.by_policy(runs, results.policies).items()
    }
    common = set.intersection(*(set(table) for table in tables.values())) if tables else set()
    if common:
        means = {name: sum(table[key] for key in common) / len(common) for name, table in tables.items()}
        parts = [f"{mean:.3f} ({name})" for name, mean in sorted(means.items(), key=lambda item: item[1])]
        over = f"{plural(len(common), 'pair')} of platform and rules"
        yield f"With feedback, the mean slowdown of jobs over {over} is {join_names(parts)}."


def _shares_change(results: StorageResults) -> Iterator[str]:
    common = set.intersection(
        *(set(distinct_values(results.compared_runs(mode), "policy")) for mode in _AFTER_AND_BEFORE)
    )
    parts = []
    for capacity in results.capacities:
        every = (results.compared_runs(mode, capacity=capacity) for mode in _AFTER_AND_BEFORE)
        shares = [100 * runs["allocated_share"][np.isin(runs["policy"], sorted(common))] for runs in every]
        if all(values.size for values in shares):
            parts.append(f"{compare(*(f'{span(values)} %' for values in shares))} with {size(capacity)}")
    if parts:
        where = f"{results.blocks} ({BASELINE} excluded)"
        yield f"Figure 4: {where}, the share served, less the parts taken back, is {join_names(parts)}."


def _disks_change(results: StorageResults) -> Iterator[str]:
    use, mean, most = (_pair_samples(results, metric) for metric in ("max_use", *METRICS))
    full = [f"{name} {compare(*(f'{100 * (v >= 1).mean():.0f} %' for v in pair))}" for name, pair in use.items()]
    if full:
        yield f"Figure 5: at {results.where}, this share of the disks was full at some time: {join_names(full)}."
    spread = []
    for name in (name for name in mean if name in most):
        if all(values.size > 1 for values in (*mean[name], *most[name])):
            of_mean = compare(*(f"{values.std(ddof=1):.3f}" for values in mean[name]))
            spread.append(f"{name} {of_mean} and {compare(*(f'{values.std(ddof=1):.2f}' for values in most[name]))}")
    if spread:
        yield f"Figure 6: standard deviations of mean and maximum allocations per disk: {'; '.join(spread)}."


def _pair_samples(results: StorageResults, metric: str) -> dict[str, tuple[Floats, Floats]]:
    """Return, by policy, the metric's values under the correct rules and under StorAlloc's, where both are known."""
    after, before = (results.samples(mode, metric) for mode in _AFTER_AND_BEFORE)
    return {name: (after[name], values) for name, values in before.items() if name in after}


def _effects_change(results: StorageResults) -> Iterator[str]:
    """Give the strongest effect on the mean, and the effect of best-bandwidth on the maximum."""
    parts = []
    for names, table in _common_effects(results, METRICS[0]):
        if len(names) > 1:
            strength = np.abs(np.nan_to_num(table, nan=0.0))
            row, column = np.unravel_index(int(np.argmax(strength)), table.shape)
            parts.append(f"{number(strength[row, column])} between {names[row]} and {names[column]}")
    if len(parts) == 2:
        yield f"Figure 7: the strongest effect on mean allocations, as Cohen's d, is {compare(*parts)}."
    tables = _common_effects(results, METRICS[1])
    names, parts = tables[0][0], []
    for name in names if BEST in names else ():
        pair = [table[order.index(BEST), order.index(name)] for order, table in tables]
        if name != BEST and not np.isnan(pair).any():
            parts.append(f"{compare(*map(number, pair))} against {name}")
    if parts:
        yield f"Figure 8: Cohen's d of {BEST} for maximum allocations is {join_names(parts)}."


def _common_effects(results: StorageResults, metric: str) -> list[tuple[list[str], Floats]]:
    """Return Cohen's d under the correct rules and under StorAlloc's, for the policies that have both."""
    tables = [study.cohens_table(results, metric, mode) for mode in _AFTER_AND_BEFORE]
    common = set.intersection(*(set(names) for names, _ in tables))
    kept = [[i for i, name in enumerate(names) if name in common] for names, _ in tables]
    pairs = zip(tables, kept, strict=True)
    return [([names[i] for i in rows], table[np.ix_(rows, rows)]) for (names, table), rows in pairs]


def _missed_change(results: StorageResults) -> Iterator[str]:
    parts = []
    for capacity in results.capacities if results.split else ():
        after, before = (results.missed_requests(mode, capacity) for mode in _AFTER_AND_BEFORE)
        pairs = {name: (after[name], counts) for name, counts in before.items() if name in after}
        if any(sum(a) + sum(b) for a, b in pairs.values()):
            moved = join_names(f"{name} {compare(*map(study.describe_missed, pair))}" for name, pair in pairs.items())
            parts.append(f"with {size(capacity)} {moved}")
    if parts:
        yield f"Figure 9: the most split requests that failed or were refused in one run: {'; '.join(parts)}."


def make_report(results: StorageResults) -> Report:
    sentences, changed = conclusions(results), changes(results)
    files = {"runs": records(results.runs), "disks": disk_records(results), "effects": study.effects(results)}
    return Report(
        about=f"{results.origin}; every policy on every platform, after Monniot et al. 2023, section 5.",
        findings=[
            Section("Findings", sentences),
            Section("Changes from StorAlloc's rules to the correct ones", changed),
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
        summary=[served_table(results, mode) for mode in distinct_values(results.rows, "mode")],
        tables=[effects_table(results)],
        details=Details("All runs", _COUNTED, run_tables(results)),
    )
