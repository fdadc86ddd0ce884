"""Prints the history as tables and sentences."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import typer

from forebay.history.run_fields import SIZE_BINS, WholeRun
from forebay.history.store.totals import AppSums
from forebay.model.layout import ANY
from forebay.model.units import format_bandwidth, format_binary, format_size, plural
from forebay.profile.filesystem_usage import Bin, Usage
from forebay.profile.ost_health import OstHealth
from forebay.show.history.documents import Top
from forebay.show.output import Document, print_rows, print_table, printable, ranges
from forebay.show.phrases import format_counts, format_time, mount_name

_MOST_OSTS = 40


def print_usage(usage: Usage, apps: int, most_run: Top, most_bytes: Top, filesystems: Top) -> None:
    """`forebay history stats`."""
    typer.echo(
        f"{plural(usage.runs, 'run')} of {plural(apps, 'application')}, {format_size(usage.total_bytes)}; "
        f"{plural(usage.partial_runs, 'run')} from partial logs, {usage.runs_without_lustre:,} without Lustre records"
    )
    if filesystems:
        rows = [(mount_name(mount), f"{n:,}", format_size(b)) for mount, n, b in filesystems]
        print_table("File systems, by where runs moved most of their bytes", ("file system", "runs", "volume"), rows)
    if len(filesystems) > 1:
        typer.echo("The tables below cover all of them; --filesystem MOUNT shows one.")
    _print_bins("OSTs that a run used (stripe count)", "OSTs", usage.stripe_counts, lambda b: b.label)
    _print_bins("Stripe size", "stripe size", usage.stripe_sizes, lambda b: format_binary(b.low))
    print_table(
        "Runs with default striping",
        ("what", "runs"),
        [
            ("one OST", _share(usage.default_count, 3)),
            ("1 MiB stripes", _share(usage.default_size, 3)),
            ("both", _share(usage.default_both, 3)),
            ("files of one 1 MiB stripe each, on any number of OSTs", _share(usage.default_layout, 3)),
        ],
    )
    for title, top in (("Most run", most_run), ("Most bytes", most_bytes)):
        print_table(title, ("application", "runs", "volume"), [(a, f"{n:,}", format_size(b)) for a, n, b in top])
    typer.echo(
        f"Requests: {_share(usage.sequential)} sequential, {_share(usage.less_1k)} under 1 KB, "
        f"{_share(usage.from_1k_to_100k)} from 1 KB to 100 KB"
    )


def _print_bins(title: str, head: str, bins: Sequence[Bin], label: Callable[[Bin], str]) -> None:
    if not any(b.runs for b in bins):
        typer.echo(f"{title}: unknown for all runs")
        return
    rows = [(label(b), f"{b.runs:,}", _share(b.share, 3)) for b in bins]
    print_table(title, (head, "runs", "share"), [*rows, ("total", f"{sum(b.runs for b in bins):,}", "100.000%")])


def print_apps(apps: Sequence[AppSums], where: str) -> None:
    """`forebay history apps`; `where` the runs were."""
    rows = [
        {
            "application": app.app,
            "runs": f"{app.runs:,}",
            "partial": f"{app.partial_runs:,}" if app.partial_runs else "-",
            "volume": format_size(app.total_bytes),
            "mean": _or_dash(app.mean_perf, format_bandwidth),
            "best": _or_dash(app.best_perf, format_bandwidth),
            "in run": _or_dash(app.best_run),
            "best with": _or_dash(app.best_layout, _describe_best),
            "processes": format_counts(app.nprocs),
            "last run": format_time(app.last_start_time),
        }
        for app in apps
    ]
    print_rows("", rows)
    if where.startswith("all "):
        typer.echo(f"Over {where}; --filesystem MOUNT shows one.")


def print_runs(runs: Iterable[Document], limited: int | None) -> None:
    """`forebay history runs`; `limited` is the default limit, None if the user set one."""
    rows = [
        {
            "run": run["run_id"],
            "application": run["app"],
            "started": format_time(run["start_time"]),
            "job": run["job_name"] or run["job_id"],
            "processes": run["nprocs"],
            "volume": format_size(run["total_bytes"]),
            "performance": _or_dash(run["perf_by_slowest"] or None, format_bandwidth),
            "OSTs": _or_dash(run["stripe_count"]),
            "stripe size": _or_dash(run["stripe_size"], format_binary),
            "file system": _or_dash(run["filesystem"], mount_name),
            "": "partial" if run["partial_flag"] else "",
        }
        for run in runs
    ]
    if not rows:
        typer.echo("No run matches.")
        return
    print_rows("", rows)
    if limited is not None and len(rows) == limited:
        typer.echo(f"The newest {limited}; --limit N shows more.")


def print_run(document: WholeRun) -> None:
    """`forebay history show`."""
    run, osts = document["run"], document["osts"]
    typer.echo(f"Run {run['run_id']}: {printable(run['app'])}, {plural(run['nprocs'], 'process')}")
    if run["partial_flag"]:
        modules = [m["module"] for m in document["modules"] if m["partial_flag"]]
        whose = f" of {' and '.join(modules)}" if modules else ""
        typer.echo(f"Partial: records{whose} are missing; bytes, files and times are too low.")
    print_table("", ("what", "value"), [(name, _value(name, value)) for name, value in run.items()])
    modules = [
        {
            "module": module["module"],
            "read": format_size(module["bytes_read"]),
            "written": format_size(module["bytes_written"]),
            "I/O seconds": module["time_by_slowest"],
            "performance": _or_dash(module["perf_by_slowest"] or None, format_bandwidth),
            "files": module["total_files"],
            "": "partial" if module["partial_flag"] else "",
        }
        for module in document["modules"]
    ]
    print_rows("Modules", modules)
    requests = [
        {
            "requests": f"{part['operation']}s",
            "volume": format_size(part["total_bytes"]),
            "in shared files": format_size(part["shared_bytes"]),
            "number": f"{part['requests']:,}",
            "most common": format_binary(part["common_size"]) if part["common_size"] else "-",
            "mean": format_size(part["request_bytes"] / part["requests"]) if part["requests"] else "-",
            "collective": f"{part['collective_calls']:,}",
            "independent": f"{part['independent_calls']:,}",
        }
        for part in document["requests"]
    ]
    if requests:
        print_rows("Reads and writes", requests)
    slowest = [
        {
            "file system": mount_name(ost["filesystem"]),
            "OST": ost["ost"],
            "files": ost["files"],
            "volume": format_size(ost["total_bytes"]),
            "seconds": ost["io_time"],
            "slowness": _or_dash(ost["slowness"], "{:.2f}".format),
        }
        for ost in sorted(osts, key=lambda o: (-(o["slowness"] or 0.0), -o["total_bytes"], o["filesystem"], o["ost"]))[
            :_MOST_OSTS
        ]
    ]
    if slowest:
        order = "slowest" if any(ost["slowness"] for ost in osts) else "with most bytes"
        print_rows("OSTs" if len(slowest) == len(osts) else f"OSTs, the {_MOST_OSTS} {order}", slowest)
    for log in document["logs"]:
        lacks = f": {log['reason']}" if log["reason"] else ""
        typer.echo(f"log: {printable(log['path'])} ({format_size(log['size'])}){lacks}")


def print_osts(osts: Sequence[OstHealth]) -> None:
    """`forebay history osts`."""
    rows = [
        {
            "file system": mount_name(o.filesystem),
            "OST": o.ost,
            "verdict": o.verdict,
            "slowness": _or_dash(o.slowness, "{:.2f}".format),
            "worst": _or_dash(o.worst_slowness, "{:.2f}".format),
            "runs compared": f"{o.compared_runs:,} of {o.runs:,}",
            "files": f"{o.files:,}",
            "volume": format_size(o.total_bytes),
            "I/O time": f"{o.io_time:,.0f} s",
            "because": o.because,
        }
        for o in osts[:_MOST_OSTS]
    ]
    print_rows("", rows)
    systems = sorted({o.filesystem for o in osts})
    sick = [
        f"OST {ranges(numbers)}" + (f" of {mount_name(system)}" if system or len(systems) > 1 else "")
        for system in systems
        if (numbers := [o.ost for o in osts if o.verdict == "sick" and o.filesystem == system])
    ]
    few = sum(o.verdict == "too little data" for o in osts)
    verdict = f"sick: {', '.join(sick)}" if sick else "no OST is sick"
    if len(osts) > _MOST_OSTS:
        typer.echo(f"The {_MOST_OSTS} worst; --json lists all.")
    where = f" of {len(systems)} file systems" if len(systems) > 1 else ""
    typer.echo(f"{plural(len(osts), 'OST')}{where}; {verdict}" + (f"; too little data on {few}" if few else ""))


def _value(name: str, value: Any) -> str:
    if value is None or value == []:
        return "-"
    if name.endswith("_time") and name in _MOMENTS:
        return format_time(value)
    if name in ("read_sizes", "write_sizes"):
        return ", ".join(f"{count:,} of {size}" for size, count in zip(SIZE_BINS, value, strict=True) if count) or "-"
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _FORMATS[name](value) if name in _FORMATS else f"{value:.3f}" if isinstance(value, float) else str(value)


_MOMENTS = ("start_time", "end_time", "submit_time", "job_start_time", "job_end_time")
_SIZES = ("total_bytes", "bytes_read", "bytes_written", "shared_bytes")
_FORMATS: dict[str, Callable[[Any], str]] = dict.fromkeys(_SIZES, format_size)
_FORMATS |= {"perf_by_slowest": format_bandwidth, "stripe_size": format_binary, "filesystem": mount_name}


def _share(share: float | None, digits: int = 1) -> str:
    return "-" if share is None else f"{100 * share:.{digits}f}%"


def _or_dash(value: Any, how: Callable[[Any], object] = str) -> str:
    return "-" if value is None else str(how(value))


def _describe_best(layout: tuple[int, int, int]) -> str:
    nprocs, count, size = layout
    return plural(nprocs, "process") + (f", {count} x {format_binary(size)}" if count and size else "")


def print_advice(decisions: Sequence[Document], *, filtered: bool, limited: int | None) -> None:
    """`forebay history advice`; `limited` is the default limit, None if the user set one."""
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
            "file system": printable(d["filesystem"] or "-"),
            "outcome": d["outcome"],
            "layout": _decided_layout(d),
            "first target": "-" if d["stripe_offset"] == ANY else d["stripe_offset"],
            "policy": d["policy"],
            "ran with": f"{_run_layout(d['runs'][-1])} (run {d['runs'][-1]['run_id']})" if d["runs"] else "-",
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
    typer.echo(f"  {d['outcome']}{folder}: {_decided_layout(d)}{start}")
    typer.echo(f"  policy {d['policy']} ({d['phase']}): {d['because']}")
    for run in d["runs"]:
        perf = format_bandwidth(run["perf_by_slowest"]) if run["perf_by_slowest"] else "no timed I/O"
        typer.echo(f"  run {run['run_id']}, {format_time(run['start_time'])}: {_run_layout(run)}, {perf}")
    if not d["runs"]:
        typer.echo("  no run of this job is in the history" if d["job"] else "  not for a job, so no run belongs to it")


def _decided_layout(decision: Document) -> str:
    """The stripes of each component, and the pool."""
    parts = decision["components"] or [decision]
    layouts = [_layout(p["stripe_count"], p["stripe_size"]) if p["stripe_count"] else "MDT" for p in parts]
    return ", ".join(layouts) + (f" in {printable(decision['pool'])}" if decision["pool"] else "")


def _run_layout(run: Document) -> str:
    known = run["file_stripe_count"] and run["stripe_size"]
    return _layout(run["file_stripe_count"], run["stripe_size"]) if known else "layout unknown"


def _layout(count: int, size: int) -> str:
    return f"{count} x {format_binary(size)}"
