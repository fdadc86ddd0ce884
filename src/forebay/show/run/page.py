"""The page of a run: one HTML file that needs no other, and runs no script.

Names in it come from logs and are not to be trusted: templates escape them, and unprintable characters are replaced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from markupsafe import Markup

from forebay import __version__
from forebay.show.report import Table, render

_WEB = Path(__file__).parents[1] / "web" / "files"
_UNITS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0))
Facts = Sequence[tuple[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFinding:
    """A finding in words. `badges` are its weight and gain, `remedy` has its commands marked, `commands` are those
    that a shell takes."""

    title: str
    code: str
    severity: str
    badges: Sequence[str]
    seen: str
    because: str
    remedy: Markup
    commands: Sequence[str]
    files: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A drawing with a caption, and labels below its axis from left to right."""

    drawing: Markup
    caption: str
    axis: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section. `notes` are sentences before its content; `choices` are tables of which the reader sees one at a
    time; `facts` are pairs of a label and a value; `legend` has colours with their meaning."""

    title: str
    notes: Sequence[str] = ()
    facts: Facts = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    choices: Sequence[Table] = ()
    legend: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """Everything that the page of a run shows. `findings` is None if they are unknown; `verdict` then says why."""

    title: str
    subtitle: str
    verdict: Sequence[str]
    facts: Facts
    findings: Sequence[ShownFinding] | None
    about_findings: str
    sections: Sequence[Section]
    origin: Sequence[str] = field(default_factory=tuple)


def render_page(page: RunPage) -> str:
    """The HTML of a run's page."""
    return render("run.html", page=page, palette=_read_palette(), version=__version__)


@cache
def _read_palette() -> Mapping[str, Markup]:
    """The colours of the web page, light and dark."""
    light = (_WEB / "page.css").read_text(encoding="utf-8").partition("}")[0] + "}"
    return {"light": Markup(light), "dark": Markup((_WEB / "dark.css").read_text(encoding="utf-8"))}


def format_roughly(seconds: float) -> str:
    """A duration in three digits, of which the reader needs no more.

    >>> format_roughly(34.5678), format_roughly(778.6954), format_roughly(39_200)
    ('34.6 s', '13 min', '10.9 h')
    """
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds >= 2 * size), ("s", 1.0))
    return f"{seconds / size:.3g} {unit}"
