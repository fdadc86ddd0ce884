"""The figure of an application: bandwidth by number of OSTs or by run, and the order and sizes of its requests."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from forebay.history.run_fields import SIZE_BINS
from forebay.history.store.past_runs import Behaviour
from forebay.model.arrays import Floats
from forebay.model.units import format_bandwidth, plural
from forebay.profile.access_pattern import Access
from forebay.profile.application import Profile
from forebay.show.figures.looks import FAINT, INK, annotate
from forebay.show.figures.scales import bandwidth_axis, date_axis
from forebay.show.figures.sheet import Style, house_style, panels, printable, write
from forebay.show.phrases import format_share, shorten

_LINE = "#0072B2"
_DAY = 86_400.0
_KINDS = {
    "contiguous": "#0072B2", "strided": "#56B4E9", "with gaps": FAINT, "random": "#D55E00", "backwards": "#E69F00",
}  # fmt: skip
_INKS = {"strided": INK, "with gaps": INK, "backwards": INK}  # on light bars
_OPERATIONS = {"reads": "#009E73", "writes": "#0072B2"}


def draw_profile(profile: Profile, runs: Sequence[Behaviour], out: Path) -> Path:
    """Draw the known aspects of `profile` to `out`; `runs` are those of the application, oldest first."""
    alike = [run for run in runs if run.nprocs == profile.processes]
    alike = [run for run in alike if not run.partial_flag] or alike
    timed = [run for run in alike if run.perf_by_slowest > 0]
    pattern = profile.pattern
    apart = [(name, access) for name, access in (("reads", pattern.reads), ("writes", pattern.writes)) if access]
    ordered = [(name, a) for name, a in apart or [("all requests", pattern)] if a.contiguous is not None]
    sizes = {name: np.array(_counts(alike, name), dtype=float) for name in _OPERATIONS}
    sizes = {name: counts for name, counts in sizes.items() if counts.any()}
    draws: list[Callable[[Axes], None]] = []
    if len(profile.points) > 1:
        draws.append(partial(_draw_curve, profile=profile))
    elif len(timed) > 1:
        draws.append(partial(_draw_runs, profile=profile, timed=timed))
    if ordered:
        draws.append(partial(_draw_order, accesses=ordered))
    if sizes:
        draws.append(partial(_draw_sizes, sizes=sizes))
    partial_runs = 0 if profile.only_partial else profile.partial_runs
    reasons = ((partial_runs, "partial"), (profile.untimed_runs, "untimed"))
    left_out = " and ".join(f"{number:,} {why}" for number, why in reasons if number)
    title = f"{printable(profile.app)}, {plural(profile.processes, 'process')}"
    title += f" on {printable(profile.filesystem)}" if profile.filesystem and not profile.unplaced_runs else ""
    title += f": {plural(profile.runs, 'run')}"
    if profile.filesystem and profile.unplaced_runs:
        title += f", {profile.runs - profile.unplaced_runs:,} of them known to be on {printable(profile.filesystem)}"
    title += f" ({left_out} left out)" if left_out else ""
    if len(timed) == 1:
        where = f" on {plural(timed[0].stripe_count, 'OST')}" if timed[0].stripe_count else ""
        title += f", {format_bandwidth(timed[0].perf_by_slowest)}{where}"
    with house_style():
        figure, every = panels(max(len(draws), 1), columns=len(draws) or 1, height=2.8)
        figure.suptitle(title)
        for axes, draw in zip(every, draws, strict=False):
            draw(axes)
        if not draws:
            every[0].text(0.5, 0.5, "no reads or writes were recorded", transform=every[0].transAxes, ha="center")
            every[0].set_axis_off()
        return write(figure, out)


def _draw_curve(axes: Axes, profile: Profile) -> None:
    points = profile.points
    n = np.array(list(points), dtype=float)
    middle, low, high = (np.array([getattr(p, name) for p in points.values()]) for name in ("median", "p10", "p90"))
    axes.errorbar(
        n, middle, (middle - low, high - middle), color=_LINE, marker="o", markersize=4, linewidth=1.3, capsize=3,
        elinewidth=0.9, zorder=3,
    )  # fmt: skip
    for (count, perf), top in zip(points.items(), high, strict=True):
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.8}  # readable over the line
        annotate(axes, plural(perf.runs, "run"), (count, top), (0, 6), ha="center", bbox=box, zorder=4)
    axes.set_xscale("log", base=2)
    axes.set(title="bandwidth by OSTs, b(n)", xlabel="OSTs that the run used, n")
    axes.set(xlim=(n.min() / 1.5, n.max() * 1.5), ylim=(0, 1.18 * float(high.max())))
    ticks: list[float] = []
    for number in n.tolist():  # skip ticks too close to the previous one
        if not ticks or number >= 1.25 * ticks[-1]:
            ticks.append(number)
    axes.set_xticks(ticks, [f"{value:g}" for value in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shorten(format_bandwidth(value)) if value else "0"))


def _draw_runs(axes: Axes, profile: Profile, timed: Sequence[Behaviour]) -> None:
    placed = [run for run in timed if run.stripe_count]
    osts = "OSTs unknown" if not placed else f"{len(placed)} on" if len(placed) < len(timed) else "all on"
    where = f" {plural(next(iter(profile.points)), 'OST')}" if placed else ""
    axes.set(title=f"{plural(len(timed), 'run')}, {osts}{where}", ylabel="performance")
    days, perf = (np.array([getattr(run, name) for run in timed]) for name in ("start_time", "perf_by_slowest"))
    axes.plot(days / _DAY, perf, linestyle="none", marker="o", markersize=3.5, color=_LINE, zorder=3)
    date_axis(axes, 2, 4)
    axes.margins(x=0.1)
    bandwidth_axis(axes, "y", perf)


def _draw_order(axes: Axes, accesses: Sequence[tuple[str, Access]]) -> None:
    """Draw a bar each for reads and writes, divided by where requests begin."""
    places = np.arange(len(accesses))
    left = np.zeros(len(accesses))
    for kind, colour in _KINDS.items():
        shares = np.array([getattr(access, kind.replace(" ", "_")) for _, access in accesses])
        if shares.any():
            axes.barh(places, shares, 0.55, left=left, color=colour, label=kind, zorder=2)
            for place, share, begin in zip(places.tolist(), shares.tolist(), left.tolist(), strict=True):
                if share >= 0.15:
                    how: Style = {"ha": "center", "va": "center", "fontsize": 6.5, "zorder": 3}
                    ink = _INKS.get(kind, "white")
                    axes.annotate(format_share(share), (begin + share / 2, place), color=ink, **how)
            left += shares
    axes.set_yticks(places, [name for name, _ in accesses])
    axes.set(title="order of requests", xlim=(0, 1), ylim=(len(accesses) - 0.4, -0.6))
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.grid(axis="y", visible=False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, fontsize=6.5, handlelength=1.2)


def _draw_sizes(axes: Axes, sizes: Mapping[str, Floats]) -> None:
    """Draw the share of requests in each of Darshan's size bins, reads beside writes."""
    used = np.flatnonzero(sum(sizes.values()))
    bins = np.arange(used[0], used[-1] + 1)
    wide = 0.8 / len(sizes)
    for i, (name, counts) in enumerate(sizes.items()):
        at = bins + (i - (len(sizes) - 1) / 2) * wide
        axes.bar(at, counts[bins] / counts.sum(), wide, color=_OPERATIONS[name], zorder=2)
    axes.set_xticks(bins, [SIZE_BINS[b] for b in bins], rotation=40, ha="right", fontsize=6.5)
    axes.set(title="sizes of requests", xlabel="bytes", xlim=(bins[0] - 0.8, bins[-1] + 0.8))
    axes.set(yticks=np.linspace(0, 1, 6), ylim=(0, 1.25))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.grid(axis="x", visible=False)
    entries = [Line2D([], [], color=_OPERATIONS[name], marker="s", linestyle="none", label=name) for name in sizes]
    axes.legend(handles=entries, loc="upper center", ncols=2, fontsize=6.5)


def _counts(runs: Sequence[Behaviour], operation: str) -> list[int]:
    sizes = [(run.read_sizes if operation == "reads" else run.write_sizes).split(",") for run in runs]
    return [sum(map(int, column)) for column in zip(*sizes, strict=True)]
