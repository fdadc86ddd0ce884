"""The figures: distributions after Kopanski and Rzadca 2021, and who held which nodes and bytes."""

from collections.abc import Iterator, Mapping
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from forebay.model.arrays import Floats
from forebay.model.jobs import Jobs
from forebay.model.units import format_duration, plural
from forebay.show.figures.letter_values import LETTER_VALUES, letter_values
from forebay.show.figures.looks import INK, Look, annotate, centre_groups, key, looks_of
from forebay.show.figures.scales import log_axis, name_groups
from forebay.show.figures.sheet import (
    WIDTH,
    Sketch,
    Style,
    blank_sheet,
    draw_panels,
    legend_above,
    printable,
    sketch_each,
)
from forebay.show.rows import Rows, distinct_values, select
from forebay.studies.jobs.gantt import place_blocks
from forebay.studies.jobs.measures import SIZES, used_over_time
from forebay.studies.jobs.results import METRICS, JobsResults, ratios, sweep_records

HOUR, DAY = 3600.0, 86400.0
_LABELS = {"mean_wait": "mean waiting time (h)", "mean_bounded_slowdown": "mean bounded slowdown"}
_UNITS = {"mean_wait": HOUR, "mean_bounded_slowdown": 1.0}
AXES = {
    "space": "burst buffer (times the study's)",
    "load": "load (times that of the jobs)",
    "walltimes": "wall time (times the run time)",
}
_STEPS = (60.0, 300.0, 900.0, HOUR, 6 * HOUR, DAY, 7 * DAY)
_COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#999933",
    "#882255",
    "#44AA99",
    "#6699CC",
    "#AA4466",
    "#7F7F7F",
)
_FEW = 3  # policies that a figure with little room shows


def figures_of(results: JobsResults) -> Iterator[Sketch]:
    first = results.workloads[0]
    begin, end = find_window(results)
    values = {
        "letters": LETTER_VALUES,
        "reference": results.reference,
        "jobs": first.name,
        "step": format_duration(_step_of(first, results)),
        "window": f"{format_duration(end - begin)} from {format_duration(begin)} on",
        "small": results.nodes // 12,
        "medium": results.nodes // 3,
    }
    drawn = (distributions, means, normalised, longest, sizes, usage, gantt, sweeps)
    return sketch_each(__file__, drawn, results, **values)


def _looks(results: JobsResults) -> dict[str, Look]:
    return looks_of(results.schedules, "schedules")


def distributions(results: JobsResults) -> Figure:
    """Draw the waits and the bounded slowdowns of all jobs."""
    looks = _looks(results)
    pooled = {name: results.pool(name) for name in looks}

    def draw(axes: Axes, which: int, label: str) -> None:
        unit = 60.0 if which == 0 else 1.0
        letter_values(axes, {name: values[which] / unit for name, values in pooled.items()}, looks)
        if which == 0:
            time_axis(axes, max(float(values[0].max()) for values in pooled.values()))
        else:
            log_axis(axes, LogLocator())
            axes.set_ylim(bottom=0.9)
        axes.set_ylabel(label)
        name_groups(axes, list(looks))

    return draw_panels([(0, "waiting time"), (1, "bounded slowdown")], draw, columns=2, height=3.0)


def time_axis(axes: Axes, most: float) -> None:
    """Make y, in minutes, linear up to a minute and logarithmic above, with ticks that have units."""
    axes.set_yscale("symlog", linthresh=1.0, linscale=0.5)
    ticks = [(0, "0"), (1, "1 min"), (10, "10 min"), (60, "1 h"), (600, "10 h"), (4 * 1440, "4 d"), (40 * 1440, "40 d")]
    shown = [(value, label) for value, label in ticks if value * 60 <= 2 * most or value <= 1]
    axes.set_yticks([value for value, _ in shown], [label for _, label in shown])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(bottom=-0.1)


