"""The folder of a mounted file system that an I/O node forwards to: paths of clients can't lead out of it."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from forebay.act.forward.data.names import NOBODY, Owner
from forebay.act.forward.data.records import clean_path
from forebay.act.forward.data.tree import Parent, Tree, list_page
from forebay.act.forward.net.payloads import ListPage
from forebay.model.errors import BadInput, why

_ANYTHING = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
"""Opens anything, readable or not, for changes of its attributes only."""
_PAGE = 4096


class Folder(Tree):
    """Paths are relative to `root`, with or without a leading slash; errors are OSErrors."""

    def __init__(self, root: Path) -> None:
        try:
            super().__init__(root)
        except OSError as error:
            raise BadInput(str(root), f"cannot forward to this folder: {why(error)}") from None
        self._device = os.fstat(self.base).st_dev

    def parent(self, place: bytes) -> Parent:
        return super().parent(clean_path(place.lstrip(b"/")) or b".")

    def open(self, path: bytes, flags: int) -> int:
        with self.parent(path) as (folder, name):
            handle = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
        try:
            status = os.fstat(handle)
            if status.st_dev != self._device:
                raise OSError(errno.EXDEV, "another file system is mounted there")
            _check_kind(status)
            if not flags & os.O_DIRECTORY and stat.S_ISDIR(status.st_mode):
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        except OSError:
            os.close(handle)
            raise
        return handle

    def create(self, path: bytes, mode: int, owner: Owner) -> int:
        """Create a file; its descriptor."""
        with self.parent(path) as (folder, name):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(name, flags, mode, dir_fd=folder)
            try:
                _set_initial(handle, folder, mode, owner)
            except OSError:
                os.close(handle)
                raise
            return handle

    def make_folder(self, path: bytes, mode: int, owner: Owner) -> None:
        with self.parent(path) as (folder, name):
            os.mkdir(name, mode, dir_fd=folder)
            handle = os.open(name, _ANYTHING, dir_fd=folder)
            try:
                _set_initial(handle, folder, mode, owner)
            finally:
                os.close(handle)

    def set_attributes(self, path: bytes, mode: int | None, mtime: int | None, owner: Owner) -> None:
        """Of a file or folder, readable or not."""
        with self.parent(path) as (folder, name):
            handle = os.open(name, _ANYTHING, dir_fd=folder)
        try:
            _check_kind(os.fstat(handle))
            set_attributes(handle, mode, mtime, owner)
        finally:
            os.close(handle)

    def unlink(self, path: bytes) -> None:
        with self.parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def rmdir(self, path: bytes) -> None:
        with self.parent(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def list_page(self, path: bytes, after: bytes) -> ListPage:
        handle = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        return list_page(handle, after, _PAGE, lambda entry: entry.is_dir(follow_symlinks=False))

    def full_path(self, path: bytes) -> Path:
        """Of a file or folder, for commands that take no descriptor; no link is on the way."""
        _check_kind(self.status(path))
        return self.folder / os.fsdecode(clean_path(path.lstrip(b"/")))


def set_attributes(handle: int, mode: int | None, mtime: int | None, owner: Owner) -> None:
    """Of what a descriptor stands for, also one of O_PATH; None leaves an attribute."""
    place = Path(f"/proc/self/fd/{handle}")
    uid, gid = (-1 if number is None else number for number in owner)
    if (uid, gid) != (-1, -1):
        os.chown(place, uid, gid)
    if mode is not None:
        place.chmod(mode & 0o7777)
    if mtime is not None:
        os.utime(place, ns=(place.stat().st_atime_ns, mtime))


def _check_kind(status: os.stat_result) -> None:
    """Raise unless it is a file or a folder."""
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        number = errno.ELOOP if stat.S_ISLNK(status.st_mode) else errno.EINVAL
        raise OSError(number, os.strerror(number))


def _set_initial(handle: int, folder: int, mode: int, owner: Owner) -> None:
    """Owner and mode of something new, whatever this process's are; the group is the folder's if its mode says so."""
    inherits = os.fstat(folder).st_mode & stat.S_ISGID
    with suppress(PermissionError):  # only root gives files away; without root they stay this process's
        set_attributes(handle, None, None, (owner[0], None if inherits else owner[1]))
    kept = os.fstat(handle).st_mode & stat.S_ISGID if inherits else 0
    set_attributes(handle, mode | kept, None, NOBODY)
