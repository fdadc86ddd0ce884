"""Forebay's own forwarding layer as a file system whose layouts can be set, through its mount point.

A folder's layout is its extended attribute `user.forebay.layout`, so that any machine with the mount can read and
set it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from forebay.act.filesystems.filesystem import Command, FileSystem, Fitted, numbered
from forebay.history.run_fields import MOST_STRIPES
from forebay.history.toml import locate_errors
from forebay.model.errors import BadInput, why
from forebay.model.layout import ANY, DEFAULT_SIZE, Layout, Target
from forebay.model.units import parse_size

LAYOUT = "user.forebay.layout"
_NEW_FILES_ONLY = "new files only: a file that holds data keeps its layout"


def layout_text(layout: Layout) -> str:
    """
    >>> layout_text(Layout(count=4, size=65536))
    'count=4 size=65536 start=-1'
    """
    return f"count={layout.count} size={layout.size} start={layout.start}"


def parse_layout(text: str) -> Layout:
    """The layout; a size may have a unit, and what is left out is the default. Raises ValueError.

    >>> parse_layout("count=2 size=1MiB")
    Layout(count=2, size=1048576, start=-1)
    """
    words = dict(word.partition("=")[::2] for word in text.split())
    if "count" not in words or not words.keys() <= {"count", "size", "start"}:
        raise ValueError(f"a layout is like 'count=4 size=1MiB start=0', not {text!r}")
    size = parse_size(words["size"]) if "size" in words else DEFAULT_SIZE
    return Layout(count=int(words["count"]), size=int(size), start=int(words.get("start", ANY)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted(FileSystem):
    """One mounted layer; `known_targets` is how many data servers it has."""

    mount: Path | None = None
    known_targets: int | None = None
    timeout: float = 10.0
    max_count: int = MOST_STRIPES

    def fitted(self, layout: Layout) -> Fitted:
        return Fitted(layout=layout, notes=(_NEW_FILES_ONLY,))

    def set_command(self, layout: Layout, folder: Path) -> Command:
        """
        >>> Mounted().set_command(Layout(count=2, size=65536, start=0), Path("/mnt/run"))[-2:]
        ('count=2 size=65536 start=0', '/mnt/run')
        """
        return "setfattr", "-n", LAYOUT, "-v", layout_text(layout), str(folder.absolute())

    def targets(self, folder: Path | None = None) -> tuple[Target, ...]:
        if self.known_targets is None:
            raise BadInput(str(self.mount or folder or "targets"), "say in `targets` how many data servers there are")
        return numbered(self.known_targets)

    def layout(self, folder: Path) -> Layout:
        return locate_errors(f"{folder}: {LAYOUT}", lambda: parse_layout(_attribute(folder, LAYOUT)))

    def undo(self, folder: Path) -> tuple[Command, ...]:
        return (self.set_command(self.layout(folder), folder),)


def _attribute(folder: Path, name: str) -> str:
    try:
        return os.getxattr(folder, name).decode("utf-8", "replace")
    except OSError as error:
        raise BadInput(str(folder), f"is not in a mounted layer of Forebay's ({name}: {why(error)})") from None