def means(results: JobsResults) -> Figure:
    """Draw the mean wait and slowdown of every part."""
    samples = {
        metric: {name: select(results.base, schedule=name)[metric] / _UNITS[metric] for name in results.schedules}
        for metric in METRICS
    }
    return _draw_dots(results, samples, _LABELS)


def normalised(results: JobsResults) -> Figure:
    """Draw the same, divided by the reference's; nothing if there is only the reference."""
    if len(results.schedules) < 2:
        return blank_sheet(WIDTH, 1)
    samples = {
        metric: {name: ratios(results.base, name, results.reference, metric) for name in results.schedules}
        for metric in METRICS
    }
    labels = {metric: f"{_LABELS[metric].removesuffix(' (h)')}\nover that of {results.reference}" for metric in METRICS}
    return _draw_dots(results, samples, labels, line=1.0)


def _draw_dots(
    results: JobsResults,
    samples: Mapping[str, Mapping[str, Floats]],
    labels: Mapping[str, str],
    line: float | None = None,
) -> Figure:
    looks = _looks(results)

    def draw(axes: Axes, metric: str) -> None:
        for position, (name, values) in enumerate(samples[metric].items()):
            shift = np.linspace(-0.22, 0.22, values.size) if values.size > 1 else np.zeros(1)
            dots: Style = {"s": 14, "alpha": 0.65, "linewidths": 0, "zorder": 3}
            axes.scatter(position + shift, values, color=looks[name].colour, **dots)
            axes.hlines(values.mean(), position - 0.36, position + 0.36, color=INK, linewidth=1.5, zorder=4)
            annotate(axes, f"{values.mean():.3g}", (position, values.max()), (0, 4), ha="center", va="bottom")
        every = np.concatenate(list(samples[metric].values()))
        if every.max() > 12 * np.median(every):
            log_axis(axes)
            axes.margins(y=0.12)
        else:
            axes.set_ylim(0, 1.1 * float(every.max()) or 1.0)
        if line is not None:
            axes.axhline(line, color=INK, linewidth=0.8, linestyle=(0, (4, 2)), zorder=1)
        centre_groups(axes, len(looks), 3)
        axes.set_ylabel(labels[metric])
        name_groups(axes, list(looks))

    return draw_panels([(metric,) for metric in METRICS], draw, columns=2, height=2.8)


def longest(results: JobsResults) -> Figure:
    """Draw the waits from the longest down."""
    looks = _looks(results)

    def draw(axes: Axes) -> None:
        most = 0.0
        for name, look in looks.items():
            values = np.sort(results.pool(name)[0])[::-1] / 60
            most = max(most, float(values[0]) * 60)
            rank = np.arange(1, values.size + 1)
            every = np.unique(np.geomspace(1, values.size, 200).astype(int)) - 1
            axes.plot(rank[every], values[every], markevery=20, **look.style())
        axes.set_xscale("log")
        time_axis(axes, most)
        axes.set_xlabel("rank of the job")
        axes.set_ylabel("waiting time")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))

    legend = [key(name, look) for name, look in looks.items()]
    return draw_panels([()], draw, width=WIDTH, height=3.0, legend=legend, legend_columns=5)


def sizes(results: JobsResults) -> Figure:
    """Draw the mean bounded slowdown of each size of jobs."""
    looks = _looks(results)
    shown = [size for size in SIZES if size in set(distinct_values(results.sizes, "size"))]
    width = 0.84 / len(looks)

    def draw(axes: Axes) -> None:
        for k, (name, look) in enumerate(looks.items()):
            rows = select(results.sizes, schedule=name)
            x = np.arange(len(shown)) + (k - (len(looks) - 1) / 2) * width
            heights = [float(select(rows, size=size)["mean_bounded_slowdown"].mean()) for size in shown]
            axes.bar(x, heights, 0.92 * width, color=look.colour, zorder=2)
        log_axis(axes)
        axes.set_ylim(bottom=1)
        axes.set_xticks(range(len(shown)), shown)
        axes.tick_params(axis="x", length=0)
        axes.grid(axis="x", visible=False)
        axes.set_ylabel("mean bounded slowdown")

    patches = [Rectangle((0, 0), 1, 1, color=look.colour, label=printable(name)) for name, look in looks.items()]
    return draw_panels([()], draw, width=WIDTH, height=2.6, legend=patches, legend_columns=5)


