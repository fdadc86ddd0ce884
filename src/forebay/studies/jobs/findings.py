"""The findings, computed from the results."""

from collections.abc import Iterator

import numpy as np

from forebay.model.units import format_size, plural
from forebay.show.phrases import format_finite, join_names, percent, shorten
from forebay.show.report import Report, Section, Table
from forebay.show.rows import Record, distinct_values, records, select
from forebay.studies.jobs.figures import AXES, figures_of
from forebay.studies.jobs.measures import SIZES
from forebay.studies.jobs.results import (
    EASY,
    FCFS_BB,
    FOREBAY,
    METRICS,
    PLAN,
    RUN,
    JobsResults,
    normalise,
    ratios,
    sweep_records,
)

_ROW = tuple(name for name in RUN.names or () if name not in ("sweep", "value"))
_ALIKE = 0.01


def make_report(results: JobsResults) -> Report:
    sentences = list(conclusions(results))
    changed = list(sweep_records(results))
    others = {
        "normalised": list(normalise(results)),
        "sizes": records(results.sizes),
        "sweeps": changed,
        "rejected": [row._asdict() for jobs in results.workloads for row in jobs.rejected],
    }
    rows = records(results.base, _ROW)
    count = plural(sum(len(jobs) for jobs in results.workloads), "job")
    machine = f"{results.nodes:,} nodes with {shorten(format_size(results.space))} of burst buffer"
    return Report(
        about=f"{count} in {plural(len(results.workloads), 'file')} on {machine}, mode {results.mode}, "
        f"seed {results.settings.get('seed')}.",
        findings=[Section("Findings", sentences)],
        records={"runs": rows, **others},
        document={"settings": dict(results.settings), "rows": rows, **others, "conclusions": sentences},
        figures=figures_of(results),
        summary=[mean_table(results)],
        tables=[mean_table(results), part_table(results), size_table(results), sweep_table(changed)],
    )


def mean_table(results: JobsResults) -> Table:
    """Tabulate each policy over all files."""
    relative = {record["schedule"]: record for record in normalise(results)}
    rows = []
    for name in results.schedules:
        runs = select(results.base, schedule=name)
        rows.append(
            {
                "schedule": name,
                "mean wait": _hours(runs["mean_wait"].mean()),
                "95 %": _hours(runs["p95_wait"].mean()),
                "longest": _hours(runs["max_wait"].max()),
                "slowdown": f"{runs['mean_bounded_slowdown'].mean():.2f}",
                "nodes": percent(runs["nodes_used"].mean()),
                "bytes": percent(runs["bytes_used"].mean()),
                f"wait / {results.reference}": f"{relative[name]['mean_wait']:.3f}",
                f"slowdown / {results.reference}": f"{relative[name]['mean_bounded_slowdown']:.3f}",
            }
        )
    title = f"Waiting in hours, bounded slowdown and use, means of {plural(len(results.workloads), 'file')}"
    return Table.of(title, rows)


def part_table(results: JobsResults) -> Table:
    """Tabulate mean wait in seconds and mean bounded slowdown of each file and policy."""
    rows = []
    for jobs in results.workloads:
        row: Record = {"jobs": jobs.name}
        for name in results.schedules:
            [run] = select(results.base, jobs=jobs.name, schedule=name)
            row[name] = f"{run['mean_wait']:,.0f} / {run['mean_bounded_slowdown']:.2f}"
        rows.append(row)
    return Table.of("Mean waiting time in seconds / mean bounded slowdown of each file", rows)


def size_table(results: JobsResults) -> Table:
    """Tabulate the mean bounded slowdown of jobs by size, and the fairness between users."""
    rows = []
    for name in results.schedules:
        row: Record = {"schedule": name}
        for size in SIZES:
            slowdowns = select(results.sizes, schedule=name, size=size)["mean_bounded_slowdown"]
            row[f"{size}"] = format_finite(float(slowdowns.mean()) if slowdowns.size else np.nan, "{:.2f}")
        users = select(results.base, schedule=name)["users_fairness"]
        row["fairness between users"] = format_finite(float(users.mean()), "{:.3f}")
        rows.append(row)
    return Table.of("Mean bounded slowdown by size of jobs, and Jain's index over the users' mean slowdowns", rows)


