"""`forebay history` and `profile`: look at what ran."""

from __future__ import annotations

import sys
import time as clock
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.history.run_fields import MOST_PROCESSES
from forebay.model.errors import BadInput, UnknownName
from forebay.show.options import Database, Json, Plot, check_file, find_filesystem, parse_period
from forebay.show.output import draw, print_json, print_table

if TYPE_CHECKING:
    from forebay.history.store import Connection

app = typer.Typer(help="Look at what ran.", no_args_is_help=True)
commands = typer.Typer()

_SHOWN = 50
_WEEK = 7 * 86400.0
Since = Annotated[str | None, typer.Option(help="Only from this date (and time) on.")]
Until = Annotated[str | None, typer.Option(help="Only up to this date (before this time).")]
Application = Annotated[str | None, typer.Option("--app", help="Only for this application.")]
Limit = Annotated[
    int | None,
    typer.Option(help=f"At most this many, newest first [default: {_SHOWN}; --json: all].", min=1, max=10**9),
]
OnFilesystem = Annotated[str | None, typer.Option(help="Only the file system mounted there.", metavar="MOUNT")]
OfFilesystem = Annotated[
    str | None, typer.Option(help="Mount point of the file system [default: that of the last run].", metavar="MOUNT")
]


@contextmanager
def open_history(db: str | None) -> Iterator[Connection]:
    """Open the history for reading. Raise BadInput if it has no runs."""
    from forebay.history.store import open_store
    from forebay.history.store.listing import has_runs

    with open_store(db, create=False) as store, store.open_reader() as connection:
        if not has_runs(connection):
            raise BadInput(store.where, "the history is empty; read Darshan logs into it with `forebay ingest PATH...`")
        yield connection


def choose_filesystem(connection: Connection, named: str | None) -> tuple[str | None, list[tuple[str, int, int]]]:
    """The mount point that --filesystem names, and the sums of the file systems that count: that one, or all."""
    from forebay.history.store.totals import filesystem_sums

    every = filesystem_sums(connection)
    only = find_filesystem(named, [mount for mount, *_ in every])
    return only, [sums for sums in every if only in (None, sums[0])]


@app.command(epilog="Example: forebay history stats --plot stripes.png")
def stats(filesystem: OnFilesystem = None, db: Database = None, plot: Plot = None, json: Json = False) -> None:
    """Show how jobs use the file system: stripes, programs, requests."""
    from forebay.history.store.totals import app_count, layout_sums, top_apps
    from forebay.profile.filesystem_usage import usage
    from forebay.show.history import documents, tables
    from forebay.show.phrases import name_filesystems

    with open_history(db) as connection:
        only, shown = choose_filesystem(connection, filesystem)
        layouts, apps = usage(layout_sums(connection, only)), app_count(connection, only)
        most_run, most_bytes = (top_apps(connection, order, 10, only) for order in ("runs", "total_bytes"))
    draw(plot, "history:draw_usage", layouts, name_filesystems(shown))
    figures = layouts, apps, most_run, most_bytes, shown
    print_json(documents.usage_document(*figures)) if json else tables.print_usage(*figures)


@app.command(epilog="Example: forebay history apps")
def apps(filesystem: OnFilesystem = None, db: Database = None, plot: Plot = None, json: Json = False) -> None:
    """List applications: runs, volume, performance, processes, last run."""
    from forebay.history.store.totals import app_sums
    from forebay.show.history import documents, tables
    from forebay.show.phrases import name_filesystems

    with open_history(db) as connection:
        only, shown = choose_filesystem(connection, filesystem)
        sums = app_sums(connection, only)
    where = name_filesystems(shown)
    draw(plot, "history:draw_apps", sums, where)
    print_json(documents.apps_document(sums)) if json else tables.print_apps(sums, where)


