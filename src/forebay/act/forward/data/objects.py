"""A data server's share of the files: one object a file, a plain file under the server's folder.

An object is made by the first write to it. `objects/ab/ab54…` holds the file with the id 0xab54….
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from forebay.act.forward.data.tree import Parent, open_file, open_folder
from forebay.act.forward.net.wire import LAST_OFFSET, Bytes

MOST_OPEN = 512
_MOST_GONE = 1 << 16
"""Forgotten files that are remembered, so that a late write does not make them anew."""


class Objects:
    """The objects under `folder`; at most `most_open` are held open, those used last. Errors are OSErrors."""

    def __init__(self, folder: Path, most_open: int = MOST_OPEN) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._open: OrderedDict[int, int] = OrderedDict()
        self._most_open = most_open
        self._gone: OrderedDict[int, None] = OrderedDict()
        self._unsynced: set[bytes] = set()  # folders with new names in them

    def read(self, file: int, offset: int, room: memoryview) -> int:
        """How many bytes from `offset` on were put into the room: fewer than fit where the object ends."""
        handle = self._handle(file)
        if handle is None:
            return 0
        done = os.preadv(handle, [room], offset)
        while 0 < done < len(room):
            more = os.preadv(handle, [room[done:]], offset + done)
            if not more:
                break
            done += more
        return done

    def write(self, file: int, offset: int, data: Bytes) -> int:
        """All of it, or an error; then some of it may be there."""
        length = len(data)
        if offset + length > LAST_OFFSET:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        handle = self._handle(file)
        if handle is None:
            handle = self._made(file)
        done = os.pwrite(handle, data, offset)
        while done < length:
            done += os.pwrite(handle, memoryview(data)[done:], offset + done)
        return length

    def truncate(self, file: int, size: int) -> None:
        """Make the object exactly so long; one that is not there is empty already."""
        handle = self._handle(file)
        if handle is None and size:
            handle = self._made(file)
        if handle is not None:
            os.ftruncate(handle, size)

    def size(self, file: int) -> tuple[int, int, int]:
        """Bytes, when they last changed in nanoseconds since 1970, and the bytes of disk that they take: less where
        there are holes. Zeros where there is no object."""
        handle = self._handle(file)
        if handle is None:
            return 0, 0, 0
        status = os.fstat(handle)
        return status.st_size, status.st_mtime_ns, status.st_blocks * 512

    def forget(self, file: int) -> None:
        """Remove the object, if it is there, and take nothing for it any more."""
        self._gone[file] = None
        if len(self._gone) > _MOST_GONE:
            self._gone.popitem(last=False)
        handle = self._open.pop(file, None)
        if handle is not None:
            os.close(handle)
        with suppress(FileNotFoundError), Parent(self._root, _place(file)) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def to_sync(self, file: int) -> list[int]:
        """Descriptors of the caller's own, to be fsynced by `synced`, in any thread."""
        handle = self._handle(file)
        if handle is None:
            return []
        found = [os.dup(handle)]
        folder = _place(file)[:2]
        if folder in self._unsynced:
            # Taken out now: a name that comes while the thread is at work asks for another sync.
            self._unsynced.discard(folder)
            found += (open_folder(self._root, each) for each in (folder, b"."))
        return found

    def sync_failed(self, file: int) -> None:
        """The folder's name is not on the disk yet."""
        self._unsynced.add(_place(file)[:2])

    def files(self) -> Iterator[int]:
        """The ids of all objects that are there."""
        yield from (int(path.name, 16) for path in self._folder.glob("*/*"))

    def close(self) -> None:
        for handle in self._open.values():
            os.close(handle)
        self._open.clear()
        os.close(self._root)

    def _handle(self, file: int) -> int | None:
        handle = self._open.get(file)
        if handle is not None:
            self._open.move_to_end(file)
            return handle
        if file in self._gone:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        try:
            return self._kept(file, open_file(self._root, _place(file), os.O_RDWR))
        except FileNotFoundError:
            return None

    def _made(self, file: int) -> int:
        place = _place(file)
        try:
            handle = open_file(self._root, place, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            os.mkdir(place[:2], dir_fd=self._root)
            handle = open_file(self._root, place, os.O_RDWR | os.O_CREAT)
        self._unsynced.add(place[:2])
        return self._kept(file, handle)

    def _kept(self, file: int, handle: int) -> int:
        self._open[file] = handle
        if len(self._open) > self._most_open:
            os.close(self._open.popitem(last=False)[1])
        return handle


def synced(descriptors: list[int]) -> None:
    """Bring to the disk what the descriptors stand for, and close them all; raises the first OSError."""
    failed = None
    for descriptor in descriptors:
        try:
            os.fsync(descriptor)
        except OSError as error:
            failed = failed or error
        finally:
            os.close(descriptor)
    if failed is not None:
        raise failed


def _place(file: int) -> bytes:
    name = f"{file:016x}".encode()
    return name[:2] + b"/" + name
