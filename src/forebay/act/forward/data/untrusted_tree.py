"""Files and folders below a folder that other users may have written to.

The code follows no symbolic links, and opens only files and folders: a pipe would block.
"""

import errno
import heapq
import os
import stat
from contextlib import suppress
from operator import itemgetter
from pathlib import Path

from forebay.act.forward.net.payloads import ListPage
from forebay.act.forward.net.wire import Bytes

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Parent:
    """Opens the folder of a place below `base`; gives its descriptor and the last name of the place.

    It is a class because a generator would take longer than the system calls.
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


class Tree:
    """Files and folders below `folder`. A place is a path in bytes, relative to it. Errors are OSErrors."""

    def __init__(self, folder: Path, *, may_be_link: bool = True) -> None:
        self.folder = folder
        self.base = os.open(folder, _FOLDER & ~os.O_NOFOLLOW if may_be_link else _FOLDER)

    def close(self) -> None:
        os.close(self.base)

    def parent(self, place: bytes) -> Parent:
        return Parent(self.base, place)

    def open_file(self, place: bytes, flags: int, mode: int = 0o600) -> int:
        """Open a regular file and return its descriptor; raises EIO for anything else."""
        with self.parent(place) as (folder, name):
            handle = os.open(name, flags | _FILE, mode, dir_fd=folder)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EIO, "not a regular file")
        return handle

    def open_folder(self, place: bytes) -> int:
        with self.parent(place) as (folder, name):
            return os.open(name, _FOLDER, dir_fd=folder)

    def list(self, place: bytes) -> list[bytes]:
        handle = self.open_folder(place)
        try:
            return sorted(map(os.fsencode, os.listdir(handle)))  # noqa: PTH208  (a descriptor)
        finally:
            os.close(handle)

    def read(self, place: bytes) -> bytes:
        with os.fdopen(self.open_file(place, os.O_RDONLY), "rb") as file:
            return file.read()

    def replace(self, place: bytes, content: bytes) -> None:
        """Replace the content of a file atomically."""
        new = place + b".new"
        self.remove(new)
        with os.fdopen(self.open_file(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
        self.rename(new, place)

    def rename(self, place: bytes, to: bytes) -> None:
        with self.parent(place) as (folder, name), self.parent(to) as (into, new):
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=into)

    def link(self, place: bytes, to: bytes) -> None:
        with self.parent(place) as (folder, name), self.parent(to) as (into, new):
            os.link(name, new, src_dir_fd=folder, dst_dir_fd=into, follow_symlinks=False)

    def mkdir(self, place: bytes) -> None:
        with self.parent(place) as (folder, name):
            os.mkdir(name, dir_fd=folder)

    def remove(self, place: bytes) -> None:
        """Remove a file, if it exists."""
        with suppress(FileNotFoundError), self.parent(place) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def status(self, place: bytes) -> os.stat_result:
        with self.parent(place) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def exists(self, place: bytes) -> bool:
        with suppress(FileNotFoundError, NotADirectoryError):
            self.status(place)
            return True
        return False


def spread_place(file: int) -> bytes:
    """The place for a file's id, in a folder named by its first two digits.

    >>> spread_place(0xAB54 << 48)
    b'ab/ab54000000000000'
    """
    name = f"{file:016x}".encode()
    return name[:2] + b"/" + name


def list_page(handle: int, after: bytes, most: int) -> ListPage:
    """List at most `most` names after `after`, with the type and the id of each; close the descriptor."""
    try:
        with os.scandir(handle) as entries:
            names = ((os.fsencode(entry.name), entry) for entry in entries)
            page = heapq.nsmallest(
                most + 1, ((name, entry) for name, entry in names if name > after), key=itemgetter(0)
            )
            listed = [(name, _type_of(entry), entry.inode()) for name, entry in page]
    finally:
        os.close(handle)
    return ListPage(entries=listed[:most], more=len(listed) > most)


def _type_of(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    return stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)


def read_at(handle: int, room: memoryview, offset: int) -> int:
    """Fill the room and return the number of bytes, which is smaller only at the end of the file."""
    done = os.preadv(handle, [room], offset)
    while 0 < done < len(room):
        more = os.preadv(handle, [room[done:]], offset + done)
        if not more:
            break
        done += more
    return done


def write_at(handle: int, data: Bytes, offset: int) -> None:
    """Write all of it. If this raises, some of it may be written."""
    done = os.pwrite(handle, data, offset)
    while done < len(data):
        done += os.pwrite(handle, memoryview(data)[done:], offset + done)


def append(handle: int, data: Bytes) -> None:
    """Write all of it at the end of the file, in one piece."""
    done = os.pwritev(handle, [data], 0, os.RWF_APPEND)
    if done < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def sync_all(descriptors: list[int]) -> None:
    """Flush these files and folders to disk, and close all descriptors; raises the first OSError."""
    failure = None
    for descriptor in descriptors:
        try:
            os.fsync(descriptor)
        except OSError as error:
            failure = failure or error
        finally:
            os.close(descriptor)
    if failure is not None:
        raise failure