@app.command(epilog="Example: forebay history runs --app vpic --since 2026-01-01 --plot vpic.png")
def runs(
    application: Application = None,
    filesystem: OnFilesystem = None,
    limit: Limit = None,
    since: Since = None,
    until: Until = None,
    db: Database = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """List runs, the newest first."""
    from forebay.history.store.listing import list_runs
    from forebay.show.history import documents, tables

    if plot is not None and application is None:
        raise BadInput("--plot", "shows one application; name it with --app")
    low, high = parse_period(since, until)
    most, limited = (limit, None) if json or limit is not None else (_SHOWN, _SHOWN)
    filters: dict[str, Any] = {"app": application, "since": low, "until": high}
    with open_history(db) as connection:
        if filesystem is not None:
            filters["filesystem"], _ = choose_filesystem(connection, filesystem)
        if plot is not None:
            draw(plot, "history:draw_runs", application, list_runs(connection, **filters, limit=limit))
        with closing(list_runs(connection, **filters, limit=most)) as rows:
            documents.write_runs(rows, sys.stdout) if json else tables.print_runs(rows, limited)


@app.command(epilog="Example: forebay history show 17")
def show(
    run: Annotated[int, typer.Argument(help="The run's number in `forebay history runs`.", metavar="RUN")],
    db: Database = None,
    json: Json = False,
) -> None:
    """Show everything that is known about one run."""
    from forebay.history.store.listing import read_run
    from forebay.show.history.tables import print_run

    with open_history(db) as connection:
        document = read_run(connection, run)
    print_json(document) if json else print_run(document)


@app.command(epilog="Example: forebay history osts --since 2026-01-01")
def osts(
    filesystem: OnFilesystem = None,
    since: Since = None,
    until: Until = None,
    db: Database = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Find sick OSTs: bytes and slowness over all runs, the worst first."""
    from forebay.history.store.totals import filesystem_ids, osts_by_filesystem
    from forebay.profile.ost_health import rank_osts
    from forebay.show.history import documents, tables

    low, high = parse_period(since, until)
    with open_history(db) as connection:
        only = find_filesystem(filesystem, list(filesystem_ids(connection)))
        ranked = rank_osts(osts_by_filesystem(connection, low, high, only))
    if ranked:
        draw(plot, "history:draw_osts", ranked)
    if json:
        print_json(documents.osts_document(ranked))
    elif ranked:
        tables.print_osts(ranked)
    else:
        typer.echo("No run has recorded which OSTs it used.")


@app.command(epilog="Example: forebay history watch --since 2026-01-31 --mail - --metrics watch.prom")
def watch(
    since: Annotated[
        str | None, typer.Option(help="Runs from this date (and time) on [default: the last week].")
    ] = None,
    until: Until = None,
    mail: Annotated[
        Path | None,
        typer.Option(help="Write a mail with its subject, only if something began; - for stdout.", metavar="FILE"),
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(help="Write metrics for the textfile collector of Prometheus' node exporter.", metavar="FILE"),
    ] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Find what became slower, jobs in each other's way, and lost hours.

    Run it every night after the ingest. With --mail or --metrics, the report itself is only printed as --json.
    """
    from forebay.act.files import write_file
    from forebay.act.metrics import format_metrics
    from forebay.history.store.run_columns import newest_start
    from forebay.profile.watch.report import watch_history
    from forebay.show.history import watch as shown

    for option, file, starts in (("--mail", mail, b"Subject: [forebay] "), ("--metrics", metrics, b"# HELP ")):
        if file is not None and str(file) != "-":
            check_file(option, file, starts)
    if str(mail) == "-" and json:
        raise BadInput("--mail", "- and --json both write to stdout; choose one, or give --mail a file")
    low, high = parse_period(since, until)
    end = clock.time() if high is None else high
    begin = end - _WEEK if low is None else low
    if begin >= end:
        raise BadInput("--since", f"{since} is not before the end of the period")
    with open_history(db) as connection:
        report = watch_history(connection, begin, end)
        newest = newest_start(connection, end)
    if metrics is not None:
        write_file(metrics, format_metrics(shown.watch_metrics(report)).decode())
    if mail is not None:
        text = shown.format_mail(report)
        if str(mail) == "-":
            typer.echo(text, nl=False)
        elif text:
            write_file(mail, text)
        else:
            mail.unlink(missing_ok=True)
    if json:
        print_json(shown.watch_document(report))
    elif mail is None and metrics is None:
        shown.print_watch(report, newest)


@app.command(epilog="Example: forebay history advice --outcome shadow --since 2026-01-01")
def advice(
    number: Annotated[
        int | None, typer.Argument(help="Show this decision with its reason.", metavar="DECISION")
    ] = None,
    application: Application = None,
    job: Annotated[str | None, typer.Option(help="Only for this job.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Only advised, shadow, applied or refused.")] = None,
    limit: Limit = None,
    since: Since = None,
    until: Until = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """List advised layouts, including shadow mode, and what ran."""
    from forebay.history.store import open_store
    from forebay.history.store.decisions import OUTCOMES, list_decisions, read_decision
    from forebay.show.history import tables

    if outcome is not None and outcome not in OUTCOMES:
        raise UnknownName("outcome", outcome, OUTCOMES)
    low, high = parse_period(since, until)
    most, limited = (limit, None) if json or limit is not None else (_SHOWN, _SHOWN)
    filters: dict[str, Any] = {"app": application, "job": job, "outcome": outcome, "since": low, "until": high}
    filtered = any(value is not None for value in filters.values())
    if number is not None and (filtered or limit is not None):
        raise BadInput("DECISION", "cannot be combined with options that filter decisions")
    with open_store(db, create=False) as store, store.open_reader() as connection:
        if number is not None:
            decisions = [read_decision(connection, number)]
        else:
            decisions = list_decisions(connection, **filters, limit=most)
    if json:
        print_json({"advice": decisions})
    elif number is not None:
        tables.print_decision(decisions[0])
    else:
        tables.print_advice(decisions, filtered=filtered, limited=limited)


@app.command(epilog="Example: forebay history export history-2026")
def export(
    folder: Annotated[Path, typer.Argument(help="Folder for the files; created if it does not exist.")],
    db: Database = None,
    json: Json = False,
) -> None:
    """Write every table as a Parquet file."""
    from forebay.show.export import export_history

    if folder.exists() and not folder.is_dir():
        raise BadInput(str(folder), "is a file; export writes into a folder")
    with open_history(db) as connection:
        written = export_history(connection, folder)
    if json:
        print_json({"tables": [{"file": str(path), "rows": rows} for path, rows in written]})
    else:
        print_table("", ("file", "rows"), [(str(path), rows) for path, rows in written])


@commands.command(epilog="Example: forebay profile vpic --procs 512 --plot vpic.png")
def profile(
    app: Annotated[str, typer.Argument(help="An application in `forebay history apps`.", metavar="APP")],
    procs: Annotated[
        int | None, typer.Option(help="Number of processes [default: the most common].", min=1, max=MOST_PROCESSES)
    ] = None,
    filesystem: OfFilesystem = None,
    db: Database = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Describe an application: pattern, volumes, bandwidth, drift.

    Includes its bandwidth by OSTs and a forecast.
    """
    from forebay.history.store.past_runs import list_behaviours
    from forebay.profile.application import profile_of, runs_on
    from forebay.show.history.documents import profile_document
    from forebay.show.history.profile import print_profile

    with open_history(db) as connection:
        runs = list_behaviours(connection, app)
    known = sorted({run.filesystem for run in runs if run.filesystem is not None})
    described = profile_of(app, runs, procs, find_filesystem(filesystem, known))
    draw(plot, "profile:draw_profile", described, runs_on(runs, described.filesystem))
    print_json(profile_document(described, procs)) if json else print_profile(described, procs)
