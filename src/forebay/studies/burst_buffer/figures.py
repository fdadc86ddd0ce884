"""The figures, by their numbers in Monniot et al. 2023, and one for feedback."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import cycle, islice, product
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

from forebay.model.arrays import Floats
from forebay.show.figures.looks import INK, LOOKS, Look, annotate, key, looks_of
from forebay.show.figures.scales import name_groups
from forebay.show.figures.sheet import Sketch, Style, draw_panels, printable, sketch_each
from forebay.show.phrases import MODES, describe_splitting, join_names, size
from forebay.show.rows import Rows, distinct_values, finite_values, match_rows, select
from forebay.studies.burst_buffer import results as study
from forebay.studies.burst_buffer.results import CORRECT, METRICS, StorageResults, platform_label

_MOST = "most allocations at once"
_SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
_GOLDEN = 0.6180339887  # the fractional parts of its multiples are spread evenly, however many there are
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
_MOST_MARKED = 80  # runs in a panel; with more, the bars leave no room for markers
_MOST_COLUMNS, _MOST_PANELS, _MOST_PLATFORMS = 6, 4, 40
_MOST_LAYOUTS_NAMED, _MOST_NODES_NAMED = 10, 12
_BOUND: Style = {"color": LOOKS["storage"]["optimal"].colour, "linewidth": 1.5}
_REQUEUED: Style = {"hatch": "/////", "edgecolor": "white", "linewidth": 0.0}
_HATCHED: Style = {"hatch": "//////", "linewidth": 0.7}
_KIND_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7F7F7F")
_MORE_LESS = LinearSegmentedColormap.from_list("more-less", ["#D55E00", "#FFFFFF", "#0072B2"])
_FULL_COLOUR = 2.0  # Cohen calls 0.8 large
TB = 10**12
Draw = Callable[..., None]


def figures_of(results: StorageResults) -> Iterator[Sketch]:
    """Yield each figure that has runs to show, under both sets of rules where both were run."""
    values = {
        "split": size(results.split),
        "splitting": describe_splitting(results.split),
        "capacity": size(results.capacity),
        "mixed": results.mixed_platform,
        "sigma": _SIGMA,
        "range": _describe_range(results),
        "full": _describe_full(results),
        "most": _describe_most(results),
    }
    of_disks = (disk_use, fairness, mean_effects, max_effects)
    return sketch_each(__file__, (shares, *of_disks, missed_requests, by_node, by_kind, slowdowns), results, **values)


def choose_columns(capacities: Sequence[int], wanted: Sequence[int] = ()) -> list[int]:
    """Return the wanted capacities that exist, or else all; of too many, a few at even distances."""
    shown = [c for c in wanted if c in capacities] or list(capacities)
    if len(shown) <= _MOST_COLUMNS:
        return shown
    return [shown[i] for i in np.linspace(0, len(shown) - 1, _MOST_COLUMNS).round().astype(int)]


def _looks(results: StorageResults) -> dict[str, Look]:
    return looks_of(results.policies, "storage")


def _title(mode: str) -> str:
    return printable(MODES.get(mode, mode))


def shares(results: StorageResults) -> Figure:
    """Figure 4: a column for each capacity, a row for each splitting and mode, a bar for each run."""
    columns = choose_columns(results.capacities)
    rows = [(s, m) for s in results.splits for m in results.modes if select(results.alike, split=s, mode=m).size]
    looks = _looks(results)
    labels = dict.fromkeys(platform_label(run) for run in results.alike)
    layouts = list(dict.fromkeys([*(name for name in study.LAYOUTS if name in labels), *labels]))
    marks = dict(zip(layouts, cycle(_MARKERS), strict=False))
    legend: list[Artist] = [Patch(color=look.colour, label=printable(name)) for name, look in looks.items()]
    if (results.alike["tries"] > 0).any() and (results.alike["tries"] == 0).any():
        legend.append(Patch(facecolor="#888888", label="with requeueing", **_REQUEUED))
    if results.bounds.size:
        legend.append(Line2D([], [], label="upper bound", **_BOUND))
    for name in layouts[:_MOST_LAYOUTS_NAMED]:
        how: Style = {"linestyle": "none", "markersize": 3.5, "color": INK, "marker": marks[name]}
        legend.append(Line2D([], [], label=printable(name), **how))

    def draw(axes: Axes, row: tuple[int, str], capacity: int) -> None:
        chosen = {"split": row[0], "mode": row[1], "capacity": capacity}
        _draw_shares(axes, select(results.alike, **chosen), select(results.bounds, **chosen), looks, marks)
        axes.yaxis.label.set_fontsize(7)

    return draw_panels(
        product(rows, columns),
        draw,
        title=lambda row, capacity: size(capacity) * (row == rows[0]),
        ylabel=[f"{describe_splitting(split)}\n{_title(mode)}\n% of bytes" for split, mode in rows],
        columns=len(columns),
        height=1.4,
        sharey=True,
        legend=legend,
    )


def _draw_shares(axes: Axes, runs: Rows, bounds: Rows, looks: Mapping[str, Look], marks: Mapping[str, str]) -> None:
    percent: Floats = 100 * np.nan_to_num(runs["allocated_share"])
    # Runs whose shares differ only by rounding are shown policy by policy.
    order = np.lexsort((runs["platform"], runs["tries"], runs["policy"], percent.round(1)))
    runs, percent = runs[order], percent[order]
    for name, look in looks.items():
        for again, more in ((False, {}), (True, _REQUEUED)):
            x = np.flatnonzero((runs["policy"] == name) & ((runs["tries"] > 0) == again))
            axes.bar(x, percent[x], 0.9, color=look.colour, zorder=2, **more)
    same = ["platform", "tries", "interval"]
    limits = dict(zip(bounds[same].tolist(), bounds["allocated_share"].tolist(), strict=True))
    limit = np.array([limits.get(run, np.nan) for run in runs[same].tolist()], dtype=float)
    of = np.flatnonzero(np.isfinite(limit))
    axes.hlines(100 * limit[of], of - 0.5, of + 0.5, zorder=4, **_BOUND)
    if runs.size <= _MOST_MARKED:
        for label, marker in marks.items():
            mine = np.flatnonzero([platform_label(run) == label for run in runs])
            axes.plot(mine, percent[mine] + 6, marker, color=INK, markersize=2.1, markeredgewidth=0, zorder=5)
    axes.set(xticks=[], yticks=[0, 25, 50, 75, 100])
    axes.set(xlim=(-1, max(runs.size, 4)), ylim=(0, max(112.0, 1.12 * percent.max(initial=0.0))))
    axes.grid(axis="x", visible=False)


def _describe_range(results: StorageResults) -> str:
    """Describe the range of the shares served at the compared capacity."""
    parts = []
    for mode in results.modes:
        percent = 100 * results.compared_runs(mode, capacity=results.capacity)["allocated_share"]
        if percent.size:
            how = "under the correct rules" if mode == CORRECT else _title(mode)
            parts.append(f"{percent.min():.1f} to {percent.max():.1f} % {how}")
    if not parts:
        return ""
    return f" With {size(results.capacity)}, {describe_splitting(results.split)}, 1N1D excluded: {' and '.join(parts)}."


def missed_requests(results: StorageResults) -> Figure:
    """Figure 9: of all runs of a policy at a capacity, the one that served the fewest split requests."""
    runs = select(results.alike, split=results.split)
    looks = _looks(results)
    columns = choose_columns(sorted(distinct_values(runs, "capacity")), (8 * TB, 16 * TB, 32 * TB))
    modes = [m for m in results.modes if results.split and select(runs, mode=m).size]
    names = list(study.by_policy(runs, list(looks)))
    counts = {(m, c): results.missed_requests(m, c) for m, c in product(modes, columns)}

    def draw(axes: Axes, mode: str, capacity: int) -> None:
        for name, (failed, refused) in counts[mode, capacity].items():
            x, colour = names.index(name), looks[name].colour
            axes.bar(x, failed, 0.7, color=colour, zorder=2)
            axes.bar(x, refused, 0.7, failed, color=(colour, 0.25), edgecolor=colour, zorder=2, **_HATCHED)
            axes.text(x, failed + refused, f"{failed + refused}", ha="center", va="bottom", fontsize=6.5, color=INK)
        most = max(sum(both) for m in modes for both in (*counts[m, capacity].values(), (1, 0)))
        axes.set(xlim=(-0.6, max(len(names), 3) - 0.4), ylim=(0, 1.15 * most))  # the same for all modes
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.grid(axis="x", visible=False)
        name_groups(axes, names if mode == modes[-1] else [])

    legend = [
        Patch(color="#666666", label="failed: accepted, but space was missing"),
        Patch(facecolor="#66666640", edgecolor="#666666", label="refused", **_HATCHED),
    ]
    return _draw_capacities(modes, columns, draw, ylabel="split requests", height=1.9, legend=legend)


def _draw_capacities(modes: Sequence[str], columns: Sequence[int], draw: Draw, **layout: Any) -> Figure:
    """Draw a row of panels for each set of rules, with a column for each capacity."""
    return draw_panels(
        product(modes, columns),
        draw,
        title=lambda mode, capacity: f"{size(capacity)}, {_title(mode)}",
        columns=len(columns),
        **layout,
    )


def slowdowns(results: StorageResults) -> Figure:
    """Draw the mean slowdown of jobs by platform and policy, a panel for each splitting."""
    policies = results.runs[~match_rows(results.runs, policy=study.OPTIMAL)]
    every = policies[np.isfinite(policies["mean_slowdown"])]
    looks = _looks(results)
    platforms = distinct_values(every, "platform")[:_MOST_PLATFORMS]
    kinds = [(m, s) for m in results.modes for s in sorted(distinct_values(select(every, mode=m), "split"))]

    def draw(axes: Axes, mode: str, split: int) -> None:
        runs = select(every, mode=mode, split=split)
        for name, look in looks.items():
            rows = runs[(runs["policy"] == name) & np.isin(runs["platform"], platforms)]
            y = [platforms.index(platform) for platform in rows["platform"].tolist()]
            axes.plot(100 * (rows["mean_slowdown"] - 1), y, **look.style() | {"linestyle": "none", "markersize": 5})
        axes.set_yticks(range(len(platforms)), [printable(p, 28) for p in platforms])
        axes.set(xlabel="mean slowdown (% longer than without I/O)", ylim=(len(platforms) - 0.5, -0.5))
        axes.margins(x=0.08)
        if (runs["mean_slowdown"] > 1).all():  # values range from single percents to hundreds
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))

    return draw_panels(
        kinds,
        draw,
        title=lambda mode, split: f"{describe_splitting(split)}, {_title(mode)}",
        height=0.8 + 0.21 * max(len(platforms), 4),
        sharey=True,
        legend=[key(name, look, line=False) for name, look in looks.items() if (every["policy"] == name).any()],
    )


def disk_use(results: StorageResults) -> Figure:
    """Figure 5: the maximum use of each disk."""
    columns = choose_columns(sorted(distinct_values(results.compared_runs(), "capacity")), (16 * TB, 32 * TB, 64 * TB))
    modes = [m for m in results.modes if any(results.compared_disks(m, c) for c in columns)]

    def draw(axes: Axes, mode: str, capacity: int) -> None:
        samples = {name: 100 * use for name, use in results.samples(mode, "max_use", capacity).items()}
        _draw_strips(axes, _compared_looks(results), samples, named=mode == modes[-1])
        axes.set_ylim(0, 105)

    return _draw_capacities(modes, columns, draw, ylabel="maximum use (% of the disk)", height=2.0, sharey=True)


def fairness(results: StorageResults) -> Figure:
    """Figure 6: mean and maximum number of allocations per disk."""
    modes = [m for m in results.modes if results.compared_disks(m)]

    def draw(axes: Axes, metric: str, mode: str) -> None:
        samples = results.samples(mode, metric)
        _draw_strips(axes, _compared_looks(results), samples, named=metric == METRICS[1], sigma=True)
        axes.margins(y=0.14)

    return _draw_both_metrics(modes, draw, title=_title, ylabel=("mean allocations", _MOST), height=2.3)


def _draw_both_metrics(columns: Collection[str], draw: Draw, *, title: Callable[[str], str], **layout: Any) -> Figure:
    """Draw a row for the mean and one for the maximum number of allocations; only the first has titles."""
    return draw_panels(
        product(METRICS, columns),
        draw,
        title=lambda metric, column: title(column) * (metric == METRICS[0]),
        columns=len(columns),
        sharey="row",
        **layout,
    )


def _compared_looks(results: StorageResults) -> dict[str, Look]:
    looks = _looks(results)
    return {name: looks[name] for name in study.by_policy(results.compared_runs(), results.policies)}


def _draw_strips(
    axes: Axes, looks: Mapping[str, Look], samples: Mapping[str, Floats], *, named: bool, sigma: bool = False
) -> None:
    """Draw a strip for each policy: a dot for each value, a line for the mean and, if wanted, the deviation."""
    for position, (name, look) in enumerate(looks.items()):
        if name not in samples:
            continue
        values = samples[name]
        aside = 0.3 * (2 * ((np.arange(values.size) * _GOLDEN) % 1) - 1)
        many = values.size > 200
        dots: Style = {"s": 4 if many else 9, "alpha": 0.2 if many else 0.55, "rasterized": many}
        axes.scatter(position + aside, np.sort(values), color=look.colour, linewidths=0, zorder=3, **dots)
        axes.hlines(values.mean(), position - 0.38, position + 0.38, color=INK, linewidth=1.3, zorder=4)
        if sigma:
            spread = values.std(ddof=1) if values.size > 1 else 0.0
            annotate(axes, f"{_SIGMA} {spread:.2g}", (position, values.max()), (0, 3), ha="center", va="bottom")
    axes.set_xlim(-0.6, max(len(looks), 3) - 0.4)
    axes.grid(axis="x", visible=False)
    name_groups(axes, list(looks) if named else [])


def _describe_full(results: StorageResults) -> str:
    """Name the policies that filled a disk to the last byte at the compared capacity."""
    parts = []
    for mode in (mode for mode in results.modes if results.compared_disks(mode)):
        full = [name for name, use in results.samples(mode, "max_use").items() if use.max() >= 1]
        parts.append(f"{join_names(full) or 'no policy'} ({_title(mode)})")
    return f" With {size(results.capacity)}, disks fill up under {' and under '.join(parts)}." if parts else ""


def mean_effects(results: StorageResults, metric: str = METRICS[0]) -> Figure:
    """Figure 7: the effect of the policy on the mean, as Cohen's d."""
    tables = [(mode, *study.cohens_table(results, metric, mode)) for mode in results.modes]
    tables = [(mode, names, table) for mode, names, table in tables if len(names) > 1]
    most = max((len(names) for _, names, _ in tables), default=0)
    return draw_panels(
        tables,
        _draw_effects,
        title=lambda mode, *_: _title(mode),
        columns=len(tables),
        height=min(7.0, 1.1 + 0.33 * most),
    )


