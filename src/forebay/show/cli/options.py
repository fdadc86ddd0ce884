"""Options that several commands share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
        show_default=False,
    ),
]
