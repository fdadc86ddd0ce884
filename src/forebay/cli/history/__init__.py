"""`forebay history`: look at what ran."""

from __future__ import annotations

import typer

from forebay.cli.history import commands

app = typer.Typer(help="Look at what ran.", no_args_is_help=True)
app.add_typer(commands.commands)