def max_effects(results: StorageResults) -> Figure:
    """Figure 8: the same for the maximum."""
    return mean_effects(results, METRICS[1])


def _draw_effects(axes: Axes, _mode: str, names: Sequence[str], table: Floats) -> None:
    count = len(names)
    edges = np.arange(count + 1) - 0.5
    shade = np.clip(np.nan_to_num(table, nan=0.0), -_FULL_COLOUR, _FULL_COLOUR)
    axes.pcolormesh(
        edges, edges, shade, cmap=_MORE_LESS, vmin=-_FULL_COLOUR, vmax=_FULL_COLOUR, edgecolors="#DDDDDD", linewidth=0.5
    )
    for (row, column), d in np.ndenumerate(table):
        colour = "white" if abs(shade[row, column]) > 0.7 * _FULL_COLOUR else INK
        text = "–" if np.isnan(d) else f"{d:.2f}".replace("-0.00", "0.00").replace("inf", "∞")
        shown = "" if row == column else text.replace("-", "\N{MINUS SIGN}")
        axes.text(column, row, shown, ha="center", va="center", fontsize=7 if count <= 8 else 5, color=colour)
    name_groups(axes, names)
    axes.set_yticks(range(count), [printable(name, 24) for name in names])
    axes.tick_params(length=0)
    axes.set_ylim(count - 0.5, -0.5)
    axes.grid(visible=False)