def sweep_table(changed: list[Record]) -> Table:
    """Tabulate the sweeps: mean wait and slowdown, and their ratios to the reference."""
    rows = [
        {
            "sweep": record["sweep"],
            "value": f"{record['value']:g}",
            "schedule": record["schedule"],
            "mean wait (h)": _hours(record["mean_wait"]),
            "slowdown": f"{record['mean_bounded_slowdown']:.2f}",
            "wait, of the reference": f"{record['mean_wait_ratio']:.3f}",
            "slowdown, of the reference": f"{record['mean_bounded_slowdown_ratio']:.3f}",
        }
        for record in changed
    ]
    return Table.of("Sweeps", rows)


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.2f}"


def _format_long(seconds: float) -> str:
    """
    >>> _format_long(7200), _format_long(400_000)
    ('2.0 hours', '4.6 days')
    """
    return f"{seconds / 86400:.1f} days" if seconds >= 2 * 86400 else f"{seconds / 3600:.1f} hours"


def conclusions(results: JobsResults) -> Iterator[str]:
    """Yield the findings as sentences. A comparison that lacks runs is left out."""
    yield from _mention_rejected(results)
    if len(results.schedules) > 1:
        yield from _name_best(results)
        yield from _compare_with_reference(results)
    yield from _compare_reservations(results)
    yield from _list_longest_waits(results)
    yield from _sizes(results)
    yield from _name_scarce_resource(results)
    if len(results.schedules) > 1:
        yield from _sweeps(results)
    yield from _count_fitting(results)


def _mention_rejected(results: JobsResults) -> Iterator[str]:
    count = sum(len(jobs.rejected) for jobs in results.workloads)
    if count:
        yield f"{plural(count, 'job')} left out, each with its reason in rejected.csv."


def _name_best(results: JobsResults) -> Iterator[str]:
    relative = list(normalise(results))
    wait, slowdown = (min(relative, key=lambda r: r[metric]) for metric in METRICS)
    reference = results.reference
    if wait["schedule"] == slowdown["schedule"] == reference:
        yield f"{reference} has the least waiting time and the least bounded slowdown, averaged over the files."
        return
    if wait["schedule"] == slowdown["schedule"]:
        yield (
            f"{wait['schedule']} has the least waiting time ({_compare(wait['mean_wait'], reference)}) and the least "
            f"bounded slowdown ({_compare(wait['mean_bounded_slowdown'], reference)}), averaged over the files."
        )
        return
    for record, metric, noun in ((wait, METRICS[0], "waiting time"), (slowdown, METRICS[1], "bounded slowdown")):
        than = f" ({_compare(record[metric], reference)})" if record["schedule"] != reference else ""
        yield f"{record['schedule']} has the least {noun}{than}, averaged over the files."


def _compare_with_reference(results: JobsResults) -> Iterator[str]:
    """Compare forebay and the plan with the reference, file by file."""
    for name in (FOREBAY, PLAN):
        if name in results.schedules and name != results.reference:
            wait, slowdown = (ratios(results.base, name, results.reference, metric) for metric in METRICS)
            worse = int(((wait > 1) & (slowdown > 1)).sum())
            single = (
                f" In single files, it has {wait.min():.2f} to {wait.max():.2f} times the waiting time, and "
                f"{slowdown.min():.2f} to {slowdown.max():.2f} times the slowdown; both are worse in {worse} of "
                f"{plural(wait.size, 'file')}."
            )
            yield (
                f"{name} has {_compare(float(wait.mean()), results.reference, 'waiting time')}, and "
                f"{_describe_ratio(float(slowdown.mean()))} bounded slowdown.{single if wait.size > 1 else ''}"
            )


