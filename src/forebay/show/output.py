"""What goes to the screen: tables for people, one JSON document for machines, progress on stderr."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import typer

from forebay.model.errors import BadInput, why

Document = dict[str, Any]
"""A JSON object."""


def print_json(document: object) -> None:
    """One document, with null for what is not a number."""
    typer.echo(json.dumps(plain(document), indent=2))


def announce(document: Document, text: str, *, json_line: bool) -> None:
    """One line that a parent process can wait for: text, or JSON."""
    typer.echo(json.dumps(document) if json_line else text)
    sys.stdout.flush()


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Text columns to the left, numbers to the right, however wide the screen is."""
    from rich.console import Console
    from rich.table import Table

    cells = [[_cell(value) for value in row] for row in rows]
    table = Table(header_style="bold", box=None)
    for index, column in enumerate(columns):
        numeric = all(re.fullmatch(r"-|-?[\d.]+%?", row[index]) for row in cells)
        side: Literal["left", "right"] = "right" if numeric and cells else "left"
        # A name that is cut in two can't be marked and pasted.
        table.add_column(column, justify=side, overflow="fold", no_wrap=column in ("id", "grant"))
    for row in cells:
        table.add_row(*row)
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False, markup=False)
    if title:
        console.print(title, style="bold")
    console.print(table)


def print_rows(title: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Print a table of rows with the heads as keys."""
    print_table(title, list(rows[0]) if rows else (), [list(row.values()) for row in rows])


@contextmanager
def progress(label: str, total: float) -> Iterator[Callable[[float], None]]:
    """A bar on stderr; call what it gives with how much is done. Silent where stderr is no screen."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task(label, total=total if math.isfinite(total) else None)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """A text file that appears under its name when it is complete."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        yield file
    partial.replace(path)


@contextmanager
def drawing(plot: Path) -> Iterator[None]:
    """Say on stderr that a figure is written, or why it can't be."""
    try:
        yield
    except OSError as error:
        raise BadInput(str(plot), why(error)) from None
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
    return "".join(c if c.isprintable() else "\ufffd" for c in str(value))


def plain(value: Any) -> Any:
    """As JSON can say it: lists for arrays, null for what is not a number."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
