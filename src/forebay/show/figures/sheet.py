"""Sheets of paper: a figure with panels and a legend outside them, written as PNG and PDF."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font

FONT = "DejaVu Sans"  # comes with matplotlib, so that a figure is the same on every machine

LOAD = r"I/O load on the targets, I/O-load($\pi_{\mathrm{sys}}$)"
SLOWDOWN = "mean I/O slowdown (times)"
RHO_IO = r"slowdown from the allocation, $\rho_{\mathrm{io}}$ (times)"
RHO_CON = r"slowdown from congestion, $\rho_{\mathrm{con}}$ (times)"
IDLE = "machine idle time (% of node time)"


def printable(name: str, longest: int = 48) -> str:
    """`name` as matplotlib text: nothing read as a formula, no glyph missing, not too long.

    >>> printable("a$b")
    'a\\\\$b'
    """
    shown = "".join(c if c.isprintable() and _has_glyph(c) else "?" for c in name)
    if len(shown) > longest:
        half = (longest - 1) // 2
        shown = f"{shown[:half]}…{shown[-half:]}"
    # A legend leaves out what starts with an underscore.
    return (" " + shown if shown.startswith("_") else shown).replace("$", r"\$")


@cache
def _has_glyph(character: str) -> bool:
    return bool(get_font(findfont(FONT)).get_char_index(ord(character)))


WIDTH = 7.2  # inches: both columns of a paper

STYLE: dict[str, Any] = {
    "font.family": FONT,
    "mathtext.fontset": "dejavusans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "figure.dpi": 100,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 220,
    "pdf.fonttype": 42,  # publishers refuse Type 3 fonts
}
# Without dates and versions the same results give the same bytes.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A figure as two files, and what it shows in words."""

    name: str
    title: str
    caption: str
    png: Path
    pdf: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """A figure before it is written; `name` becomes that of its files."""

    name: str
    title: str
    caption: str
    figure: Figure


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib as it comes plus our settings, whatever the user's own configuration says."""
    with matplotlib.style.context(["default", STYLE]):
        yield


def panels(
    count: int, *, columns: int = 3, width: float = WIDTH, height: float = 2.4, sharey: Literal["row"] | bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels in rows of up to `columns`, each `height` inches high."""
    across = max(1, min(count, columns))
    down = math.ceil(count / across)
    # One panel alone would be too wide to read slopes off.
    figure = Figure(figsize=(width if across > 1 else min(width, 4.6), height * down + 0.15))
    FigureCanvasAgg(figure)
    grid = figure.subplots(down, across, squeeze=False, sharey=sharey).ravel().tolist()
    for spare in grid[count:]:
        spare.remove()
    for above in grid[:count]:
        above.tick_params(labelbottom=True)
    return figure, grid[:count]


def legend_above(figure: Figure, entries: Sequence[Artist], columns: int = 4) -> None:
    """One legend for all panels, over them."""
    columns = min(len(entries), columns if figure.get_figwidth() >= WIDTH else min(columns, 3))
    # The legend gets paper of its own, so that many policies don't press the panels flat.
    figure.set_figheight(figure.get_figheight() + 0.17 * math.ceil(len(entries) / columns))
    figure.legend(handles=list(entries), loc="outside upper center", ncols=columns, handlelength=3.2)


def write(figure: Figure, path: Path) -> Path:
    """As PDF if the suffix of `path` says so, else as PNG."""
    kind = "pdf" if path.suffix.lower() == ".pdf" else "png"
    figure.savefig(path, format=kind, metadata=_METADATA[kind])
    return path


@house_style()
def write_figures(sketches: Iterable[Sketch | None], out: Path) -> list[Drawn]:
    """Both files of each in the directory `out`, which is made. The house style holds for sketches made on the way."""
    out.mkdir(parents=True, exist_ok=True)
    return [_write_both(sketch, out) for sketch in sketches if sketch is not None]


def _write_both(sketch: Sketch, out: Path) -> Drawn:
    png = write(sketch.figure, out / f"{sketch.name}.png")
    sketch.figure.set_layout_engine(None)  # it is laid out already; to do so again would take long
    pdf = write(sketch.figure, out / f"{sketch.name}.pdf")
    return Drawn(name=sketch.name, title=sketch.title, caption=sketch.caption, png=png, pdf=pdf)
