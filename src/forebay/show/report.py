"""The report of a study: one HTML page that needs no other file."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader

from forebay.show.figures import Drawn
from forebay.simulate.studies.results import METRICS, Results

_HEADS = ("mean I/O slowdown", "max", "by allocation", "by congestion", "I/O-spread", "machine idle")


def write_report(
    results: Results, conclusions: Sequence[str], figures: Sequence[Drawn], command: str, out: Path
) -> None:
    """`command` is what makes the same study again."""
    environment = Environment(loader=PackageLoader("forebay.show"), autoescape=True, trim_blocks=True)
    page = environment.get_template("study.html").render(
        results=results,
        conclusions=conclusions,
        command=command,
        figures=[(f, base64.b64encode(f.png.read_bytes()).decode()) for f in figures],
        heads=_HEADS,
        rows=[_row(r) for r in results.rows()],
    )
    out.write_text(page, encoding="utf-8")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"load": f"{row['load_low']:g} – {row['load_high']:g}", "cells": [f"{row[m]:.3f}" for m in METRICS]}
