"""`forebay study`: the papers' evaluations."""

from __future__ import annotations

import typer

from forebay.studies.registry import STUDIES

app = typer.Typer(
    help="Run a paper's whole evaluation: tables, figures and a report.", no_args_is_help=True, rich_markup_mode=None
)
for study in STUDIES:
    study.add_to(app)
