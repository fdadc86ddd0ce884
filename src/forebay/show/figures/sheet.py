"""Sheets of paper: a figure with panels and a legend outside them, written as PNG and PDF."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font

from forebay.history.toml import load_toml

FONT = "DejaVu Sans"  # comes with matplotlib, so that a figure is the same on every machine
WIDTH = 7.2  # inches: both columns of a paper
_HOUSE = Path(__file__).with_name("house.mplstyle")
Style = dict[str, Any]
"""Keyword arguments of Matplotlib."""
STYLE: Style = dict(matplotlib.rc_params_from_file(_HOUSE, use_default_template=False).items())
# Without dates and versions the same results give the same bytes.
_METADATA: dict[str, Style] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """A figure before it is written; `name` becomes that of its files."""

    name: str
    title: str
    caption: str
    figure: Figure


class Drawn(NamedTuple):
    """A figure and its two files."""

    sketch: Sketch
    png: Path
    pdf: Path


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


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib as it comes plus our settings, whatever the user's own configuration says."""
    with matplotlib.style.context(["default", STYLE]):
        yield


def blank_sheet(width: float, height: float) -> Figure:
    """A figure of so many inches that needs no screen."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def panels(
    count: int,
    *,
    columns: int = 3,
    width: float | None = None,
    height: float = 2.4,
    sharey: Literal["row"] | bool = False,
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels in rows of up to `columns`, each `height` inches high."""
    across = max(1, min(count, columns))
    down = math.ceil(count / across)
    # One panel alone would be too wide to read slopes off.
    figure = blank_sheet(width or (WIDTH if across > 1 else 4.6), height * down + 0.15)
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


def draw_panels(
    cells: Iterable[Sequence[Any]],
    draw: Callable[..., object],
    *,
    title: Callable[..., str] | None = None,
    ylabel: str | Sequence[str] = "",
    xlabel: str = "",
    legend: Sequence[Artist] = (),
    legend_columns: int = 4,
    **layout: Any,
) -> Figure:
    """A panel for each cell, by `draw(axes, *cell)` and with `title(*cell)`; without cells an empty figure.

    `ylabel` is beside the first panel of each row, `xlabel` under all; `layout` is that of `panels`.
    """
    cells = list(cells)
    if not cells:
        return blank_sheet(WIDTH, 1)
    figure, grid = panels(len(cells), **layout)
    for axes, cell in zip(grid, cells, strict=True):
        draw(axes, *cell)
        if title:
            axes.set_title(title(*cell), loc="left")
    if ylabel:
        leftmost = grid[:: layout.get("columns", 3)]
        for axes, label in zip(leftmost, [ylabel] * len(leftmost) if isinstance(ylabel, str) else ylabel, strict=True):
            axes.set_ylabel(label)
    if xlabel:
        figure.supxlabel(xlabel, fontsize=8)
    if legend:
        legend_above(figure, legend, legend_columns)
    return figure


def read_texts(module: str) -> dict[str, Any]:
    """The texts of figures, from the TOML file beside the module that draws them."""
    return load_toml(Path(module).with_suffix(".toml"))


def sketch(text: Mapping[str, str], figure: Figure, **values: object) -> Sketch:
    """The figure with its name, title and caption, in which `values` take the place of names in braces."""
    return Sketch(**{key: template.format(**values) for key, template in text.items()}, figure=figure)


def sketch_each(
    module: str, draws: Iterable[Callable[[Any], Figure]], subject: object, **values: object
) -> Iterator[Sketch]:
    """What each of `draws` makes of the subject, if it has panels, with the texts under the function's name."""
    texts = read_texts(module)
    for draw in draws:
        if (figure := draw(subject)).axes:
            yield sketch(texts[draw.__name__], figure, **values)


def write(figure: Figure, path: Path) -> Path:
    """As PDF if the suffix of `path` says so, else as PNG."""
    kind = "pdf" if path.suffix.lower() == ".pdf" else "png"
    figure.savefig(path, format=kind, metadata=_METADATA[kind])
    return path


@house_style()
def write_figures(sketches: Iterable[Sketch], out: Path) -> list[Drawn]:
    """Both files of each in the directory `out`, which is made. The house style holds for sketches made on the way."""
    out.mkdir(parents=True, exist_ok=True)
    drawn = []
    for sketch in sketches:
        png = write(sketch.figure, out / f"{sketch.name}.png")
        sketch.figure.set_layout_engine(None)  # it is laid out already; to do so again would take long
        drawn.append(Drawn(sketch, png, write(sketch.figure, out / f"{sketch.name}.pdf")))
    return drawn
