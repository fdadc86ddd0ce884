"""Forebay's forwarding layer as a file system, through its mount point.

The extended attribute `user.forebay.layout` holds a folder's layout, so any machine with the mount can read and set it.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from forebay.act.filesystems.filesystem import Command, FileSystem
from forebay.history.toml import locate_errors
from forebay.model.errors import BadInput, why
from forebay.model.layout import ANY, DEFAULT_SIZE, Layout, Target
from forebay.model.units import parse_size

LAYOUT = "user.forebay.layout"


def format_layout(layout: Layout) -> str:
    """
    >>> format_layout(Layout(count=4, size=65536))
    'count=4 size=65536 start=-1'
    """
    return f"count={layout.count} size={layout.size} start={layout.start}"


def parse_layout(text: str) -> Layout:
    """Parse a layout. The size may have a unit; size and start have defaults. Raise ValueError if it is invalid.

    >>> parse_layout("count=2 size=1MiB") == Layout(count=2, size=1 << 20)
    True
    """
    values = dict(word.partition("=")[::2] for word in text.split())
    if "count" not in values or not values.keys() <= {"count", "size", "start"}:
        raise ValueError(f"must be a layout such as 'count=4 size=1MiB start=0', not {text!r}")
    size = parse_size(values["size"]) if "size" in values else DEFAULT_SIZE
    return Layout(count=int(values["count"]), size=int(size), start=int(values.get("start", ANY)))


@dataclass(frozen=True, kw_only=True)
class ForebayMount(FileSystem):
    """A mounted layer. Its targets are its data servers."""

    note = "new files only: a file that holds data keeps its layout"

    def set_command(self, layout: Layout, folder: Path) -> Command:
        """
        >>> ForebayMount().set_command(Layout(count=2, size=65536, start=0), Path("/mnt/run"))[-2:]
        ('count=2 size=65536 start=0', '/mnt/run')
        """
        return "setfattr", "-n", LAYOUT, "-v", format_layout(layout), str(folder.absolute())

    def _read_targets(self, folder: Path | None) -> tuple[Target, ...]:
        raise BadInput(str(self.mount or folder or "targets"), "set `targets` to the number of data servers")

    def layout(self, folder: Path) -> Layout:
        try:
            text = os.getxattr(folder, LAYOUT).decode("utf-8", "replace")
        except OSError as error:
            reason = f"is not in a mounted forwarding layer ({LAYOUT}: {why(error)})"
            raise BadInput(str(folder), reason) from None
        return locate_errors(f"{folder}: {LAYOUT}", lambda: parse_layout(text))
