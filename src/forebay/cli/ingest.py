"""`forebay ingest`."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput
from forebay.model.units import plural
from forebay.show.options import Database, Json, Workers
from forebay.show.output import print_json, print_table, progress

if TYPE_CHECKING:
    from forebay.history.darshan.ingest import Report
    from forebay.history.store import Store
    from forebay.work import Workers as Crew

commands = typer.Typer()
MOST_LISTED = 20


@commands.command(epilog="Example: forebay ingest /var/log/darshan/2026")
def ingest(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Darshan logs, or folders of any depth with logs in them.", show_default=False),
    ] = None,
    sacct: Annotated[
        list[Path] | None, typer.Option(help="Slurm's accounting, as `sacct -P` prints it, to join to the runs.")
    ] = None,
    db: Database = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Read Darshan logs into the history; skip those already there.

    Logs that have changed are read again.
    """
    from forebay.history.darshan.ingest import Report
    from forebay.history.store import open_store
    from forebay.show.workers import hire_workers

    if not paths and not sacct:
        raise BadInput("PATH", "name logs or folders to read, or --sacct FILE")
    report, jobs = Report(), 0
    without = _without_logs(paths or [])
    if without and not json:
        _print_without_logs(without)
    if without == paths and not sacct and not json:
        return  # without making a history for nothing
    with hire_workers(workers if paths else None) as crew, open_store(db) as store:
        for file in sacct or []:
            jobs += _accounting(store, file)
        if paths:
            report = _logs(store, paths, crew)
        where = store.where
    nothing = bool(report.failed) and report.failed == report.seen and not jobs
    if not nothing or report.failed > 1:
        if json:
            print_json(_document(where, report, jobs) | {"without_logs": [str(path) for path in without]})
        else:
            _print(where, report, jobs, bool(paths))
    if nothing:
        raise BadInput(report.listed[0][0], report.listed[0][2] + _others(report.failed - 1))


def _without_logs(paths: list[Path]) -> list[Path]:
    """The folders that have no logs in them. Looked for before the store is made, so that a wrong path leaves nothing
    behind."""
    return [path for path in paths if not _has_logs(path)]


def _has_logs(path: Path) -> bool:
    """Or folders that nobody may look into, of which one can't tell."""
    from forebay.history.darshan.ingest import find_logs

    closed: list[str] = []
    return next(find_logs([path], lambda name, _why: closed.append(name)), None) is not None or bool(closed)


def _print_without_logs(folders: list[Path]) -> None:
    from forebay.history.darshan.ingest import SUFFIXES

    kinds = " or ".join(f"*{suffix}" for suffix in SUFFIXES)
    for folder in folders:
        typer.echo(f"{folder}: no Darshan logs here or in any folder below ({kinds})")
    typer.echo("`darshan-config --log-path` prints where Darshan writes them; a log of any name can be given by itself")


def _others(more: int) -> str:
    return f" (and {more} more can't be read)" if more else ""


def _accounting(store: Store, file: Path) -> int:
    from forebay.history.sacct import read_sacct
    from forebay.history.store.jobs import add_jobs

    with store.writing() as connection:
        return add_jobs(connection, read_sacct(file))


def _logs(store: Store, paths: list[Path], workers: Crew) -> Report:
    from forebay.history.darshan.ingest import ingest as read_in

    with _ending() as asked_to_end, progress("logs", math.inf) as bar:

        def told(done: int) -> None:
            bar(done)
            if asked_to_end():
                raise KeyboardInterrupt

        try:
            return read_in(store, paths, workers=workers, progress=told)
        except (OSError, EOFError):
            if asked_to_end():  # so were the processes that read, and they were faster
                raise KeyboardInterrupt from None
            raise


@contextmanager
def _ending() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed or SIGTERM came. The logs in hand are read to their end and kept; a second Ctrl-C
    does not wait for them. (Raised wherever it happens to be, an interrupt may get lost.)"""
    asked: list[int] = []

    def ask(number: int, _frame: object) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _document(where: str, report: Report, jobs: int) -> dict[str, object]:
    listed = [{"path": path, "status": status, "reason": reason} for path, status, reason in report.listed]
    numbers = {name: getattr(report, name) for name in ("read", "known", "copies", "failed")}
    return {"db": where, "logs": numbers, "listed": listed, "jobs": jobs}


def _print(where: str, report: Report, jobs: int, logs: bool) -> None:

    if report.listed:
        rows = report.listed[:MOST_LISTED]
        print_table("Logs to know of", ("log", "what", "why"), [(p, s, r) for p, s, r in rows])
        if len(report.listed) > MOST_LISTED:
            typer.echo(f"... and {len(report.listed) - MOST_LISTED} more (--json lists all)")
    if logs:
        typer.echo(
            f"{plural(report.read, 'log')} read, {report.known} known already, {report.copies} copies of known ones, "
            f"{report.failed} that can't be read; history: {where}"
        )
    if jobs:
        typer.echo(f"{plural(jobs, 'job')} of Slurm's accounting; history: {where}")
