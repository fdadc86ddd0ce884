"""`forebay profile`: what the history says about one application."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay.cli.history import reading
from forebay.history.run_fields import MOST_PROCESSES
from forebay.show.options import Database, Json, Plot
from forebay.show.output import drawing, print_json

commands = typer.Typer()
Processes = Annotated[
    int | None, typer.Option(help="Number of processes [default: the most common].", min=1, max=MOST_PROCESSES)
]
OnFilesystem = Annotated[
    str | None, typer.Option(help="Mount point of the file system [default: that of the last run].", metavar="MOUNT")
]


@commands.command(epilog="Example: forebay profile vpic --procs 512 --plot vpic.png")
def profile(
    app: Annotated[str, typer.Argument(help="An application in `forebay history apps`.", metavar="APP")],
    procs: Processes = None,
    filesystem: OnFilesystem = None,
    db: Database = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Describe an application: pattern, volumes, bandwidth, drift.

    Includes its bandwidth by OSTs and a forecast.
    """
    from forebay.history.store.past_runs import list_behaviours
    from forebay.profile.application import profile_of, runs_on
    from forebay.show.history.documents import find_filesystem, profile_document
    from forebay.show.history.profile import print_profile

    with reading(db) as connection:
        runs = list_behaviours(connection, app)
    known = sorted({run.filesystem for run in runs if run.filesystem is not None})
    described = profile_of(app, runs, procs, find_filesystem(filesystem, known))
    if plot is not None:
        from forebay.show.figures.history.profile import draw_profile

        with drawing(plot):
            draw_profile(described, runs_on(runs, described.filesystem), plot)
    print_json(profile_document(described, procs)) if json else print_profile(described, procs)