def _step_of(jobs: Jobs, results: JobsResults) -> float:
    """Return the width of a step in the figure of use over time: about 150 steps."""
    length = max(float(results.fates[jobs.name, s]["end"].max()) for s in results.schedules) - float(
        jobs.rows["submit"][0]
    )
    return next((step for step in _STEPS if length / step <= 170), _STEPS[-1])


def usage(results: JobsResults) -> Figure:
    """Draw nodes, bytes and waiting jobs over time, a line for each of a few policies."""
    jobs, step = results.workloads[0], _step_of(results.workloads[0], results)
    begin = float(jobs.rows["submit"][0])
    looks = {name: look for name, look in _looks(results).items() if name in results.choose(_FEW)}
    units = np.ones(len(jobs), dtype=np.int64)
    last = max(float(results.fates[jobs.name, name]["end"].max()) for name in looks)
    edges = np.arange(begin, last + step, step)

    def nodes_in_use(fates: Rows) -> Floats:
        return 100 * used_over_time(fates["start"], fates["end"], jobs.rows["nodes"], edges) / results.nodes

    def bytes_in_use(fates: Rows) -> Floats:
        return 100 * used_over_time(fates["held_from"], fates["held_until"], jobs.rows["bytes"], edges) / results.space

    def jobs_waiting(fates: Rows) -> Floats:
        return used_over_time(jobs.rows["submit"], fates["start"], units, edges)

    series = {"nodes in use (%)": nodes_in_use, "bytes in use (%)": bytes_in_use, "jobs waiting": jobs_waiting}

    def draw(axes: Axes, label: str) -> None:
        for name, look in looks.items():
            values = series[label](results.fates[jobs.name, name])
            style: Style = {"color": look.colour, "linewidth": 0.6 + look.width / 2, "zorder": look.front}
            axes.stairs(values, (edges - begin) / DAY, baseline=None, **style)
        axes.set_ylim(0, 103 if "%" in label else None)
        axes.set_xlim(0, (edges[-1] - begin) / DAY)
        axes.set_ylabel(label)

    legend = [Rectangle((0, 0), 1, 1, color=look.colour, label=printable(name)) for name, look in looks.items()]
    return draw_panels(
        [(label,) for label in series], draw, columns=1, width=WIDTH, height=1.45, xlabel="days", legend=legend
    )


def find_window(results: JobsResults) -> tuple[float, float]:
    """Return begin and end of the Gantt picture, in seconds after the first submission: a day around most waiting."""
    if results.window:
        return results.window
    jobs = results.workloads[0]
    fates = results.fates[jobs.name, results.reference]
    last = float(fates["end"].max() - jobs.rows["submit"][0])
    length = min(DAY, last)
    edges = np.linspace(0, last, 500)
    waiting = _count_waiting(jobs, fates, edges)
    peak = float(edges[int(np.argmax(waiting))])
    begin = min(max(0.0, peak - length / 2), last - length)
    rounded = HOUR * round(begin / HOUR) if length >= 12 * HOUR else begin
    return rounded, rounded + length


def _count_waiting(jobs: Jobs, fates: Rows, edges: Floats) -> Floats:
    """Count the jobs that wait in each interval; `edges` are in seconds after the first submission."""
    first = jobs.rows["submit"][0]
    submit, starts = jobs.rows["submit"] - first, fates["start"] - first
    return used_over_time(submit, starts, np.ones(len(jobs), dtype=np.int64), edges)


