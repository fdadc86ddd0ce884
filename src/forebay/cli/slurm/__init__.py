"""`forebay slurm`: burst buffers for Slurm's jobs, and what is done before and after them."""

from __future__ import annotations

import typer

from forebay.cli.slurm import burst_buffer, jobs

app = typer.Typer(help="Connect Slurm: burst buffers for jobs, prolog and epilog.", no_args_is_help=True)
for module in (jobs, burst_buffer):
    app.add_typer(module.commands)
