"""The tables: for people, and as records for files."""

import math

from forebay.show.report import Table
from forebay.show.rows import Record, group, select
from forebay.studies.exascale.experiment import SETTINGS
from forebay.studies.exascale.results import ALL, DEFAULT, WITHOUT, Estimate, ExascaleResults

LABELS = {"storage": "burst buffer", "stripe": "file layouts", "allocate": "targets", "requests": "request order"}


def label(on: str) -> str:
    """Which decisions are on, in words.

    >>> label("without-stripe")
    'all but file layouts'
    """
    if on.startswith(WITHOUT):
        return f"all but {LABELS[on.removeprefix(WITHOUT)]}"
    return {DEFAULT: "none (default)", ALL: "all four"}.get(on) or f"{LABELS[on]} alone"


def interval(estimate: Estimate, unit: str = "") -> str:
    """The interval in words; of one month there is none."""
    if math.isnan(estimate.low):
        return "one month"
    return f"{estimate.low:,.0f} to {estimate.high:,.0f}{unit}"


def won_table(results: ExascaleResults) -> Table:
    """What waits for I/O and what is won, for every combination of decisions."""
    rows = []
    for on in results.variants:
        hours, won, share = Estimate.of(results.hours(on=on)), results.won(on), results.share_won(on)
        cells = ["-", "-", "-"] if on == DEFAULT else [f"{won.mean:,.0f}", interval(won), f"{100 * share.mean:.1f}%"]
        rows.append([label(on), f"{hours.mean:,.0f}", *cells])
    heads = ("decisions", "node-hours in I/O", "won", "95 % interval", "of I/O")
    return Table(f"Node-hours a month, mean of {results.months}", heads, rows)


def kind_table(results: ExascaleResults) -> Table:
    """The same by kind of job."""
    rows = []
    for kind in results.kinds:
        before, after = results.hours(kind=kind).mean(), results.hours(on=ALL, kind=kind).mean()
        of_kind = select(results.of(), kind=kind)
        jobs, computed = (of_kind[name].sum() / results.months for name in ("jobs", "compute_hours"))
        wins = f"{100 * (1 - after / before):.1f} %" if before > 0 else "-"
        rows.append([kind, f"{jobs:,.0f}", f"{computed:,.0f}", f"{before:,.0f}", f"{after:,.0f}", wins])
    heads = ("kind", "jobs", "node-hours computing", "in I/O by default", "with all four", "won")
    return Table("By kind of job, a month", heads, rows)


def sensitivity_table(results: ExascaleResults) -> Table:
    """All four decisions under other assumptions."""
    rows = []
    for name, setting in SETTINGS.items():
        if results.has(name):
            before, won = Estimate.of(results.hours(setting=name)), results.won(ALL, setting=name)
            share = results.share_won(ALL, setting=name)
            cells = [f"{before.mean:,.0f}", f"{won.mean:,.0f}", interval(won), f"{100 * share.mean:.1f} %"]
            rows.append([setting.label, *cells])
    heads = ("if", "node-hours in I/O by default", "won by all four", "95 % interval", "of I/O")
    return Table("Under other assumptions", heads, rows if len(rows) > 1 else [])


def gains_table(results: ExascaleResults) -> Table:
    """What the request level found."""
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
    """A record for each month, kind and combination of decisions."""
    sums = ("jobs", "phases", "buffered", "bytes", "compute_hours", "io_hours")
    groups = group(results.runs, ("setting", "on", "month", "kind"))
    return [key | {name: rows[name].sum().item() for name in sums} for key, rows in groups]
