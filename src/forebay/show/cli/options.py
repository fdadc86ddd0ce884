"""Options that several commands share, spelled once."""

from __future__ import annotations

import os
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
    int | None, typer.Option(help="Processes that read [default: one per core].", min=1, max=256, show_default=False)
]


def cores() -> int:
    return os.cpu_count() or 1
