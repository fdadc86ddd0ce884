"""A data server's share of each file: one object, which is a regular file in the server's folder.

The first write creates an object. `objects/ab/ab54…` holds bytes of the file with the id 0xab54….
"""

import errno
import os
import time
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from pathlib import Path

from forebay.act.forward.data.block_groups import spread_folders
from forebay.act.forward.data.disk_space import DiskSpace
from forebay.act.forward.data.extents import allocated_bytes
from forebay.act.forward.data.system_calls import PUNCH_HOLE, allocate
from forebay.act.forward.data.untrusted_tree import Tree, read_at, spread_place, write_at
from forebay.act.forward.net.payloads import AllocateRequest, ObjectSize
from forebay.act.forward.net.wire import LAST_OFFSET, OBJECT_STATUS, Bytes

FOLDER = "objects"
MOST_OPEN = 512
_NEVER_READ = 0
"""The access time of a new object."""
_LONGEST = 1 << 20
"""The most bytes that come with a status."""
_MUCH, _MANY = 1 << 30, 1 << 16
"""From how many free bytes and files on mounts may create files in advance."""
_MOST_GONE = 1 << 16
"""Removed files to remember, so that a late write does not create them again."""


def create_object(tree: Tree, file: int, *, only_new: bool = False) -> int:
    """Open an object to read and write, which may not exist yet; if `only_new`, raises FileExistsError if it does."""
    place, flags = spread_place(file), os.O_RDWR | os.O_CREAT | (os.O_EXCL if only_new else 0)
    try:
        handle = tree.open_file(place, flags)
    except FileNotFoundError:
        with suppress(FileExistsError):
            tree.mkdir(place[:2])
        handle = tree.open_file(place, flags)
    os.utime(handle, ns=(_NEVER_READ, time.time_ns()))  # the next read counts, as with relatime
    return handle


