"""What becomes of symbolic links: a copy has those that lead to something in the copied tree, and none is followed."""

from __future__ import annotations

import stat
from contextlib import suppress
from itertools import dropwhile

from forebay.act.staging.folders import Entry
from forebay.model.errors import BadInput, name_errors


def refuse_link(path: str) -> BadInput:
    return BadInput(path, "is a link; staging does not follow links")


def read_link(source: Entry, depth: int) -> str:
    """Read a link; `depth` is its depth in the copied tree. BadInput if it leads out of the tree."""
    with name_errors(source.path):
        destination = source.folder.read_link(source.name)
    if not is_inside(destination, depth):
        raise BadInput(source.path, f"is a link to {destination!r}, outside the copied tree; remove the link")
    return destination


def copy_link(destination: str, target: Entry) -> None:
    """Make a link in place of another one."""
    folder, name = target
    with name_errors(target.path):
        with suppress(FileNotFoundError):
            if stat.S_ISLNK(folder.status(name).mode):
                folder.remove(name)
        folder.make_link(name, destination)


def is_inside(destination: str, depth: int) -> bool:
    """Return whether a link in a folder `depth - 1` levels below the top leads to something below the top.

    Allow `..` only at the beginning: after a name, which may be a link itself, its destination is unknown.

    >>> is_inside("data/x", 1), is_inside("../x", 2), is_inside("../x", 1), is_inside("/etc/passwd", 9)
    (True, True, False, False)
    >>> is_inside("a/../x", 5)
    False
    """
    parts = [part for part in destination.split("/") if part not in ("", ".")]
    below = list(dropwhile(lambda part: part == "..", parts))
    return not destination.startswith("/") and ".." not in below and len(parts) - len(below) < depth
