"""`forebay history`: look at what ran."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.model.errors import BadInput, UnknownName
from forebay.show.options import Database, Json, Plot
from forebay.show.output import drawing, print_json, print_table

if TYPE_CHECKING:
    from forebay.history.store import Connection

commands = typer.Typer()

Since = Annotated[str | None, typer.Option(help="Only runs that started on this date (and time) or later.")]
Until = Annotated[str | None, typer.Option(help="Only runs that started on this date or earlier (before this time).")]
OnFilesystem = Annotated[
    str | None,
    typer.Option("--filesystem", help="Only what was on the file system mounted there.", metavar="MOUNT"),
]
_SHOWN = 50
_MOST = 10**9
_TOP = 10


@contextmanager
def reading(db: str | None) -> Iterator[Connection]:
    """The history as it is now, if anything is in it."""
    from forebay.history.store import open_store
    from forebay.history.store.listing import has_runs

    with open_store(db, create=False) as store, store.reading() as connection:
        if not has_runs(connection):
            raise BadInput(store.where, "the history is empty; `forebay ingest PATH...` reads Darshan logs into it")
        yield connection


@commands.command(epilog="Example: forebay history stats --plot stripes.png")
def stats(filesystem: OnFilesystem = None, db: Database = None, plot: Plot = None, json: Json = False) -> None:
    """Show how the file system is used: stripes, applications, requests."""
    from forebay.history.store.totals import app_count, filesystem_sums, layout_sums, top_apps
    from forebay.profile.filesystem_usage import usage
    from forebay.show.history.documents import find_filesystem, usage_document
    from forebay.show.history.tables import print_usage

    with reading(db) as connection:
        every = filesystem_sums(connection)
        only = find_filesystem(filesystem, [sums.filesystem for sums in every])
        found = usage(layout_sums(connection, only))
        apps, most_run = app_count(connection, only), top_apps(connection, "runs", _TOP, only)
        most_bytes = top_apps(connection, "total_bytes", _TOP, only)
    shown = [sums for sums in every if only is None or sums.filesystem == only]
    if plot is not None:
        from forebay.show.figures.history.usage import draw_usage

        with drawing(plot):
            draw_usage(found, plot)
    if json:
        print_json(usage_document(found, apps, most_run, most_bytes, shown))
    else:
        print_usage(found, apps, most_run, most_bytes, shown)


@commands.command(epilog="Example: forebay history apps")
def apps(db: Database = None, plot: Plot = None, json: Json = False) -> None:
    """List applications: runs, volume, performance, processes, last run."""
    from forebay.history.store.totals import app_sums
    from forebay.show.history.documents import apps_document
    from forebay.show.history.tables import print_apps

    with reading(db) as connection:
        found = app_sums(connection)
    if plot is not None:
        from forebay.show.figures.history.apps import draw_apps

        with drawing(plot):
            draw_apps(found, plot)
    if json:
        print_json(apps_document(found))
    else:
        print_apps(found)


@commands.command(epilog="Example: forebay history runs --app vpic --since 2026-01-01 --plot vpic.png")
def runs(
    application: Annotated[str | None, typer.Option("--app", help="Only runs of this application.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(help=f"The newest so many [default: {_SHOWN}, with --json all].", min=1, max=_MOST),
    ] = None,
    since: Since = None,
    until: Until = None,
    db: Database = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Runs, the newest first."""
    from forebay.history.store.listing import list_runs
    from forebay.show.history.documents import parse_period, write_runs
    from forebay.show.history.tables import print_runs

    if plot is not None and application is None:
        raise BadInput("--plot", "shows one application; --app says which")
    low, high = parse_period(since, until)
    most = limit if json or limit is not None else _SHOWN
    which: dict[str, Any] = {"app": application, "since": low, "until": high}
    with reading(db) as connection:
        if plot is not None and application is not None:
            from forebay.show.figures.history.runs import draw_runs

            with drawing(plot):
                draw_runs(application, list_runs(connection, **which, limit=limit), plot)
        with closing(list_runs(connection, **which, limit=most)) as found:
            if json:
                write_runs(found, sys.stdout)
            else:
                print_runs(found, None if limit is not None else most)


