"""`forebay calibrate`: fit the model behind predicted gains to measured runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput
from forebay.show.options import Database, Json, Plot, check_file
from forebay.show.output import draw, print_json

if TYPE_CHECKING:
    from forebay.history.run_fields import Measured

commands = typer.Typer()
Source = Annotated[
    Path | None,
    typer.Argument(
        help="A YAML file of the Fives simulator, gzipped or not, in place of the history.", show_default=False
    ),
]
OnFilesystem = Annotated[
    str | None,
    typer.Option(
        help="Use only the history's runs on the file system with this mount point, and calibrate for it alone.",
        show_default=False,
    ),
]
To = Annotated[
    Path | None,
    typer.Option(
        help="The file to write [default: $FOREBAY_CALIBRATION or ~/.local/share/forebay/calibration.toml]",
        show_default=False,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the calibration without writing it.")]


@commands.command(epilog="Example: forebay calibrate --plot calibration.png")
def calibrate(
    source: Source = None,
    filesystem: OnFilesystem = None,
    to: To = None,
    dry_run: DryRun = False,
    db: Database = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Fit the model of the file system to measured runs.

    The fit uses the earlier half of the runs; the later half shows how far its predictions are off.
    """
    from forebay.profile.calibration.calibration_file import default_path, make_calibration, write_calibration
    from forebay.profile.calibration.check import check_calibration
    from forebay.show import calibration as shown

    path = to or default_path()
    if to is not None and not dry_run:
        check_file("--to", to)
    if source is None:
        runs, where = _read_history(db, filesystem)
    elif filesystem is not None or db is not None:
        raise BadInput(str(source), "is read instead of the history; leave out --db and --filesystem")
    else:
        from forebay.history.traces.fives import read

        runs, where = read(source), str(source)
    check = check_calibration(runs, where)
    calibration = make_calibration(check, _name(filesystem), time.time(), where)
    if not dry_run:
        write_calibration(path, calibration)
    draw(plot, "calibration:draw_calibration", check)
    written = None if dry_run else path
    if json:
        print_json(shown.calibration_document(check, calibration, written))
    else:
        shown.print_calibration(check, calibration, written)


def _name(filesystem: str | None) -> str:
    """The mount point without a final slash; "" if the option is not given."""
    return "" if filesystem is None else filesystem.rstrip("/") or "/"


def _read_history(db: str | None, filesystem: str | None) -> tuple[Measured, str]:
    """The history's measured runs, and what to call them."""
    from forebay.cli.history import choose_filesystem, open_history
    from forebay.history.store.measured_runs import list_measured

    with open_history(db) as connection:
        only, _ = choose_filesystem(connection, filesystem)
        return list_measured(connection, filesystem=only), f"the history on {only}" if only else "the history"
