"""A folder of another file system that an I/O node forwards: opens, names and attributes of what is in it."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time_ns

from forebay.act.forward.data import system_calls
from forebay.act.forward.data.paths import clean_path
from forebay.act.forward.data.permissions import without_set_ids
from forebay.act.forward.data.untrusted_tree import Parent, Tree, list_page
from forebay.act.forward.net import payloads
from forebay.act.forward.net.payloads import ListPage, layout_fields
from forebay.model.errors import BadInput, why
from forebay.model.file_times import clamp_time
from forebay.model.layout import Layout

_ANYTHING = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
"""Open anything, readable or not, only to change its attributes."""
_PAGE = 4096
_UNKNOWN = Layout(count=1)


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
                raise OSError(errno.EXDEV, "another file system is mounted there; this I/O node forwards only one")
            check_kind(status)
            if not flags & os.O_DIRECTORY and stat.S_ISDIR(status.st_mode):
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        except OSError:
            os.close(handle)
            raise
        return handle

    def create(self, request: payloads.OpenRequest) -> int:
        """Create a file and return its descriptor."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self.parent(request.path) as (folder, name):
            handle = os.open(name, flags, request.mode & 0o7777, dir_fd=folder)
        try:
            _set_initial_mode(handle, request.mode)
        except OSError:
            os.close(handle)
            raise
        return handle

    def make_folder(self, request: payloads.MkdirRequest) -> payloads.FileStatus:
        with self.parent(request.path) as (folder, name):
            os.mkdir(name, request.mode & 0o7777, dir_fd=folder)
        with self.open_path(request.path) as handle:
            _set_initial_mode(handle, request.mode)
            return file_status(handle)

    def make(self, request: payloads.MakeRequest) -> payloads.FileStatus:
        """Create a file, a symbolic link, a pipe, a socket or a device."""
        with self.parent(request.path) as (folder, name):
            if request.target is not None:
                os.symlink(request.target, name, dir_fd=folder)
            else:
                os.mknod(name, request.mode, request.device, dir_fd=folder)
        with self.open_path(request.path) as handle:
            if request.target is None:
                _set_initial_mode(handle, request.mode)
            return file_status(handle)

    @contextmanager
    def open_path(self, path: bytes) -> Iterator[int]:
        """A descriptor of whatever has this name, readable or not, only for its attributes."""
        with self.parent(path) as (folder, name):
            handle = os.open(name, _ANYTHING, dir_fd=folder)
        try:
            yield handle
        finally:
            os.close(handle)

    def link_to(self, path: bytes, to: bytes) -> payloads.FileStatus:
        self.link(path, to)
        with self.open_path(to) as handle:
            return file_status(handle)

    def rename_to(self, request: payloads.RenameRequest) -> None:
        with self.parent(request.path) as (folder, name), self.parent(request.to) as (into, new):
            system_calls.rename(folder, name, into, new, exchange=request.exchange, keep=request.keep)

    def unlink(self, path: bytes) -> None:
        with self.parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def rmdir(self, path: bytes) -> None:
        with self.parent(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def list_page(self, path: bytes, after: bytes) -> ListPage:
        return list_page(self.open(path, os.O_RDONLY | os.O_DIRECTORY), after, _PAGE)

    def full_path(self, path: bytes) -> Path:
        """The path of a file or folder, for commands that take no descriptor; raises if the path contains a link."""
        check_kind(self.status(path))
        return self.folder / os.fsdecode(clean_path(path.lstrip(b"/")))


def set_attributes(handle: int, request: payloads.AttributesRequest) -> payloads.FileStatus:
    """Set the attributes that are not None, through any descriptor, even an O_PATH one; return the new status."""
    place = descriptor_path(handle)
    uid, gid = (-1 if number is None else number for number in (request.uid, request.gid))
    if (uid, gid) != (-1, -1):
        os.chown(place, uid, gid)
    if request.mode is not None:
        os.chmod(place, request.mode & 0o7777)  # noqa: PTH101  (see descriptor_path)
    if request.clear:
        mode = os.fstat(handle).st_mode
        if (without := without_set_ids(mode)) != mode:
            os.chmod(place, stat.S_IMODE(without))  # noqa: PTH101
    _set_times(place, handle, request)
    return file_status(handle)


def _set_times(place: str, handle: int, request: payloads.AttributesRequest) -> None:
    if request.mtime_now and request.atime_now:
        os.utime(place)
        return
    before, now = os.fstat(handle), time_ns()
    atime = now if request.atime_now else request.atime
    mtime = now if request.mtime_now else request.mtime
    if atime is not None or mtime is not None:
        kept = before.st_atime_ns if atime is None else atime, before.st_mtime_ns if mtime is None else mtime
        os.utime(place, ns=kept)


def descriptor_path(handle: int) -> str:
    """A path that leads to an open file, also to a symbolic link itself."""
    return f"/proc/self/fd/{handle}"


def _set_initial_mode(handle: int, mode: int) -> None:
    """Give a new file exactly this mode, whatever this process's umask; it keeps S_ISGID from its folder."""
    has = stat.S_IMODE(os.fstat(handle).st_mode)
    wanted = stat.S_IMODE(mode) | has & stat.S_ISGID
    if wanted != has:
        with system_calls.acting_as_itself():  # others than root cannot keep S_ISGID of a group that is not theirs
            os.chmod(descriptor_path(handle), wanted)  # noqa: PTH101


def check_kind(status: os.stat_result) -> None:
    """Raise OSError unless this is the status of a file or a folder."""
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        number = errno.ELOOP if stat.S_ISLNK(status.st_mode) else errno.EINVAL
        raise OSError(number, os.strerror(number))


def file_status(handle: int, layout: Layout = _UNKNOWN, *, created: bool = False) -> payloads.FileStatus:
    """The status of an open file, or of anything that a descriptor stands for."""
    status = os.fstat(handle)
    return payloads.FileStatus(
        file=status.st_ino,
        layout_fields=layout_fields(layout),
        mode=status.st_mode,
        mtime=clamp_time(status.st_mtime_ns),
        atime=clamp_time(status.st_atime_ns),
        ctime=status.st_ctime_ns,
        uid=status.st_uid,
        gid=status.st_gid,
        links=status.st_nlink,
        device=status.st_rdev,
        target=os.readlink(b"", dir_fd=handle) if stat.S_ISLNK(status.st_mode) else None,
        created=created,
        size=status.st_size,
        allocated=status.st_blocks * 512,
        by_path=True,
    )
