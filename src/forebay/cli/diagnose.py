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
    from forebay.profile.findings.rules import Diagnosis

commands = typer.Typer()
_MOST_RUNS = 100
What = Annotated[
    str,
    typer.Argument(help="A Darshan log, the number of a run in the history, or an application.", metavar="LOG|RUN|APP"),
]


@commands.command(epilog="Example: forebay diagnose ior.darshan")
def diagnose(what: What, db: Database = None, json: Json = False) -> None:
    """Find what is wrong with a run's I/O, and what to change.

    For an application, its newest 100 runs are read from their logs.
    """
    from forebay.profile.findings.rules import diagnose_log
    from forebay.show import findings as shown

    path = Path(what)
    if path.exists() or "/" in what or path.suffix == ".darshan":
        diagnosis = diagnose_log(path)
    elif what.isdigit():
        diagnosis = diagnose_log(_find_log(int(what), db))
    else:
        diagnoses, missing = _diagnose_runs(what, db)
        parts = what, diagnoses, missing
        print_json(shown.application_document(*parts)) if json else shown.print_application(*parts)
        return
    print_json(shown.findings_document(diagnosis)) if json else shown.print_findings(diagnosis)


def _find_log(run: int, db: str | None) -> Path:
    """The largest log of a run."""
    from forebay.cli.history import reading
    from forebay.history.store.listing import read_run

    with reading(db) as connection:
        paths = [Path(log["path"]) for log in read_run(connection, run)["logs"]]
    there = [path for path in paths if path.exists()]
    if not there:
        gone = f"{paths[0]} no longer exists" if paths else "the history does not name one"
        raise BadInput(f"run {run}", f"a diagnosis needs the run's log, but {gone}")
    return max(there, key=lambda path: path.stat().st_size)


def _diagnose_runs(app: str, db: str | None) -> tuple[dict[int, Diagnosis], int]:
    """By the number of the run, newest first; and how many logs are missing or unreadable."""
    from forebay.cli.history import reading
    from forebay.history.store.listing import list_runs
    from forebay.profile.findings.rules import diagnose_log

    with reading(db) as connection, closing(list_runs(connection, app=app, limit=_MOST_RUNS)) as rows:
        numbers = [row["run_id"] for row in rows]
    diagnoses: dict[int, Diagnosis] = {}
    with progress("runs", len(numbers)) as advance:
        for number in numbers:
            with suppress(UserError):  # counted below
                diagnoses[number] = diagnose_log(_find_log(number, db))
            advance(1)
    if not diagnoses:
        raise BadInput(app, "a diagnosis needs logs, but those of its runs no longer exist")
    return diagnoses, len(numbers) - len(diagnoses)