class Objects:
    """The objects in `folder`; the `most_open` used last stay open. Data needs room in `space`. Errors are OSErrors."""

    def __init__(self, folder: Path, most_open: int = MOST_OPEN, space: DiskSpace | None = None) -> None:
        folder.mkdir(exist_ok=True)
        self._tree = Tree(folder, may_be_link=False)
        spread_folders(self._tree.base)
        self._space = space or DiskSpace(folder)
        self._open: OrderedDict[int, int] = OrderedDict()
        self._most_open = most_open
        self._gone: OrderedDict[int, None] = OrderedDict()
        self._unsynced: set[bytes] = set()  # folders with new names

    def read(self, file: int, offset: int, room: memoryview) -> int:
        """Fill the room from `offset`; return the number of bytes, which is smaller only at the end of the object."""
        handle = self._handle(file)
        return 0 if handle is None else read_at(handle, room, offset)

    def write(self, file: int, offset: int, data: Bytes) -> int:
        """Write all of it. If this raises, some of it may be written."""
        if offset + len(data) > LAST_OFFSET:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        if not self._space.has_room(len(data)):
            self._claim(self._handle(file), offset, len(data))
        write_at(self._handle_to_write(file), data, offset)
        return len(data)

    def put(self, file: int, data: Bytes, changed: int) -> ObjectSize:
        """Create an object with all of its bytes, as of a time in ns since 1970; return its status.

        Raises FileExistsError if it exists; whether it did once does not matter.
        """
        self._gone.pop(file, None)
        handle = create_object(self._tree, file, only_new=True)
        try:
            self._unsynced.add(spread_place(file)[:2])
            write_at(handle, data, 0)
            os.utime(handle, ns=(_NEVER_READ, changed))
            status = os.fstat(handle)
            return ObjectSize(size=status.st_size, mtime=status.st_mtime_ns, allocated=status.st_blocks * 512)
        finally:
            os.close(handle)

    def has_room(self) -> bool:
        """Whether there is much more space than what all mounts together may write in advance."""
        space = os.statvfs(self._tree.base)
        return space.f_bavail * space.f_frsize >= _MUCH and (not space.f_files or space.f_favail >= _MANY)

    def truncate(self, file: int, size: int) -> None:
        """Make the object exactly `size` bytes long; a missing object is already empty."""
        handle = self._handle(file)
        if handle is None and size:
            handle = self._space.free(partial(self._create, file))
        if handle is not None:
            self._space.free(partial(os.ftruncate, handle, size))

    def size(self, file: int, content: int = 0, counts: bool = True) -> ObjectSize:
        """The status of the object, and its bytes if there are at most `content`; these count as read, or not."""
        handle = self._handle(file)
        if handle is None:
            return ObjectSize(size=0, mtime=0, allocated=0, content=b"" if content else None)
        status = os.fstat(handle)
        return ObjectSize(
            size=status.st_size,
            mtime=status.st_mtime_ns,
            atime=status.st_atime_ns if status.st_atime_ns > _NEVER_READ else 0,
            allocated=status.st_blocks * 512,
            content=self._read_all(file, handle, counts) if content and status.st_size <= content else None,
        )

    def touch(self, file: int) -> None:
        """Count the object as read now, if it exists; the file system decides whether its access time changes."""
        handle = self._handle(file)
        if handle is not None:
            os.pread(handle, 1, 0)

    def _read_all(self, file: int, handle: int, counts: bool) -> bytes | None:
        """All bytes; None if they cannot be read, which a request to read them reports."""
        try:
            if counts:
                return os.pread(handle, _LONGEST, 0)
            apart = self._tree.open_file(spread_place(file), os.O_RDONLY | os.O_NOATIME)
            with os.fdopen(apart, "rb", buffering=0) as opened:
                return opened.read(_LONGEST)
        except OSError:
            return None

    def pack_status(self, file: int) -> bytes:
        """The status of an object that exists, as the answer to a write has it."""
        handle = self._handle(file)
        assert handle is not None
        status = os.fstat(handle)
        return OBJECT_STATUS.pack(status.st_size, status.st_mtime_ns, status.st_blocks * 512)

    def allocate(self, file: int, request: AllocateRequest) -> None:
        """Allocate a range of the object, or make a hole in it, as `mode` says."""
        handle, makes_hole = self._handle(file), request.mode & PUNCH_HOLE
        if not makes_hole and not self._space.has_room(request.length):
            self._claim(handle, request.offset, request.length)
        if handle is None:
            if makes_hole:
                return
            handle = self._create(file)
        work = partial(allocate, handle, request.mode, request.offset, request.length)
        if makes_hole:
            self._space.free(work)
        else:
            work()

    def forget(self, file: int) -> None:
        """Remove the object, if it exists, and refuse requests for it from now on."""
        self._gone[file] = None
        if len(self._gone) > _MOST_GONE:
            self._gone.popitem(last=False)
        handle = self._open.pop(file, None)
        if handle is not None:
            os.close(handle)
        self._tree.remove(spread_place(file))

    def descriptors_to_sync(self, file: int) -> list[int]:
        """Open new descriptors, which the caller passes to `sync_all` in any thread."""
        handle = self._handle(file)
        if handle is None:
            return []
        descriptors = [os.dup(handle)]
        folder = spread_place(file)[:2]
        if folder in self._unsynced:
            # Remove it now: a name that is added while the thread works needs another sync.
            self._unsynced.discard(folder)
            descriptors += (self._tree.open_folder(each) for each in (folder, b"."))
        return descriptors

    def sync_failed(self, file: int) -> None:
        """Remember that the object's name is not on disk yet."""
        self._unsynced.add(spread_place(file)[:2])

    def close(self) -> None:
        for handle in self._open.values():
            os.close(handle)
        self._open.clear()
        self._tree.close()

    def _claim(self, handle: int | None, offset: int, length: int) -> None:
        """Raise ENOSPC if the disk has no room for what this range of an object does not have yet."""
        self._space.claim(length - (0 if handle is None else allocated_bytes(handle, offset, length)))

    def _handle(self, file: int) -> int | None:
        handle = self._open.get(file)
        if handle is not None:
            self._open.move_to_end(file)
            return handle
        self._check_not_removed(file)
        try:
            return self._keep_open(file, self._tree.open_file(spread_place(file), os.O_RDWR))
        except FileNotFoundError:
            return None

    def _handle_to_write(self, file: int) -> int:
        """Open the object, or create it. Of those that are not open, programs write to new ones most often."""
        if file in self._open:
            self._open.move_to_end(file)
            return self._open[file]
        self._check_not_removed(file)
        try:
            return self._create(file, only_new=True)
        except FileExistsError:
            handle = self._handle(file)
            return self._create(file) if handle is None else handle

    def _check_not_removed(self, file: int) -> None:
        """Raise ESTALE if the file has been removed."""
        if file in self._gone:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    def _create(self, file: int, *, only_new: bool = False) -> int:
        handle = create_object(self._tree, file, only_new=only_new)
        self._unsynced.add(spread_place(file)[:2])
        return self._keep_open(file, handle)

    def _keep_open(self, file: int, handle: int) -> int:
        self._open[file] = handle
        if len(self._open) > self._most_open:
            os.close(self._open.popitem(last=False)[1])
        return handle
