"""`forebay ingest`: reads Darshan logs and Slurm's accounting into the history."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
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
Paths = Annotated[
    list[Path] | None,
    typer.Argument(help="Darshan logs, or folders of any depth with logs in them.", show_default=False),
]


@commands.command(epilog="Example: forebay ingest /var/log/darshan/2026")
def ingest(
    paths: Paths = None,
    sacct: Annotated[list[Path] | None, typer.Option(help="Slurm's accounting, as `sacct -P` prints it.")] = None,
    db: Database = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Read Darshan logs into the history; skip those already there.

    Reads logs again if they have changed.
    """
    from forebay.history.darshan.ingest import SUFFIXES, Report
    from forebay.history.sacct import read_sacct
    from forebay.history.store import open_store
    from forebay.history.store.jobs import add_jobs
    from forebay.show.workers import hire_workers

    if not paths and not sacct:
        raise BadInput("PATH", "name logs or folders to read, or --sacct FILE")
    report, jobs, refused = Report(), 0, list[BadInput]()
    empty = [path for path in paths or [] if not _has_logs(path)]  # before a wrong path creates a store
    if empty and not json:
        kinds = " or ".join(f"*{suffix}" for suffix in SUFFIXES)
        for folder in empty:
            typer.echo(f"{folder}: no Darshan logs in this folder or below it ({kinds})")
        typer.echo("`darshan-config --log-path` prints the folder of the logs; a log named here can have any name")
    if empty == paths and not sacct and not json:
        return
    with hire_workers(workers if paths else None) as crew, open_store(db) as store:
        for file in sacct or []:
            with store.open_writer() as connection, closing(read_sacct(file, refused.append)) as rows:
                jobs += add_jobs(connection, rows)
        if paths:
            report = _read_logs(store, paths, crew)
        where = store.where
    nothing = bool(report.failed) and report.failed == report.total and not jobs
    if refused and not jobs and not report.total:
        others = f" (and {len(refused) - 1} more lines)" if len(refused) > 1 else ""
        raise BadInput(refused[0].where, refused[0].reason + others)
    if json and (report.failed > 1 or not nothing):
        listed = [{"path": path, "status": status, "reason": reason} for path, status, reason in report.listed]
        counts = {name: getattr(report, name) for name in ("read", "known", "copies", "failed")}
        folders = [str(path) for path in empty]
        left_out = [{"where": error.where, "reason": error.reason} for error in refused]
        print_json(
            {"db": where, "logs": counts, "listed": listed, "jobs": jobs, "left_out": left_out, "without_logs": folders}
        )
    elif report.failed > 1 or not nothing:
        _print(where, report, jobs, bool(paths), refused)
    if nothing:
        path, _, reason = report.listed[0]
        others = f" (and {report.failed - 1} more unreadable)" if report.failed > 1 else ""
        raise BadInput(path, reason + others)


def _has_logs(path: Path) -> bool:
    """Return whether the path has a log, or a folder that cannot be read and may have one."""
    from forebay.history.darshan.ingest import find_logs

    closed: list[str] = []
    return next(find_logs([path], lambda name, _why: closed.append(name)), None) is not None or bool(closed)


def _read_logs(store: Store, paths: list[Path], workers: Crew) -> Report:
    from forebay.history.darshan.ingest import ingest
    from forebay.profile.findings import examine_records

    with _interruption() as is_interrupted, progress("logs", math.inf) as bar:

        def report(done: int) -> None:
            bar(done)
            if is_interrupted():
                raise KeyboardInterrupt

        try:
            return ingest(store, paths, workers=workers, progress=report, examine=examine_records)
        except (OSError, EOFError):
            if is_interrupted():  # the signal also reached the worker processes
                raise KeyboardInterrupt from None
            raise


@contextmanager
def _interruption() -> Iterator[Callable[[], bool]]:
    """Give a function that returns whether Ctrl-C or SIGTERM came: an exception at any place could get lost.

    The workers finish their current logs, which are kept; a second Ctrl-C does not wait for them.
    """
    signals: list[int] = []

    def handle(number: int, _frame: object) -> None:
        signals.append(number)
        if len(signals) > 1:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(signals)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(where: str, report: Report, jobs: int, logs: bool, refused: list[BadInput]) -> None:
    if refused:
        lines = [(error.where, error.reason) for error in refused[:MOST_LISTED]]
        print_table("Lines of Slurm's accounting that are left out", ("line", "why"), lines)
        if len(refused) > MOST_LISTED:
            typer.echo(f"... and {len(refused) - MOST_LISTED:,} more (--json lists all)")
    if report.listed:
        print_table("Logs with problems", ("log", "what", "why"), report.listed[:MOST_LISTED])
        if len(report.listed) > MOST_LISTED:
            typer.echo(f"... and {len(report.listed) - MOST_LISTED} more (--json lists all)")
    if logs:
        others = f"{report.known} already known, {report.copies} duplicates, {report.failed} unreadable"
        typer.echo(f"{plural(report.read, 'log')} read ({others}); history: {where}")
    if jobs:
        typer.echo(f"{plural(jobs, 'job')} from Slurm's accounting; history: {where}")
