"""The findings, computed from the results, and what the model leaves out."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from forebay.model.units import plural
from forebay.show.report import Report, Section, Table
from forebay.show.rows import Record, group, records, select
from forebay.simulate.centre.month import DECISIONS
from forebay.studies.exascale.experiment import SETTINGS
from forebay.studies.exascale.figures import figures_of
from forebay.studies.exascale.results import ALL, BASE, DEFAULT, LABELS, Estimate, ExascaleResults, label

LEFT_OUT = (
    "The queue is not simulated: jobs keep their start times, and saved node-hours do not go to other jobs.",
    "No target is slow, full or broken. The only shared links are those of the targets. Metadata is left out.",
    "A target divides its bandwidth equally among its jobs, regardless of the number of clients of each.",
    "Users do not write more when I/O becomes faster, although they limit their output to what is fast enough today.",
    "Node-local drives are left out: a job that already uses them well would save less than here.",
    "Input comes from the disks: nothing is staged into the burst buffer before a job starts.",
    "The model of request order is fitted to another machine, which has I/O nodes; Frontier has none.",
)


def savings_table(results: ExascaleResults) -> Table:
    """Tabulate the node-hours in I/O and those saved, for every combination of decisions."""
    rows = []
    for on in results.variants:
        won, share = results.hours_saved(on), results.share_saved(on)
        cells = ["-", "-", "-"] if on == DEFAULT else [f"{won.mean:,.0f}", won.interval, f"{100 * share.mean:.1f}%"]
        rows.append([label(on), f"{results.hours(on=on).mean():,.0f}", *cells])
    heads = ("decisions", "node-hours in I/O", "saved", "95 % interval", "of I/O")
    return Table(f"Node-hours a month, mean of {results.months}", heads, rows)


def kind_table(results: ExascaleResults) -> Table:
    """Tabulate the same by kind of job."""
    rows = []
    for kind in results.kinds:
        before, after = results.hours(kind=kind).mean(), results.hours(on=ALL, kind=kind).mean()
        of_kind = select(results.of(), kind=kind)
        jobs, computed = (of_kind[name].sum() / results.months for name in ("jobs", "compute_hours"))
        wins = f"{100 * (1 - after / before):.1f} %" if before > 0 else "-"
        rows.append([kind, f"{jobs:,.0f}", f"{computed:,.0f}", f"{before:,.0f}", f"{after:,.0f}", wins])
    heads = ("kind", "jobs", "node-hours computing", "in I/O by default", "with all four", "saved")
    return Table("By kind of job, a month", heads, rows)


def sensitivity_table(results: ExascaleResults) -> Table:
    """Tabulate all four decisions under other assumptions."""
    rows = []
    for name, setting in SETTINGS.items():
        if results.has(name):
            won, share = (measure(ALL, setting=name) for measure in (results.hours_saved, results.share_saved))
            cells = [f"{won.mean:,.0f}", won.interval, f"{100 * share.mean:.1f} %"]
            rows.append([setting.label, f"{results.hours(setting=name).mean():,.0f}", *cells])
    heads = ("if", "node-hours in I/O by default", "saved by all four", "95 % interval", "of I/O")
    return Table("Under other assumptions", heads, rows if len(rows) > 1 else [])


def gains_table(results: ExascaleResults) -> Table:
    """Tabulate the gains of request windows."""
    rows = [
        {
            "operation": g.operation,
            "pattern": g.pattern,
            "request": f"{g.request / 2**20:g} MiB",
            "best window": f"{100 * (g.best - 1):.1f} %",
            "while it is learned": f"{100 * (g.learned - 1):.1f} %",
        }
        for g in results.gains
    ]
    return Table.of("Servers with windows against first come, first served", rows)


def row_records(results: ExascaleResults) -> list[Record]:
    """Return a record for each month, kind of job and combination of decisions."""
    sums = ("jobs", "phases", "buffered", "bytes", "compute_hours", "io_hours")
    groups = group(results.runs, ("setting", "on", "month", "kind"))
    return [key | {name: rows[name].sum().item() for name in sums} for key, rows in groups]


def conclusions(results: ExascaleResults) -> list[str]:
    """Return the findings: the node-hours first, then where they come from."""
    return [*_describe_whole(results), *_describe_each(results), *_describe_other_jobs(results)]


def _describe_whole(results: ExascaleResults) -> Iterator[str]:
    settings: Any = results.settings
    before, won = Estimate.of(results.hours()), results.hours_saved(ALL)
    rows = results.of()
    used = float((rows["compute_hours"].sum() + rows["io_hours"].sum()) / results.months)
    yield (
        f"By default {before.mean:,.0f} of {used:,.0f} node-hours a month wait for I/O "
        f"({100 * before.mean / used:.1f} %); "
        f"{rows['bytes'].sum() / results.months / 1e15:,.0f} PB are moved."
    )
    verb, how = ("save", "more") if won.mean >= 0 else ("lose", "fewer")
    size = won if won.mean >= 0 else Estimate(-won.mean, -won.high, -won.low)
    nodes = size.mean / results.capacity * settings["machine"]["compute"]["nodes"]
    yield (
        f"All four decisions {verb} {size.mean:,.0f} node-hours a month (95 % interval {size.interval}): "
        f"{100 * size.mean / before.mean:.0f} % of those that wait for I/O, {100 * size.mean / used:.2f} % of all, "
        f"as if the machine had {nodes:,.0f} {how} nodes."
    )


def _describe_each(results: ExascaleResults) -> Iterator[str]:
    alone, last = results.alone(), results.last()
    for name in DECISIONS:
        single, added = alone[name], last[name]
        verdict = "" if single.low > 0 or added.low > 0 else " It shows no gain here."
        if single.high < 0 or added.high < 0:
            verdict = " It loses."
        yield (
            f"{LABELS[name].capitalize()}: {single.mean:,.0f} node-hours alone ({single.interval}), "
            f"{added.mean:,.0f} on top of the three others ({added.interval}).{verdict}"
        )
    apart, won = sum(e.mean for e in alone.values()), results.hours_saved(ALL).mean
    if apart > 0:
        yield (
            f"Together they save {abs(100 * (won / apart - 1)):.0f} % {'less' if won < apart else 'more'} than the sum "
            "of each alone: a layout cannot speed up the writes that the burst buffer absorbs."
        )


def _describe_other_jobs(results: ExascaleResults) -> Iterator[str]:
    """Describe the change for the jobs of each kind, and the savings under other assumptions."""
    for kind in results.kinds:
        ratios = results.ratios(kind)
        if ratios.size:
            yield (
                f"Half of the {kind} jobs wait at most {100 * float(np.median(ratios)):.0f} % of their default time; "
                f"{100 * float((ratios > 1.05).mean()):.1f} % wait at least 5 % longer."
            )
    gains = []
    for name, setting in SETTINGS.items():
        if name != BASE and results.has(name):
            won, share = results.hours_saved(ALL, setting=name).mean, results.share_saved(ALL, setting=name).mean
            gains.append(f"{setting.label} {won:,.0f} ({100 * share:.0f} % of I/O)")
    if gains:
        base = results.share_saved(ALL).mean
        yield f"Node-hours saved under other assumptions (as assumed: {100 * base:.0f} % of I/O): {'; '.join(gains)}."


_SOURCES = "Units: bytes, seconds, bytes per second. The machine and workload files give the source of each number."


def make_report(results: ExascaleResults) -> Report:
    settings: Any = results.settings
    rows, sentences = row_records(results), conclusions(results)
    assumed = [Section(f"The {part}", text=json.dumps(settings[part], indent=1)) for part in ("machine", "workload")]
    return Report(
        title=f"Study: a month of {settings['machine']['name']}",
        about=f"{plural(results.months, 'drawn month')} of {settings['workload']['month']['days']:g} days, in "
        f"simulation, seed {settings['seed']}: what the centre does today against all four decisions of Forebay, each "
        "alone, and all but one.",
        findings=[Section("Findings", sentences)],
        records={"rows": rows, "jobs": records(results.runs)},
        document={
            "settings": dict(settings),
            "months": results.months,
            "conclusions": sentences,
            "left_out": LEFT_OUT,
            "gains": [gain._asdict() for gain in results.gains],
            "rows": rows,
        },
        figures=figures_of(results),
        summary=[savings_table(results)],
        tables=[savings_table(results), kind_table(results), sensitivity_table(results), gains_table(results)],
        remarks=[Section("What the model leaves out", LEFT_OUT), Section("Assumptions", [_SOURCES]), *assumed],
    )
