"""Open folders and files of this machine. Nothing here follows a link, except to a path outside the space."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress

from forebay.act.staging.folders import Differs, NewFile, Status, part_name
from forebay.act.staging.links import refuse_link
from forebay.model.errors import name_errors

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


class LocalFile:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        self.close()

    @property
    def number(self) -> int:
        return os.fstat(self.descriptor).st_ino

    def status(self) -> Status:
        return _status_of(os.fstat(self.descriptor))

    def read(self, size: int, offset: int) -> bytes:
        return read_bytes(self.descriptor, size, offset)

    def write(self, data: bytes, offset: int) -> None:
        left = memoryview(data)
        while left:
            count = os.pwrite(self.descriptor, left, offset)
            left, offset = left[count:], offset + count

    def ranges(self, size: int, offset: int) -> Iterable[tuple[int, int]]:
        return ((size, offset),)

    def truncate(self, size: int) -> None:
        os.ftruncate(self.descriptor, size)

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class LocalFolder:
    """A folder of this machine by its descriptor, so that no renamed folder or link leads elsewhere."""

    small = 1 << 20
    is_striped = False

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor, self.path = descriptor, path

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self._descriptor)

    @classmethod
    def open_path(cls, path: str, *, is_link_allowed: bool = True) -> LocalFolder:
        """Open a folder by a path outside the space, which may lead through links."""
        flags = _FOLDER & ~os.O_NOFOLLOW if is_link_allowed else _FOLDER
        return cls(os.open(path, flags), path)

    def list_names(self) -> list[tuple[str, int]]:
        with os.scandir(self._descriptor) as entries:
            return sorted((entry.name, _type_of(entry)) for entry in entries)

    def status(self, name: str) -> Status:
        return _status_of(os.stat(name, dir_fd=self._descriptor, follow_symlinks=False))

    def enter(self, name: str, *, make: bool = False) -> LocalFolder:
        path = f"{self.path.rstrip('/')}/{name}"
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=self._descriptor)
        try:
            return LocalFolder(os.open(name, _FOLDER, dir_fd=self._descriptor), path)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR) and self._is_link(name):
                raise refuse_link(path) from None
            raise

    def open(self, name: str) -> LocalFile:
        return LocalFile(os.open(name, _READ, dir_fd=self._descriptor))

    def create(self, name: str, size: int, *, afresh: bool, own_parts: bool = False) -> LocalFile:  # noqa: ARG002
        flags = _WRITE | (os.O_TRUNC if afresh else 0)
        file = LocalFile(os.open(name, flags, 0o600, dir_fd=self._descriptor))
        if size:
            file.truncate(size)
        return file

    def put_files(self, files: Sequence[NewFile], tag: str) -> list[int]:
        numbers = []
        for file in files:
            with name_errors(f"{self.path.rstrip('/')}/{file.name}"):
                numbers.append(self._put_file(file, part_name(file.name, tag)))
        return numbers

    def _put_file(self, new: NewFile, part: str) -> int:
        file = self.create(part, 0, afresh=True)
        try:
            file.write(new.data, 0)
            if file.read(len(new.data), 0) != new.data:
                raise Differs(new.name)
            number = file.number
            _set_status(file.descriptor, new.mode, new.mtime, new.atime)
        finally:
            file.close()
        self.rename(part, new.name)
        return number

    def read_link(self, name: str) -> str:
        return os.readlink(name, dir_fd=self._descriptor)

    def make_link(self, name: str, destination: str) -> None:
        os.symlink(destination, name, dir_fd=self._descriptor)

    def rename(self, name: str, new: str) -> None:
        os.rename(name, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._descriptor)

    def set_status(self, mode: int, mtime: int, atime: int, name: str = "") -> None:
        if not name:
            _set_status(self._descriptor, mode, mtime, atime)
            return
        file = self.open(name)
        try:
            _set_status(file.descriptor, mode, mtime, atime)
        finally:
            file.close()

    def sync(self) -> None:
        if _libc.syncfs(self._descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def _is_link(self, name: str) -> bool:
        with suppress(OSError):
            return stat.S_ISLNK(self.status(name).mode)
        return False


def read_bytes(descriptor: int, size: int, offset: int) -> bytes:
    """Read bytes of a file; fewer only at its end."""
    data = os.pread(descriptor, size, offset)
    while data and len(data) < size and (more := os.pread(descriptor, size - len(data), offset + len(data))):
        data += more
    return data


def _set_status(descriptor: int, mode: int, mtime: int, atime: int) -> None:
    os.fchmod(descriptor, mode)
    os.utime(descriptor, ns=(atime, mtime))


def _status_of(status: os.stat_result) -> Status:
    return Status(status.st_mode, status.st_size, status.st_mtime_ns, status.st_atime_ns, status.st_ino)


def _type_of(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    return stat.S_IFREG if entry.is_file(follow_symlinks=False) else 0
