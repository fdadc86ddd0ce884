"""`forebay storage`: space on the disks of storage nodes."""

import typer

from forebay.cli.storage import administration, grants

app = typer.Typer(help="Space on the fast disks: request, wait, show, release.", no_args_is_help=True)
for module in (grants, administration):
    app.add_typer(module.commands)
