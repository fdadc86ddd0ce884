"""Files and folders below a folder of ours that somebody else may have written to.

No symbolic link is followed on the way, and nothing is opened but files and folders: a pipe would hold us up.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Parent:
    """The folder that a place is in, below the folder `base`: a descriptor of it, and the place's last name.

    A class, as a generator would take longer than the system's calls.
    """

    __slots__ = ("_base", "_here", "_place")

    def __init__(self, base: int, place: bytes) -> None:
        self._base, self._place, self._here = base, place, base

    def __enter__(self) -> tuple[int, bytes]:
        *folders, name = self._place.split(b"/")
        try:
            for folder in folders:
                below = os.open(folder, _STEP, dir_fd=self._here)
                self.__exit__()
                self._here = below
        except BaseException:
            self.__exit__()
            raise
        return self._here, name

    def __exit__(self, *_: object) -> None:
        if self._here != self._base:
            os.close(self._here)
            self._here = self._base


def open_file(base: int, place: bytes, flags: int, mode: int = 0o600) -> int:
    """A descriptor of a regular file below the folder `base`; EIO if it is something else."""
    with Parent(base, place) as (folder, name):
        handle = os.open(name, flags | _FILE, mode, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EIO, "not a regular file")
    return handle


def open_folder(base: int, place: bytes) -> int:
    """A descriptor of a folder below the folder `base`."""
    with Parent(base, place) as (folder, name):
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def list_folder(base: int, place: bytes) -> list[bytes]:
    handle = open_folder(base, place)
    try:
        return sorted(map(os.fsencode, os.listdir(handle)))  # noqa: PTH208  (a descriptor)
    finally:
        os.close(handle)


def read_file(base: int, place: bytes) -> bytes:
    with os.fdopen(open_file(base, place, os.O_RDONLY), "rb") as file:
        return file.read()


def replace_file(base: int, place: bytes, content: bytes) -> None:
    """Its old content, or this: whatever happens in between."""
    new = place + b".new"
    with Parent(base, new) as (folder, name), suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    with os.fdopen(open_file(base, new, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(content)
    rename(base, new, place)


def rename(base: int, place: bytes, to: bytes) -> None:
    with Parent(base, place) as (folder, name), Parent(base, to) as (into, new):
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=into)
