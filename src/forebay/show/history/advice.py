"""What was advised, beside what the jobs then did."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from forebay.model.layout import ANY
from forebay.model.units import format_bandwidth, plural
from forebay.show.history.documents import Document, format_time
from forebay.show.history.tables import printable
from forebay.show.output import print_rows
from forebay.show.phrases import format_binary


def print_advice(decisions: Sequence[Document], *, filtered: bool, limited: int | None) -> None:
    """`forebay history advice`; `limited` is how many were asked for at most, unless the user said it."""
    if not decisions:
        how = "`forebay advise --shadow`, --job or --apply records what it decides"
        typer.echo("No advice matches." if filtered else f"No advice is recorded yet; {how}.")
        return
    rows = [
        {
            "no.": d["decision_id"],
            "time": format_time(d["time"]),
            "application": printable(d["app"]),
            "processes": d["nprocs"],
            "job": printable(d["job"] or "-"),
            "outcome": d["outcome"],
            "layout": _layout(d["stripe_count"], d["stripe_size"]),
            "first target": "-" if d["stripe_offset"] == ANY else d["stripe_offset"],
            "policy": d["policy"],
            "ran with": _ran(d["runs"]),
        }
        for d in decisions
    ]
    print_rows("", rows)
    if limited is not None and len(rows) == limited:
        typer.echo(f"The newest {limited}; --limit N shows more.")
    typer.echo("`forebay history advice NO.` shows the reason.")


def print_decision(decision: Document) -> None:
    """`forebay history advice NUMBER`."""
    d = decision
    job = f", job {printable(d['job'])}" if d["job"] else ""
    app = f"{printable(d['app'])}, {plural(d['nprocs'], 'process')}{job}"
    place = f", on {printable(d['filesystem'])}" if d["filesystem"] else ""
    typer.echo(f"Decision {d['decision_id']}, {format_time(d['time'])}: {app}{place}")
    start = "" if d["stripe_offset"] == ANY else f" from target {d['stripe_offset']}"
    folder = f" on {printable(d['applied_to'])}" if d["applied_to"] else ""
    typer.echo(f"  {d['outcome']}{folder}: {_layout(d['stripe_count'], d['stripe_size'])}{start}")
    typer.echo(f"  policy {d['policy']} ({d['phase']}): {d['because']}")
    for run in d["runs"]:
        perf = format_bandwidth(run["perf_by_slowest"]) if run["perf_by_slowest"] else "no I/O that could be timed"
        typer.echo(f"  run {run['run_id']}, {format_time(run['start_time'])}: {_run_layout(run)}, {perf}")
    if not d["runs"]:
        typer.echo("  no run of this job is in the history" if d["job"] else "  not for a job, so no run belongs to it")


def _ran(runs: Sequence[Document]) -> str:
    """The layout of the job's last run, and its number."""
    return f"{_run_layout(runs[-1])} (run {runs[-1]['run_id']})" if runs else "-"


def _run_layout(run: Document) -> str:
    known = run["file_stripe_count"] and run["stripe_size"]
    return _layout(run["file_stripe_count"], run["stripe_size"]) if known else "layout unknown"


def _layout(count: int, size: int) -> str:
    return f"{count} x {format_binary(size)}"