def _compare_reservations(results: JobsResults) -> Iterator[str]:
    """Say what it changes if bytes are reserved as well as nodes."""
    if {EASY, FCFS_BB} <= set(results.schedules):
        easy, both = (select(results.base, schedule=name) for name in (EASY, FCFS_BB))
        hours = " to ".join(_hours(runs["mean_wait"].mean()) for runs in (easy, both))
        slowdowns = " to ".join(f"{runs['mean_bounded_slowdown'].mean():.2f}" for runs in (easy, both))
        yield (
            f"Reserving bytes as well as nodes for the first job ({FCFS_BB} instead of {EASY}) changes the mean "
            f"waiting time from {hours} hours, and the mean bounded slowdown from {slowdowns}."
        )


def _describe_ratio(ratio: float) -> str:
    """
    >>> _describe_ratio(0.7), _describe_ratio(1.25), _describe_ratio(1.0)
    ('30.0 % less', '25.0 % more', 'as much')
    """
    return f"{100 * abs(ratio - 1):.1f} % {'more' if ratio > 1 else 'less'}" if abs(ratio - 1) >= 5e-4 else "as much"


def _compare(ratio: float, other: str, noun: str = "") -> str:
    """
    >>> _compare(0.7, "easy"), _compare(1.0, "easy", "waiting time")
    ('30.0 % less than easy', 'as much waiting time as easy')
    """
    amount = _describe_ratio(ratio)
    return f"{amount} {noun}".strip() + f" {'as' if amount == 'as much' else 'than'} {other}"


def _list_longest_waits(results: JobsResults) -> Iterator[str]:
    longest = {name: float(select(results.base, schedule=name)["max_wait"].max()) for name in results.schedules}
    parts = [f"{_format_long(seconds)} ({name})" for name, seconds in longest.items()]
    yield f"The job that waits longest waits {join_names(parts)}."


def _sizes(results: JobsResults) -> Iterator[str]:
    """Say how much more large jobs are slowed down than those of one node."""
    parts = []
    for name in results.choose(4):
        rows = select(results.sizes, schedule=name)
        least, most = (select(rows, size=size)["mean_bounded_slowdown"] for size in (SIZES[0], SIZES[-1]))
        if least.size and most.size:
            parts.append(f"{most.mean() / least.mean():.1f} times under {name}")
    if parts:
        yield f"The mean bounded slowdown of large jobs, over that of jobs on one node: {join_names(parts)}."


def _name_scarce_resource(results: JobsResults) -> Iterator[str]:
    """Say which resource is used more."""
    runs = select(results.base, schedule=results.reference)
    nodes, used = float(runs["nodes_used"].mean()), float(runs["bytes_used"].mean())
    if used < _ALIKE:
        yield "The jobs use hardly any burst buffer; policies that reserve bytes make no difference."
        return
    shares = f"{percent(nodes)} of the nodes and {percent(used)} of the bytes"
    scarce = "bytes" if used > nodes else "nodes"
    yield f"Under {results.reference}, {shares} are in use on average: {scarce} are scarcer."


def _sweeps(results: JobsResults) -> Iterator[str]:
    changed = list(sweep_records(results))
    shown = [name for name in (FOREBAY, PLAN) if name in results.schedules and name != results.reference][:1]
    for sweep in dict.fromkeys(record["sweep"] for record in changed):
        for name in shown:
            records = [r for r in changed if (r["sweep"], r["schedule"]) == (sweep, name)]
            parts = [
                f"{r['mean_wait_ratio']:.2f} / {r['mean_bounded_slowdown_ratio']:.2f} at {r['value']:g}"
                for r in records
            ]
            yield (
                f"Waiting time / slowdown of {name} over {results.reference}, by {AXES[sweep]}: {join_names(parts)}."
            )


def _count_fitting(results: JobsResults) -> Iterator[str]:
    """Say where more or fewer jobs run than on the study's own machine, as means are then of other jobs."""
    whole = int(select(results.base, schedule=results.reference)["count"].sum())
    for sweep, value in distinct_values(results.runs, "sweep", "value"):
        runs = select(results.runs, sweep=sweep, value=value, schedule=results.reference)
        count = int(runs["count"].sum())
        if count != whole:
            yield (
                f"With {value:g} times the {sweep}, {count:,} jobs fit on the machine instead of {whole:,}: compare "
                "policies there, but not the waiting time with that at other sizes."
            )
