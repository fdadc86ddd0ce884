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
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("forebay.show"), autoescape=True, trim_blocks=True)
    pictures = [(drawn.sketch, base64.b64encode(drawn.png.read_bytes()).decode()) for drawn in figures]
    page = environment.get_template("report.html").render(name=name, report=report, pictures=pictures, command=command)
    out.write_text(page, encoding="utf-8")
