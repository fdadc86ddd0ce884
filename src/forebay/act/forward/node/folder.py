"""Files under one folder by paths that can't lead out of it: no `..`, and no symbolic link is followed."""

from __future__ import annotations

import errno
import heapq
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forebay.act.forward.data.names import NOBODY, Owner
from forebay.act.forward.data.records import clean
from forebay.model.errors import BadInput, why

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SOMETHING = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
"""Whatever it is, and whether it may be opened or not."""
PAGE = 4096


class Folder:
    """All paths are relative to `root`; errors are OSErrors."""

    def __init__(self, root: Path) -> None:
        try:
            self.root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise BadInput(str(root), f"can't be forwarded to: {why(error)}") from None
        self._device = os.fstat(self.root).st_dev
        self.path = root

    def close(self) -> None:
        os.close(self.root)

    @contextmanager
    def parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        """A descriptor of the folder that a path ends in, and the last name of it (b"." for the root itself)."""
        *folders, name = clean(path.lstrip(b"/")).split(b"/")
        here = os.dup(self.root)
        try:
            for folder in folders:
                below = os.open(folder, _DIRECTORY, dir_fd=here)
                os.close(here)
                here = below
            yield here, name or b"."
        finally:
            os.close(here)

    def open(self, path: bytes, flags: int, mode: int = 0o644) -> int:
        with self.parent(path) as (folder, name):
            handle = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, mode, dir_fd=folder)
        try:
            self._check(os.fstat(handle), flags)
        except OSError:
            os.close(handle)
            raise
        return handle

    def _check(self, status: os.stat_result, flags: int) -> None:
        if status.st_dev != self._device:
            raise OSError(errno.EXDEV, "another file system is mounted there")
        check_kind(status)
        if not flags & os.O_DIRECTORY and stat.S_ISDIR(status.st_mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))

    def stat(self, path: bytes) -> os.stat_result:
        with self.parent(path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def unlink(self, path: bytes) -> None:
        with self.parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def create(self, path: bytes, mode: int, owner: Owner) -> int:
        """A descriptor of a new file."""
        with self.parent(path) as (folder, name):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(name, flags, mode, dir_fd=folder)
            try:
                _settle(handle, folder, mode, owner)
            except OSError:
                os.close(handle)
                raise
            return handle

    def mkdir(self, path: bytes, mode: int, owner: Owner) -> None:
        with self.parent(path) as (folder, name):
            os.mkdir(name, mode, dir_fd=folder)
            handle = os.open(name, _SOMETHING, dir_fd=folder)
            try:
                _settle(handle, folder, mode, owner)
            finally:
                os.close(handle)

    def set_attributes(self, path: bytes, mode: int | None, mtime: int | None, owner: Owner) -> None:
        """Of a file or folder, whether it may be opened or not."""
        with self.parent(path) as (folder, name):
            handle = os.open(name, _SOMETHING, dir_fd=folder)
        try:
            check_kind(os.fstat(handle))
            set_attributes(handle, mode, mtime, owner)
        finally:
            os.close(handle)

    def rmdir(self, path: bytes) -> None:
        with self.parent(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def rename(self, path: bytes, to: bytes) -> None:
        with self.parent(path) as (folder, name), self.parent(to) as (into, new):
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=into)

    def list(self, path: bytes, after: bytes) -> tuple[list[tuple[bytes, bool]], bool]:
        """Names and whether each is a folder, in their order, behind `after`; and whether there are more."""
        handle = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(handle) as entries:
                names = ((os.fsencode(e.name), e.is_dir(follow_symlinks=False)) for e in entries)
                found = heapq.nsmallest(PAGE + 1, (entry for entry in names if entry[0] > after))
        finally:
            os.close(handle)
        return found[:PAGE], len(found) > PAGE

    def full(self, path: bytes) -> Path:
        """For commands that take no descriptor: of a file or folder, with no link on the way."""
        check_kind(self.stat(path))
        return self.path / os.fsdecode(clean(path.lstrip(b"/")))


def check_kind(status: os.stat_result) -> None:
    """Raises unless it is a file or a folder."""
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        number = errno.ELOOP if stat.S_ISLNK(status.st_mode) else errno.EINVAL
        raise OSError(number, os.strerror(number))


def set_attributes(handle: int, mode: int | None, mtime: int | None, owner: Owner) -> None:
    """Of what a descriptor stands for, also one of O_PATH; what is None stays."""
    place = Path(f"/proc/self/fd/{handle}")
    uid, gid = (-1 if number is None else number for number in owner)
    if (uid, gid) != (-1, -1):
        os.chown(place, uid, gid)
    if mode is not None:
        place.chmod(mode & 0o7777)
    if mtime is not None:
        os.utime(place, ns=(place.stat().st_atime_ns, mtime))


def _settle(handle: int, folder: int, mode: int, owner: Owner) -> None:
    """Owner and mode of something new, whatever this process's are; its group is the folder's where that says so."""
    inherits = os.fstat(folder).st_mode & stat.S_ISGID
    with suppress(PermissionError):  # only root gives files away; without root they stay this process's
        set_attributes(handle, None, None, (owner[0], None if inherits else owner[1]))
    kept = os.fstat(handle).st_mode & stat.S_ISGID if inherits else 0
    set_attributes(handle, mode | kept, None, NOBODY)
