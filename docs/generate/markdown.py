"""Markdown from values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def page(title: str, *parts: str) -> str:
    return "\n\n".join((f"# {title}", *(part for part in parts if part))) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown already.

    >>> print(table(("key", "is"), [("a|b", "one\\nline")]))
    | key | is |
    |---|---|
    | a\\|b | one line |
    """
    lines = [_row(columns), "|" + "---|" * len(columns)]
    return "\n".join((*lines, *(_row(row) for row in rows)))


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def code(text: object) -> str:
    """
    >>> code("--json")
    '`--json`'
    """
    return f"`{text}`" if str(text) else ""


def words(text: str) -> str:
    """Text that is no Markdown: its brackets, stars and underscores are meant as they stand.

    >>> words("a<b and [default: *]")
    'a\\\\<b and \\\\[default: \\\\*\\\\]'
    """
    parts = text.split("`")  # what stands between backticks is code, here as there
    for at in range(0, len(parts), 2):
        parts[at] = "".join(f"\\{c}" if c in "\\<>[]*_{}$#~" else c for c in parts[at])
    return "`".join(parts)
