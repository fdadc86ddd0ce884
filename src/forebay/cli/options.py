"""Options that several commands share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forebay.model.errors import BadInput


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


def check_plot(plot: Path | None) -> Path | None:
    """A file that a picture can be written to, or a refusal before any work is done."""
    if plot is None:
        return None
    if plot.is_dir():
        raise BadInput("--plot", f"{plot} is a folder")
    if plot.suffix.lower() not in (".png", ".pdf"):
        what = f"can't draw {plot.suffix} files" if plot.suffix else f"{plot} has no ending"
        raise BadInput("--plot", f"{what}; use a name that ends in .png or .pdf, such as {plot.stem or 'plot'}.png")
    if not plot.absolute().parent.is_dir():
        raise BadInput("--plot", f"there is no folder {plot.absolute().parent}")
    return plot


Plot = Annotated[
    Path | None, typer.Option("--plot", help="Also draw it into this PNG or PDF file.", callback=check_plot)
]
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