def by_node(results: StorageResults) -> Figure:
    """Figure 10: mean and maximum allocations of every disk, node by node."""
    runs = _shown_runs(results)
    colours = _colour_kinds(runs)

    def draw(axes: Axes, metric: str, title: str) -> None:
        disks = runs[title]
        nodes = distinct_values(disks, "node")
        x = np.arange(disks.size) + [float(nodes.index(node)) for node in disks["node"].tolist()]
        values: Floats = disks[metric]
        axes.bar(x, np.nan_to_num(values), 0.9, color=[colours[kind] for kind in disks["kind"].tolist()], zorder=2)
        named = nodes[:: max(1, -(-len(nodes) // _MOST_NODES_NAMED))] if metric == METRICS[1] else []
        how: Style = {"rotation": 35, "ha": "right", "rotation_mode": "anchor", "fontsize": 6.5}
        ticks = [float(x[disks["node"] == node].mean()) for node in named]
        axes.set_xticks(ticks, [printable(node, 16) for node in named], **how)
        axes.tick_params(axis="x", length=0)
        axes.grid(axis="x", visible=False)

    legend = [Patch(color=colour, label=printable(_kind_label(kind))) for kind, colour in colours.items()]
    ylabel = ("mean allocations", "most allocations\nat once")
    return _draw_both_metrics(runs, draw, title=printable, ylabel=ylabel, height=1.7, legend=legend)


def by_kind(results: StorageResults) -> Figure:
    """Figure 11: maximum allocations per disk by policy and kind of disk."""
    disks = {
        mode: policies for mode in results.modes if results.mixed_platform and (policies := results.mixed_disks(mode))
    }
    every = [rows for policies in disks.values() for rows in policies.values()]
    kinds = distinct_values(np.concatenate(every), "kind") if every else []
    looks = {n: look for n, look in _looks(results).items() if any(n in policies for policies in disks.values())}

    def draw(axes: Axes, mode: str, kind: str) -> None:
        of_kind = {name: select(rows, kind=kind) for name, rows in disks[mode].items()}
        _draw_strips(axes, looks, study.known_values(of_kind, METRICS[1]), named=mode == list(disks)[-1])

    figure = draw_panels(
        product(disks, kinds),
        draw,
        title=lambda mode, kind: f"{printable(_kind_label(kind))}, {_title(mode)}",
        ylabel=_MOST,
        columns=len(kinds),
        height=2.0,
        sharey=True,
    )
    if figure.axes:
        figure.axes[0].set_ylim(bottom=0)  # for all panels; only now, because it fixes the upper limit too
    return figure


def _shown_runs(results: StorageResults) -> dict[str, Rows]:
    """Return, by title, the disks of one run of the paper's policy in each mode, and of one of forebay's."""
    runs = ((name, mode, rows) for mode in results.modes for name, rows in results.example_runs(mode).items())
    return {f"{name}, {_title(mode)}": rows for name, mode, rows in islice(runs, _MOST_PANELS)}


def _colour_kinds(runs: Mapping[str, Rows]) -> dict[str, str]:
    """Choose a colour for each kind of disk."""
    kinds = dict.fromkeys(kind for disks in runs.values() for kind in distinct_values(disks, "kind"))
    return dict(zip(kinds, cycle(_KIND_COLOURS), strict=False))


def _kind_label(kind: str) -> str:
    return kind or "other disk"


def _describe_most(results: StorageResults) -> str:
    """Describe the most allocations at once on a disk of each kind, in the runs of Figure 10."""
    parts = []
    runs = _shown_runs(results)
    for title, rows in runs.items():
        most = {kind: finite_values(select(rows, kind=kind)[METRICS[1]]).max(initial=0) for kind in _colour_kinds(runs)}
        parts.append(f"{join_names([f'{m:.0f} on any {_kind_label(k)}' for k, m in most.items()])} ({title})")
    return f" At most {'; '.join(parts)}."