@commands.command(epilog="Example: forebay history show 17")
def show(
    run: Annotated[int, typer.Argument(help="Its number, as `forebay history runs` tells it.", metavar="RUN")],
    db: Database = None,
    json: Json = False,
) -> None:
    """Everything that is known of one run."""
    from forebay.history.store.listing import read_run
    from forebay.show.history.tables import print_run

    with reading(db) as connection:
        found = read_run(connection, run)
    if json:
        print_json(found)
    else:
        print_run(found)


@commands.command(epilog="Example: forebay history osts --since 2026-01-01")
def osts(
    filesystem: OnFilesystem = None,
    since: Since = None,
    until: Until = None,
    db: Database = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Find sick OSTs: bytes and slowness over all runs, the worst first."""
    from forebay.history.store.osts import filesystem_ids, osts_by_filesystem
    from forebay.profile.ost_health import rank_osts
    from forebay.show.history.documents import find_filesystem, osts_document, parse_period
    from forebay.show.history.tables import print_osts

    low, high = parse_period(since, until)
    with reading(db) as connection:
        only = find_filesystem(filesystem, list(filesystem_ids(connection)))
        found = rank_osts(osts_by_filesystem(connection, low, high, only))
    if plot is not None and found:
        from forebay.show.figures.history.osts import draw_osts

        with drawing(plot):
            draw_osts(found, plot)
    if json:
        print_json(osts_document(found))
    elif found:
        print_osts(found)
    else:
        typer.echo("No run tells which OSTs it used.")


@commands.command(epilog="Example: forebay history advice --outcome shadow --since 2026-01-01")
def advice(
    number: Annotated[
        int | None, typer.Argument(help="One decision with its reason, by its number.", metavar="DECISION")
    ] = None,
    application: Annotated[str | None, typer.Option("--app", help="Only for this application.")] = None,
    job: Annotated[str | None, typer.Option(help="Only for this job.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Only advised, shadow, applied or refused.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(help=f"The newest so many [default: {_SHOWN}, with --json all].", min=1, max=_MOST),
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only from this date (and time) on.")] = None,
    until: Annotated[str | None, typer.Option(help="Only up to this date (before this time).")] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """List advised layouts, also those of shadow mode, and what ran."""
    from forebay.history.store import open_store
    from forebay.history.store.decisions import OUTCOMES, list_decisions, read_decision
    from forebay.show.history.advice import print_advice, print_decision
    from forebay.show.history.documents import parse_period

    if outcome is not None and outcome not in OUTCOMES:
        raise UnknownName("outcome", outcome, OUTCOMES)
    low, high = parse_period(since, until)
    most = limit if json or limit is not None else _SHOWN
    filters: dict[str, Any] = {"app": application, "job": job, "outcome": outcome, "since": low, "until": high}
    if number is not None and any(value is not None for value in (*filters.values(), limit)):
        raise BadInput("DECISION", "names one decision; leave the other options out")
    with open_store(db, create=False) as store, store.reading() as connection:
        if number is not None:
            one = read_decision(connection, number)
            print_json({"advice": [one]}) if json else print_decision(one)
            return
        found = list_decisions(connection, **filters, limit=most)
    if json:
        print_json({"advice": found})
    else:
        chosen = any(value is not None for value in filters.values())
        print_advice(found, filtered=chosen, limited=None if limit is not None else most)


@commands.command(epilog="Example: forebay history export history-2026")
def export(
    folder: Annotated[Path, typer.Argument(help="Where to; made if it is not there.")],
    db: Database = None,
    json: Json = False,
) -> None:
    """Every table as a Parquet file."""
    from forebay.show.history.export import export_history

    if folder.exists() and not folder.is_dir():
        raise BadInput(str(folder), "is a file; export writes into a folder")
    with reading(db) as connection:
        written = export_history(connection, folder)
    if json:
        print_json({"tables": [{"file": str(path), "rows": rows} for path, rows in written]})
    else:
        print_table("", ("file", "rows"), [(str(path), rows) for path, rows in written])
