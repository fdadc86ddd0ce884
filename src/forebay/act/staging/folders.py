"""What staging asks of open folders and files, local or of a shared file system."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

_LONGEST = 200  # bytes of a name of an incomplete copy before its end


class Status(NamedTuple):
    """Times are in nanoseconds since 1970; `number` identifies the file on its file system."""

    mode: int
    size: int
    mtime: int
    atime: int
    number: int

    @property
    def content(self) -> tuple[int, int]:
        """Two values, one of which changes when the content does."""
        return self.size, self.mtime


class NewFile(NamedTuple):
    """A small file to create, with all of its bytes."""

    name: str
    data: bytes
    mode: int
    mtime: int
    atime: int


class Differs(Exception):
    """A copy, whose name is the argument, has other bytes than its source."""


class File(Protocol):
    """An open file. Threads can share it. `number` identifies it on its file system."""

    @property
    def number(self) -> int: ...
    def status(self) -> Status: ...
    def read(self, size: int, offset: int) -> bytes: ...
    def write(self, data: bytes, offset: int) -> None: ...
    def ranges(self, size: int, offset: int) -> Iterable[tuple[int, int]]:
        """The parts (size and offset) of these bytes that this node writes."""

    def close(self) -> None: ...


class Folder(Protocol):
    """An open folder; `path` is for messages. All operations raise OSError.

    Files of at most `small` bytes can be written with `put_files`. If it `is_striped`, several nodes can write parts of
    a larger file.
    """

    path: str
    small: int
    is_striped: bool

    def list_names(self) -> list[tuple[str, int]]:
        """List names with the types of their files as in a mode; 0 if a type is unknown."""

    def status(self, name: str) -> Status: ...
    def enter(self, name: str, *, make: bool = False) -> Folder:
        """Open a folder in it, or create it with `make` if it does not exist."""

    def open(self, name: str) -> File: ...
    def create(self, name: str, size: int, *, afresh: bool, own_parts: bool = False) -> File:
        """Open a file to read and write, and make it `size` bytes long; create it if it does not exist.

        `afresh` empties it. With `own_parts`, this node writes its parts of it, and other nodes the others.
        """

    def put_files(self, files: Sequence[NewFile], tag: str) -> list[int]:
        """Create files that appear complete, or replace them, and read them back; return their numbers.

        Raise Differs if one has other bytes then. Incomplete files are called `part_name(name, tag)`.
        """

    def read_link(self, name: str) -> str: ...
    def make_link(self, name: str, destination: str) -> None: ...
    def rename(self, name: str, new: str) -> None: ...
    def remove(self, name: str) -> None: ...
    def set_status(self, mode: int, mtime: int, atime: int, name: str = "") -> None:
        """Set the mode and the times of a file in it, or its own."""

    def sync(self) -> None:
        """Put everything that was written to its file system from here onto the disks."""


class Entry(NamedTuple):
    """A name in an open folder."""

    folder: Folder
    name: str

    @property
    def path(self) -> str:
        return f"{self.folder.path.rstrip('/')}/{self.name}"


def part_name(name: str, tag: str) -> str:
    """The name of an incomplete copy."""
    return f".{os.fsdecode(os.fsencode(name)[:_LONGEST])}.{tag}"
