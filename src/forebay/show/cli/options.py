"""Options that several commands share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _check_workers(text: str | None) -> str | None:
    """Before any work is done: some commands have much to do before they need anybody."""
    if text is not None:
        from forebay.work import workers_of

        workers_of(text)
    return text


DEFAULT_ALLOCATE = "forebay"
DEFAULT_PLACE = "greedy-non-clairvoyant"

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout instead of tables.")]
Seed = Annotated[int, typer.Option(help="Makes everything random the same again.", min=0)]
Plot = Annotated[Path | None, typer.Option(help="Also draw the (best) run into this PNG file.")]
Allocate = Annotated[
    str | None,
    typer.Option(help="Allocation policy, or several by commas, or 'all'; NAME:option=value sets an option."),
]
Place = Annotated[str | None, typer.Option(help="Placement policy, or several by commas, or 'all'.")]
Database = Annotated[
    str | None,
    typer.Option(
        help="The history: sqlite:///PATH, a path, or postgresql://… [default: $FOREBAY_DB, or ~/.local/share/forebay]",
        show_default=False,
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        metavar="N|dask://HOST:PORT|slurm:N",
        help="Who does it: N processes, a Dask cluster, or N jobs of Slurm [default: a process per core].",
        callback=_check_workers,
        show_default=False,
    ),
]