def gantt(results: JobsResults) -> Figure:
    """Draw the nodes and the bytes of every job in the window, a row of panels for each of a few policies."""
    begin, end = find_window(results)
    jobs = results.workloads[0]
    first = float(jobs.rows["submit"][0])
    shown = results.choose(_FEW)
    hours = DAY if end - begin > 4 * DAY else HOUR
    fates = {name: results.fates[jobs.name, name] for name in shown}
    inside = {
        name: np.flatnonzero((f["held_from"] - first < end) & (f["held_until"] - first > begin))
        for name, f in fates.items()
    }
    visible = sorted({int(job) for each in inside.values() for job in each})
    colours = dict(zip(visible, cycle(_COLOURS), strict=False))

    def draw(axes: Axes, name: str, resource: str) -> None:
        of_nodes = resource == "nodes"
        begins, ends = ("start", "end") if of_nodes else ("held_from", "held_until")
        unit = 1.0 if of_nodes else 1e9
        total = results.nodes if of_nodes else results.space
        shown_rows, f = inside[name], fates[name][inside[name]]
        # Jobs that run when the window begins are placed in their order there.
        blocks = place_blocks(
            np.maximum(f[begins] - first, begin),
            f[ends] - first,
            jobs.rows["nodes" if of_nodes else "bytes"][shown_rows],
            total,
        )
        seen = [b._replace(job=int(shown_rows[b.job])) for b in blocks if b.begin < end]
        boxes = [
            Rectangle((b.begin / hours, b.low / unit), (b.end - b.begin) / hours, (b.high - b.low) / unit) for b in seen
        ]
        faces = [colours[b.job] for b in seen]
        axes.add_collection(PatchCollection(boxes, facecolors=faces, edgecolors="white", linewidths=0.25, zorder=2))
        axes.set_xlim(begin / hours, end / hours)
        axes.set_ylim(0, total / unit)
        axes.grid(visible=False)
        axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 3, 6, 10]))
        axes.set_ylabel("nodes" if of_nodes else "GB")
        for b in seen:
            last = min(b.end, end)
            if last - b.begin > 0.09 * (end - begin) and b.high - b.low > 0.085 * total:
                text: Style = {"ha": "center", "va": "center", "fontsize": 5.5, "color": "white", "clip_on": True}
                axes.text(
                    (b.begin + last) / 2 / hours, (b.low + b.high) / 2 / unit, printable(jobs.ids[b.job], 12), **text
                )

    def title(name: str, resource: str) -> str:
        waiting = plural(int(_count_waiting(jobs, fates[name], np.linspace(begin, end, 500)).max()), "job")
        return f"{printable(name)}: nodes; up to {waiting} waiting" if resource == "nodes" else "bytes"

    return draw_panels(
        [(name, resource) for name in shown for resource in ("nodes", "bytes")],
        draw,
        title=title,
        columns=2,
        height=1.8,
        xlabel="days" if hours == DAY else "hours",
    )


def sweeps(results: JobsResults) -> Figure:
    """Draw a panel for each sweep and metric."""
    records = list(sweep_records(results))
    kinds = list(dict.fromkeys(record["sweep"] for record in records))
    looks = _looks(results)
    if not kinds:
        return blank_sheet(WIDTH, 1)

    def draw(axes: Axes, metric: str, kind: str) -> None:
        for name, look in looks.items():
            points = sorted(
                (r["value"], r[metric] / _UNITS[metric]) for r in records if (r["sweep"], r["schedule"]) == (kind, name)
            )
            axes.plot(*zip(*points, strict=True), **look.style())
        values = sorted({r["value"] for r in records if r["sweep"] == kind})
        if kind == "space" and len(values) > 1:
            axes.set_xscale("log")
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.xaxis.set_minor_locator(NullLocator())
        log_axis(axes)
        axes.set_ylabel(_LABELS[metric])
        if metric == METRICS[1]:
            axes.set_xlabel(AXES[kind])

    figure = draw_panels(
        [(metric, kind) for metric in METRICS for kind in kinds], draw, columns=len(kinds), width=WIDTH, height=2.2
    )
    legend_above(figure, [key(name, look) for name, look in looks.items()], 5)
    return figure
