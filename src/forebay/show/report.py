"""The report of a study: one HTML page that needs no other file."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from forebay.show.figures.sheet import Drawn, Sketch

_SPACES = "\n\N{NO-BREAK SPACE}"
_NUMBER = re.compile(r"[-+\N{MINUS SIGN}]?[\d.,]+( \S+)*|[-\N{EN DASH}]")


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""

    @classmethod
    def of(cls, title: str, rows: Sequence[Mapping[str, object]]) -> Table:
        """Make a table of rows with the heads as keys."""
        return cls(title, tuple(rows[0]) if rows else (), [tuple(row.values()) for row in rows])

    @property
    def numeric(self) -> list[bool]:
        """Which columns have only numbers, and are aligned right."""
        return [all(_NUMBER.fullmatch(str(cell)) for cell in column) for column in zip(*self.rows, strict=True)]


class Section(NamedTuple):
    """Sentences under a title, or preformatted text."""

    title: str
    sentences: Sequence[str] = ()
    text: str = ""


class Details(NamedTuple):
    """Long tables that open on a click; a reader can search the rows of all."""

    title: str
    note: str
    tables: Sequence[Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All output of a study.

    `about` says what was run. `records` become CSV and Parquet files with these names, `document` the JSON document.
    `figures` are drawn while they are written. The screen shows `summary` and `findings`, the page everything.
    """

    title: str = ""
    about: str
    note: str = ""
    findings: Sequence[Section]
    records: Mapping[str, Sequence[Mapping[str, object]]]
    document: Mapping[str, Any]
    figures: Iterable[Sketch] = ()
    summary: Sequence[Table] = ()
    tables: Sequence[Table] = ()
    details: Details | None = None
    remarks: Sequence[Section] = ()


def write_report(name: str, report: Report, figures: Sequence[Drawn], command: str, out: Path) -> None:
    """Write the page of the study `name`; `command` repeats the study."""
    pictures = [(drawn.sketch, base64.b64encode(drawn.png.read_bytes()).decode()) for drawn in figures]
    page = render("report.html", name=name, report=report, pictures=pictures, command=command)
    out.write_text(page, encoding="utf-8")


def render(template: str, **values: object) -> str:
    """Fill in a template. Text is escaped, and characters that cannot be printed are replaced."""
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup

    def clean(value: object) -> object:
        if not isinstance(value, str) or isinstance(value, Markup):
            return value
        return "".join(c if c.isprintable() or c in _SPACES else "\N{REPLACEMENT CHARACTER}" for c in value)

    loader = PackageLoader("forebay.show")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, finalize=clean)
    return environment.get_template(template).render(**values)
