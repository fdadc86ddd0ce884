"""`forebay storage`: space on the storage nodes' disks."""

from __future__ import annotations

import typer

from forebay.cli.storage import attach, grants, nodes, rules, strays

app = typer.Typer(help="Space on the fast disks: request, wait, show, release.", no_args_is_help=True)
for module in (grants, attach, nodes, strays, rules):
    app.add_typer(module.commands)
