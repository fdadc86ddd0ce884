"""Figures with panels and a legend outside them, written as PNG and PDF."""

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
from forebay.show.phrases import cut_middle

FONT = "DejaVu Sans"  # comes with matplotlib, so figures are the same on every machine
WIDTH = 7.2  # inches: both columns of a paper
_HOUSE = Path(__file__).with_name("house.mplstyle")
Style = dict[str, Any]
"""Keyword arguments of Matplotlib."""
STYLE: Style = dict(matplotlib.rc_params_from_file(_HOUSE, use_default_template=False).items())
# Without dates and versions, the same results give the same bytes.
_METADATA: dict[str, Style] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """A figure before it is written; its files are called `name`."""

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
    """Make a name safe as matplotlib text: no formulas, no missing glyphs, not too long.

    >>> printable("a$b")
    'a\\\\$b'
    """
    shown = cut_middle("".join(c if c.isprintable() and _has_glyph(c) else "?" for c in name), longest)
    # Legends leave out labels that start with an underscore.
    return (" " + shown if shown.startswith("_") else shown).replace("$", r"\$")


@cache
def _has_glyph(character: str) -> bool:
    return bool(get_font(findfont(FONT)).get_char_index(ord(character)))


@contextmanager
def house_style() -> Iterator[None]:
    """Use matplotlib's defaults with our settings, regardless of the user's configuration."""
    with matplotlib.style.context(["default", STYLE]):
        yield


def blank_sheet(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, which needs no screen."""
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
    """Return a figure with `count` panels in rows of up to `columns`, each `height` inches high."""
    across = max(1, min(count, columns))
    down = math.ceil(count / across)
    # A single panel of full width would make slopes hard to read.
    figure = blank_sheet(width or (WIDTH if across > 1 else 4.6), height * down + 0.15)
    grid = figure.subplots(down, across, squeeze=False, sharey=sharey).ravel().tolist()
    for spare in grid[count:]:
        spare.remove()
    for above in grid[:count]:
        above.tick_params(labelbottom=True)
    return figure, grid[:count]


def legend_above(figure: Figure, entries: Sequence[Artist], columns: int = 4) -> None:
    """Put one legend for all panels above them."""
    columns = min(len(entries), columns if figure.get_figwidth() >= WIDTH else min(columns, 3))
    # Add height for the legend, so that a long one does not flatten the panels.
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
    """Draw a panel for each cell with `draw(axes, *cell)` and `title(*cell)`; without cells, return an empty figure.

    `ylabel` is beside the first panel of each row, `xlabel` below all; `layout` goes to `panels`.
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
    """Read the texts of figures from the TOML file beside the module that draws them."""
    return load_toml(Path(module).with_suffix(".toml"))


def sketch(text: Mapping[str, str], figure: Figure, **values: object) -> Sketch:
    """Add name, title and caption to a figure; `values` replace the names in braces."""
    return Sketch(**{key: template.format(**values) for key, template in text.items()}, figure=figure)


def sketch_each(
    module: str, draws: Iterable[Callable[[Any], Figure]], subject: object, **values: object
) -> Iterator[Sketch]:
    """Yield the figure of each of `draws` that has panels, with the texts under the name of the function."""
    texts = read_texts(module)
    for draw in draws:
        if (figure := draw(subject)).axes:
            yield sketch(texts[draw.__name__], figure, **values)


def write(figure: Figure, path: Path) -> Path:
    """Write a PDF if the suffix of `path` is .pdf, else a PNG."""
    kind = "pdf" if path.suffix.lower() == ".pdf" else "png"
    figure.savefig(path, format=kind, metadata=_METADATA[kind])
    return path


@house_style()
def write_figures(sketches: Iterable[Sketch], out: Path) -> list[Drawn]:
    """Write both files of each sketch to `out`, which is created. Sketches that are made here get the house style."""
    out.mkdir(parents=True, exist_ok=True)
    drawn = []
    for sketch in sketches:
        png = write(sketch.figure, out / f"{sketch.name}.png")
        sketch.figure.set_layout_engine(None)  # the layout is done, and repeating it is slow
        drawn.append(Drawn(sketch, png, write(sketch.figure, out / f"{sketch.name}.pdf")))
    return drawn
