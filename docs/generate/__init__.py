"""The reference, made from the code whenever the site is built: nothing of it is written twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from generate.commands import commands_page
from generate.configuration import configuration_page
from generate.files import file_pages
from generate.http import http_page
from generate.json_fields import json_page
from generate.metrics import metrics_page

PAGES: dict[str, Callable[[], str]] = {
    "commands": commands_page,
    "configuration": configuration_page,
    "json": json_page,
    "metrics": metrics_page,
    "http": http_page,
}


def write_all(docs: Path) -> None:
    """The pages under docs/reference, and those of repository files that pages link to under docs/files."""
    _write_folder(docs / "reference", {f"{name}.md": page() for name, page in PAGES.items()})
    _write_folder(docs / "files", file_pages(docs))


def _write_folder(folder: Path, pages: dict[str, str]) -> None:
    """These and no others; what is as it was is left alone, so that it need not be read again."""
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
    for old in folder.rglob("*.md"):
        if str(old.relative_to(folder)) not in pages:
            old.unlink()
