"""`forebay diagnose`: what is wrong with a run's I/O, and what to change."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput, UserError
from forebay.show.options import Database, Json
from forebay.show.output import print_json, progress

if TYPE_CHECKING:
    from forebay.history.run_fields import WholeRun
    from forebay.history.store import Connection
    from forebay.profile.findings.diagnosis import Diagnosis

commands = typer.Typer()
_MOST_RUNS = 100
What = Annotated[
    str,
    typer.Argument(help="A Darshan log, the number of a run in the history, or an application.", metavar="LOG|RUN|APP"),
]


@commands.command(epilog="Example: forebay diagnose ior.darshan")
def diagnose(what: What, db: Database = None, json: Json = False) -> None:
    """Find what is wrong with a run's I/O, and what to change.

    For an application, its newest 100 runs are read from their logs. The history answers for logs that are gone.
    """
    from forebay.profile.findings.diagnosis import diagnose_log
    from forebay.show import findings as shown

    path = Path(what)
    if path.exists() or "/" in what or path.suffix == ".darshan":
        diagnosis = diagnose_log(path)
    elif what.isdigit():
        diagnosis = _diagnose_run(int(what), db)
    else:
        diagnoses, missing = _diagnose_runs(what, db)
        parts = what, diagnoses, missing
        print_json(shown.application_document(*parts)) if json else shown.print_application(*parts)
        return
    print_json(shown.findings_document(diagnosis)) if json else shown.print_findings(diagnosis)


def _diagnose_run(number: int, db: str | None) -> Diagnosis:
    from forebay.cli.history import reading
    from forebay.history.store.listing import read_run

    with reading(db) as connection:
        return _diagnose(connection, read_run(connection, number))


def _diagnose(connection: Connection, run: WholeRun) -> Diagnosis:
    """From the run's largest log; from the history if none exists or can be read."""
    from forebay.history.store.findings import read_diagnoses
    from forebay.profile.findings.diagnosis import diagnose_log, restore_diagnosis

    number = run["run"]["run_id"]
    paths = [Path(log["path"]) for log in run["logs"]]
    there = [path for path in paths if path.exists()]
    if there:
        try:
            return diagnose_log(max(there, key=lambda path: path.stat().st_size))
        except (UserError, OSError) as error:
            gone = str(error)
    else:
        gone = f"{paths[0]} no longer exists" if paths else "the history does not name one"
    stored = read_diagnoses(connection, [number]).get(number)
    if stored is None or stored["remark"]:
        why = f": {stored['remark']}" if stored else ""
        raise BadInput(
            f"run {number}", f"a diagnosis needs the run's log, but {gone}; the history has no findings{why}"
        )
    return restore_diagnosis(run["run"], str(paths[0]) if paths else "", stored)


def _diagnose_runs(app: str, db: str | None) -> tuple[dict[int, Diagnosis], int]:
    """By the number of the run, newest first; and how many have no readable log and no stored findings."""
    from forebay.cli.history import reading
    from forebay.history.store.listing import list_runs, read_run

    diagnoses: dict[int, Diagnosis] = {}
    with reading(db) as connection:
        with closing(list_runs(connection, app=app, limit=_MOST_RUNS)) as rows:
            numbers = [row["run_id"] for row in rows]
        with progress("runs", len(numbers)) as advance:
            for number in numbers:
                with suppress(BadInput):  # counted below
                    diagnoses[number] = _diagnose(connection, read_run(connection, number))
                advance(1)
    if not diagnoses:
        raise BadInput(app, "a diagnosis needs logs, but those of its runs no longer exist, nor are findings stored")
    return diagnoses, len(numbers) - len(diagnoses)
