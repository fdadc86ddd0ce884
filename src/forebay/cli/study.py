"""`forebay study`: the papers' evaluations."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from forebay.cli import request_windows
from forebay.studies.registry import STUDIES

app = typer.Typer(
    help="Run a paper's whole evaluation: tables, figures and a report.", no_args_is_help=True, rich_markup_mode=None
)
for command in STUDIES:
    command.add_to(app)


@contextmanager
def to_be_continued() -> Iterator[None]:
    """What is finished when it is interrupted is kept, and the user told how to go on."""
    from forebay.studies.pieces import Interrupted

    try:
        yield
    except Interrupted as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not cut the tidying short
        typed = shlex.join(["forebay", *sys.argv[1:]])
        typer.echo(f"forebay: {error}; the same command goes on from there: {typed}", err=True)
        sys.exit(130 if error.by_user else 1)


app.command("request-windows", epilog=request_windows.EXAMPLE)(request_windows.request_windows)
