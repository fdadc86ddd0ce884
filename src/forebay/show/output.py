"""Prints tables for people, one JSON document for machines, and progress on stderr."""

import itertools
import json
import math
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import typer

from forebay.model.errors import name_errors
from forebay.model.units import format_duration

Document = dict[str, Any]
"""A JSON object."""


def print_json(document: object) -> None:
    """Print one JSON document, with null in place of nan and infinity."""
    typer.echo(json.dumps(plain(document), indent=2))


def print_lines(*lines: str, err: bool = False) -> None:
    """Print each text as one line, whatever characters others have put into it."""
    for line in lines:
        typer.echo(printable(line), err=err)


def announce(document: Document, text: str, *, json_line: bool) -> None:
    """Print one line, as text or JSON, that a parent process can wait for."""
    typer.echo(json.dumps(document) if json_line else text)
    sys.stdout.flush()


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table with text aligned left and numbers right. Cells are wrapped if the screen is too narrow."""
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [all(re.fullmatch(r"-|-?[\d.]+%?", row[index]) for row in cells) for index in range(len(columns))]
    screen = shutil.get_terminal_size().columns if sys.stdout.isatty() else 140
    widths = _fit_columns(columns, cells, screen)
    if title:
        typer.secho(title, bold=True)
    if not columns:
        typer.echo()
    for number, row in enumerate([columns, *cells]):
        folded = [
            textwrap.wrap(text, max(width, 1), break_on_hyphens=False) or [""]
            for text, width in zip(row, widths, strict=True)
        ]
        for parts in itertools.zip_longest(*folded, fillvalue=""):
            line = "  ".join(
                part.rjust(width) if right and cells else part.ljust(width)
                for part, width, right in zip(parts, widths, numeric, strict=True)
            )
            typer.secho(f" {line} ", bold=number == 0)


def _fit_columns(columns: Sequence[str], cells: Sequence[Sequence[str]], screen: int) -> list[int]:
    """The width of each column. The widest shrink first, but ids never do: users copy them."""
    widths = [max(map(len, texts)) for texts in zip(columns, *cells, strict=True)]
    folding = [index for index, column in enumerate(columns) if column not in ("id", "grant")]
    while sum(widths) + 2 * len(widths) > screen and folding:
        widest = max(folding, key=widths.__getitem__)
        if widths[widest] == 1:
            break
        widths[widest] -= 1
    return widths


def print_rows(title: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Print a table of rows; their keys are the column heads."""
    print_table(title, list(rows[0]) if rows else (), [list(row.values()) for row in rows])


@contextmanager
def progress(label: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show a bar on stderr; call the returned function with the amount done. Silent unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    begin = time.monotonic()
    drawn = -math.inf

    def draw(done: float) -> None:
        nonlocal drawn
        now = time.monotonic()
        if now - drawn < 0.1:
            return
        drawn = now
        if math.isfinite(total) and total > 0:
            share = min(done / total, 1.0)
            left = format_duration(round((now - begin) * (1 - share) / share)) if share else "-"
            line = f"{label} {'━' * round(40 * share):·<40} {share:4.0%} {left}"
        else:
            line = f"{label} {done:g}" if done else label
        sys.stderr.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        sys.stderr.flush()

    draw(0)
    try:
        yield draw
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


@contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """Open a text file for writing that gets its name only when it is complete; nothing is left of one that is not.

    A device or a pipe is written to as it is.
    """
    if path.exists() and not path.is_file():
        with path.open("w", newline="", encoding="utf-8") as file:
            yield file
        return
    path = path.resolve()  # what a link names is replaced, not the link
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        try:
            yield file
            file.flush()
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    partial.replace(path)


def draw(plot: Path | None, figure: str, *values: object) -> None:
    """Draw a figure into the file of --plot, if given; `figure` is MODULE:FUNCTION in `forebay.show.figures`.

    The module is imported late, because it needs matplotlib.
    """
    if plot is None:
        return
    module, _, function = figure.partition(":")
    with name_errors(plot):
        getattr(import_module(f"forebay.show.figures.{module}"), function)(*values, plot)
    typer.echo(f"drawn: {plot}", err=True)


def ranges(numbers: Sequence[int]) -> str:
    """
    >>> ranges((0, 1, 2, 5, 7, 8))
    '0-2 5 7-8'
    """
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return " ".join(f"{r[0]}" if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.3f}".replace("-0.000", "0.000")
    return printable(str(value))


def printable(text: str) -> str:
    """
    >>> printable("evil\\x1b[2J\\n.x")
    'evil\ufffd[2J\ufffd.x'
    """
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def plain(value: Any) -> Any:
    """Convert a value for JSON: arrays become lists, nan and infinity become null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
