"""The report of a study: one HTML page that needs no other file."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader

from forebay.show.figures.sheet import Drawn


def write_request_windows_report(
    parts: Mapping[str, object], figures: Sequence[Drawn], command: str, out: Path
) -> None:
    """The same for a study of request windows; `parts` are its settings, sentences and tables."""
    _write("request_windows.html", out, command=command, figures=_inside(figures), **parts)


def _write(template: str, out: Path, **parts: object) -> None:
    environment = Environment(loader=PackageLoader("forebay.studies"), autoescape=True, trim_blocks=True)
    out.write_text(environment.get_template(template).render(**parts), encoding="utf-8")


def _inside(figures: Sequence[Drawn]) -> list[tuple[Drawn, str]]:
    """Figures with their pictures as text."""
    return [(f, base64.b64encode(f.png.read_bytes()).decode()) for f in figures]
