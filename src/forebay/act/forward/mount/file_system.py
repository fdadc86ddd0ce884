"""What a file system must do that can be mounted, and the values that it exchanges with the kernel's side."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from forebay.act.forward.net.payloads import Space


class User(NamedTuple):
    """Who has made a system call: the user, the group and the process."""

    uid: int
    gid: int
    pid: int


class Attributes(NamedTuple):
    """What the kernel knows of a file; `node` is its inode number. Times in ns since 1970, sizes in bytes."""

    node: int
    mode: int
    size: int
    allocated: int
    atime: int
    mtime: int
    ctime: int
    links: int
    uid: int
    gid: int
    device: int

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)


class NameAbsent(FileNotFoundError):
    """No such name."""

    def __init__(self) -> None:
        super().__init__(errno.ENOENT, os.strerror(errno.ENOENT))


class Change(NamedTuple):
    """Attributes to change; None keeps one. `now` means the time of the server; `clear` removes set-id bits."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    size: int | None = None
    atime: int | None = None
    mtime: int | None = None
    atime_now: bool = False
    mtime_now: bool = False
    clear: bool = False
    handle: int | None = None


class FileLock(NamedTuple):
    """An advisory lock on the bytes from `begin` to `end`, both included, as data/lock_table.py has them."""

    flock: bool
    owner: int
    kind: int
    begin: int
    end: int
    process: int


class FileSystem(Protocol):
    """A file system that can be mounted. Nodes are inode numbers, of which 1 is the root. Errors are OSErrors."""

    @property
    def shares_locks(self) -> bool:
        """Whether locks are to be asked of it; otherwise, the kernel keeps them for this mount alone."""

    def lookup(self, user: User, folder: int, name: bytes) -> Attributes: ...
    def forget(self, node: int, lookups: int) -> None: ...
    def getattr(self, user: User, node: int) -> Attributes: ...
    def setattr(self, user: User, node: int, change: Change) -> Attributes: ...
    def readlink(self, user: User, node: int) -> bytes: ...
    def symlink(self, user: User, folder: int, name: bytes, target: bytes) -> Attributes: ...
    def mknod(self, user: User, folder: int, name: bytes, mode: int, device: int) -> Attributes: ...
    def mkdir(self, user: User, folder: int, name: bytes, mode: int) -> Attributes: ...
    def unlink(self, user: User, folder: int, name: bytes) -> None: ...
    def rmdir(self, user: User, folder: int, name: bytes) -> None: ...
    def rename(self, user: User, folder: int, name: bytes, into: int, new: bytes, flags: int) -> None: ...
    def link(self, user: User, node: int, folder: int, name: bytes) -> Attributes: ...
    def open(self, user: User, node: int, flags: int) -> int: ...
    def create(self, user: User, folder: int, name: bytes, flags: int, mode: int) -> tuple[Attributes, int]: ...
    def read(self, handle: int, room: memoryview, offset: int) -> int: ...
    def write(self, node: int, handle: int, data: memoryview, offset: int, clear: bool) -> int: ...
    def append(self, node: int, handle: int, data: memoryview, clear: bool) -> int: ...
    def allocate(self, handle: int, offset: int, length: int, mode: int) -> None: ...
    def sync(self, handle: int) -> None: ...
    def flush(self, handle: int, owner: int) -> None:
        """A descriptor of an open file is closed: release the POSIX locks of its process."""

    def release(self, handle: int, flock_owner: int | None) -> None:
        """No descriptor of an open file is left; release its `flock`, if it has an owner."""

    def find_lock(self, handle: int, wanted: FileLock) -> FileLock | None:
        """A lock of somebody else that is in the way."""

    def set_lock(self, handle: int, wanted: FileLock) -> bool:
        """Get or release a lock; return False if another one is in the way."""

    def wait_for_lock(self, handle: int, wanted: FileLock, number: int, done: Callable[[int], None]) -> None:
        """Get a lock later, in another thread, and call `done` with 0 or an errno."""

    def interrupt(self, number: int) -> bool:
        """End the wait for a lock that has this number; return whether there is one."""
        ...

    def readdir(self, user: User, node: int) -> Sequence[tuple[bytes, int, int]]: ...
    def sync_folder(self, node: int) -> None: ...
    def getxattr(self, user: User, node: int, name: bytes) -> bytes: ...
    def setxattr(self, user: User, node: int, name: bytes, value: bytes, flags: int) -> None: ...
    def listxattr(self, user: User, node: int) -> Sequence[bytes]: ...
    def removexattr(self, user: User, node: int, name: bytes) -> None: ...
    def statfs(self) -> Space: ...
