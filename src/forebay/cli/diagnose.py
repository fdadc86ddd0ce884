"""`forebay diagnose`: what is wrong with a run's I/O, and what to change."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput, UserError, name_errors, why
from forebay.show.options import Database, Json, check_file
from forebay.show.output import print_json, progress, whole_file

if TYPE_CHECKING:
    from forebay.history.run_fields import WholeRun
    from forebay.history.store import Connection
    from forebay.profile.findings.diagnosis import Diagnosis
    from forebay.show.run.page import RunPage

commands = typer.Typer()
_MOST_RUNS = 100
_STDOUT = Path("-")


def _check_page(page: Path | None) -> Path | None:
    if page is not None and page != _STDOUT:
        check_file("--html", page, b"<!doctype html>")
    return page


What = Annotated[
    str,
    typer.Argument(help="A Darshan log, the number of a run in the history, or an application.", metavar="LOG|RUN|APP"),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", help="Write a page of the run into this file; -: to stdout.", callback=_check_page),
]


@commands.command(epilog="Example: forebay diagnose ior.darshan --html ior.html")
def diagnose(what: What, html: Html = None, db: Database = None, json: Json = False) -> None:
    """Find what is wrong with a run's I/O, and what to change.

    The logs of a run of several (one for each process) are read together. For an application, its newest 100 runs are
    read from their logs. The history answers for logs that are gone.
    """
    if html == _STDOUT and json:
        raise BadInput("--html -", "--json writes to stdout, too; give the page a file")
    path = Path(what)
    if path.exists() or "/" in what or path.suffix == ".darshan":
        _diagnose_log(path, html, db, json)
    elif what.isdigit():
        _diagnose_run(int(what), html, db, json)
    else:
        _diagnose_app(what, html, db, json)


def _diagnose_log(path: Path, html: Path | None, db: str | None, json: bool) -> None:
    from forebay.profile.findings.diagnosis import diagnose_log

    diagnosis = diagnose_log(path)
    if html is not None:
        _write_page(html, _make_log_page(diagnosis, db))
    _print(diagnosis, html, json)


def _make_log_page(diagnosis: Diagnosis, db: str | None) -> RunPage:
    """Earlier runs need a history, which the user names by --db or FOREBAY_DB."""
    from forebay.cli.history import open_history
    from forebay.show.run.from_log import make_log_page

    if db is None and not os.environ.get("FOREBAY_DB"):
        return make_log_page(diagnosis, None)
    with open_history(db) as connection:
        return make_log_page(diagnosis, connection)


def _diagnose_run(number: int, html: Path | None, db: str | None, json: bool) -> None:
    from forebay.cli.history import open_history
    from forebay.history.store.listing import read_run
    from forebay.show.run.from_history import make_run_page

    with open_history(db) as connection:
        run = read_run(connection, number)
        diagnosis, gone = _diagnose(connection, run)
        if diagnosis is None and html is None:
            raise BadInput(f"run {number}", f"a diagnosis needs the run's log, but {gone}")
        if html is not None:
            _write_page(html, make_run_page(connection, run, diagnosis, gone))
    if diagnosis is not None:
        _print(diagnosis, html, json)


def _diagnose(connection: Connection, run: WholeRun) -> tuple[Diagnosis | None, str]:
    """From the run's logs; from the history if none exists or can be read, with the reason; None if the history has no
    findings."""
    from forebay.history.store.findings import read_diagnoses
    from forebay.profile.findings.diagnosis import diagnose_logs, restore_diagnosis

    number = run["run"]["run_id"]
    paths = [Path(log["path"]) for log in run["logs"] if log["status"] == "read"]
    gone = f"{paths[0]} no longer exists" if paths else "the history does not name one"
    try:
        there = [path for path in paths if path.exists()]  # fails in a folder that the caller may not enter
        if there:
            return diagnose_logs(there, len(paths), run["run"]["total_bytes"]), ""
    except UserError as error:
        gone = str(error)
    except OSError as error:
        gone = f"{error.filename}: {why(error)}"
    stored = read_diagnoses(connection, [number]).get(number)
    if stored is None or stored["remark"]:
        remark = f": {stored['remark']}" if stored else ""
        return None, f"{gone}; the history has no findings{remark}"
    return restore_diagnosis(run["run"], str(paths[0]) if paths else "", stored), gone


def _diagnose_app(app: str, html: Path | None, db: str | None, json: bool) -> None:
    from forebay.cli.history import open_history
    from forebay.history.store.listing import read_run
    from forebay.show import findings as shown
    from forebay.show.run.from_history import make_run_page

    with open_history(db) as connection:
        diagnoses, missing = _diagnose_runs(connection, app)
        if html is not None:
            newest, (diagnosis, gone) = next(iter(diagnoses.items()))
            codes = {run: [str(finding.code) for finding in each.findings] for run, (each, _) in diagnoses.items()}
            _write_page(html, make_run_page(connection, read_run(connection, newest), diagnosis, gone, codes))
    if html != _STDOUT:
        parts = app, {run: diagnosis for run, (diagnosis, _) in diagnoses.items()}, missing
        print_json(shown.application_document(*parts)) if json else shown.print_application(*parts)


def _diagnose_runs(connection: Connection, app: str) -> tuple[dict[int, tuple[Diagnosis, str]], int]:
    """By the number of the run, newest first; and how many have no readable log and no stored findings."""
    from forebay.history.store.listing import list_runs, read_run

    with closing(list_runs(connection, app=app, limit=_MOST_RUNS)) as rows:
        numbers = [row["run_id"] for row in rows]
    diagnoses: dict[int, tuple[Diagnosis, str]] = {}
    with progress("runs", len(numbers)) as advance:
        for number in numbers:
            diagnosis, gone = _diagnose(connection, read_run(connection, number))
            if diagnosis is not None:
                diagnoses[number] = diagnosis, gone
            advance(1)
    if not diagnoses:
        raise BadInput(app, "a diagnosis needs logs, but those of its runs no longer exist, nor are findings stored")
    return diagnoses, len(numbers) - len(diagnoses)


def _print(diagnosis: Diagnosis, html: Path | None, json: bool) -> None:
    from forebay.show import findings as shown

    if html != _STDOUT:
        print_json(shown.findings_document(diagnosis)) if json else shown.print_findings(diagnosis)


def _write_page(html: Path, page: RunPage) -> None:
    from forebay.show.run.page import render_page

    text = render_page(page)
    if html == _STDOUT:
        sys.stdout.buffer.write(text.encode())
        return
    with name_errors(html), whole_file(html) as file:
        file.write(text)
    typer.echo(f"page: {html}", err=True)
