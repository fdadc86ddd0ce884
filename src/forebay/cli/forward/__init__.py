"""`forebay forward`: the I/O forwarding layer."""

import typer

from forebay.cli.forward import bench, processes, train

app = typer.Typer(help="The I/O forwarding layer.", no_args_is_help=True)
for module in (processes, bench, train):
    app.add_typer(module.commands)
