"""The layer as a mounted file system: what each call of an unmodified program becomes.

Nothing is kept here: a write is with the data servers when it returns, and a read asks them. Symbolic and hard links,
and device files are not there, and unless everybody may use it, no owner but the one who mounts; the time of the last
access is that of the last change. Appending is done at the end that the kernel knows of: processes of one mount take
turns, those of several mounts have to agree among themselves, as with NFS. A file can be mapped into memory for reading
(MAP_PRIVATE), not shared.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterable
from typing import Any

from forebay.act.filesystems.forebay_mount import LAYOUT, format_layout, parse_layout
from forebay.act.forward.clients.operations import Stat
from forebay.act.forward.clients.sync import Client, File
from forebay.act.forward.fuse import Operations, Times

_BLOCK = 4096
_BEST = 1 << 20
"""Bytes that programs are told to ask for at once: the most that the kernel passes on whole."""


class Mount(Operations):
    """Files of one client; `ready` is called once programs can use them."""

    use_ns = True  # these three are for mfusepy: times in ns, and no paths where there is a handle
    flag_nopath = True
    flag_nullpath_ok = True

    def __init__(
        self, client: Client, ready: Callable[[], None], caller: Callable[[], tuple[int, int]] | None = None
    ) -> None:
        """`caller` tells the user and group of the program that calls, where everybody may use the mount; without it
        all files belong to who mounts."""
        self._client, self._ready, self._caller = client, ready, caller
        self._numbers = itertools.count(1)
        self._files: dict[int, File] = {}
        self._folders: dict[int, str] = {}
        self._owner = {"st_uid": os.getuid(), "st_gid": os.getgid()}

    def init(self, path: str) -> None:  # noqa: ARG002
        self._ready()

    def destroy(self, path: str) -> None:  # noqa: ARG002
        self._client.close()

    # Open files

    def create(self, path: str, mode: int, flags: int) -> int:
        file = self._client.open(path, flags | os.O_CREAT, stat.S_IMODE(mode), owner=self._new_owner())
        return self._opened(file)

    def open(self, path: str, flags: int) -> int:
        return self._opened(self._client.open(path, flags & ~(os.O_CREAT | os.O_EXCL)))

    def read(self, handle: int, room: memoryview, offset: int) -> int:
        return self._files[handle].preadinto(room, offset)

    def write(self, handle: int, data: memoryview, offset: int) -> int:
        return self._files[handle].pwrite(data, offset)

    def fsync(self, path: str | None, datasync: int, handle: int) -> int:  # noqa: ARG002
        self._files[handle].fsync()
        return 0

    def release(self, path: str | None, handle: int) -> int:  # noqa: ARG002
        self._files.pop(handle).close()
        return 0

    # Names

    def getattr(self, path: str | None, handle: int | None) -> dict[str, Any]:
        return self._attributes(self._client.stat(path) if path is not None else self._file(handle).stat())

    def opendir(self, path: str) -> int:
        number = next(self._numbers)
        self._folders[number] = path
        return number

    def releasedir(self, path: str | None, handle: int) -> int:  # noqa: ARG002
        del self._folders[handle]
        return 0

    def readdir(self, path: str | None, handle: int) -> Iterable[tuple[str, int, int]]:  # noqa: ARG002
        yield from ((name, stat.S_IFDIR, 0) for name in (".", ".."))
        for entry in self._client.readdir(self._folders[handle]):
            yield entry.name, stat.S_IFDIR if entry.is_folder else stat.S_IFREG, 0

    def truncate(self, path: str | None, length: int, handle: int | None) -> int:
        if path is None:
            self._file(handle).truncate(length)
        else:
            self._client.truncate(path, length)
        return 0

    def unlink(self, path: str) -> int:
        self._client.unlink(path)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        self._client.mkdir(path, stat.S_IMODE(mode), owner=self._new_owner())
        return 0

    def rmdir(self, path: str) -> int:
        self._client.rmdir(path)
        return 0

    def rename(self, old: str, new: str) -> int:
        self._client.rename(old, new)
        return 0

    def chmod(self, path: str | None, mode: int, handle: int | None) -> int:
        if path is None:
            self._file(handle).chmod(stat.S_IMODE(mode))
        else:
            self._client.chmod(path, stat.S_IMODE(mode))
        return 0

    def chown(self, path: str | None, uid: int, gid: int, handle: int | None) -> int:
        if self._caller is None:
            if uid not in (-1, self._owner["st_uid"]) or gid not in (-1, self._owner["st_gid"]):
                raise OSError(errno.EPERM, "all files belong to who mounts")
            return 0
        wanted = None if uid == -1 else uid, None if gid == -1 else gid  # the kernel has checked who may do that
        if path is None:
            self._file(handle).chown(*wanted)
        else:
            self._client.chown(path, *wanted)
        return 0

    def utimens(self, path: str | None, times: Times, handle: int | None) -> int:
        changed = times[1]
        if changed is None:
            return 0
        if path is None:
            self._file(handle).utime(changed)
        else:
            self._client.utime(path, changed)
        return 0

    def statfs(self, path: str) -> dict[str, int]:  # noqa: ARG002
        space = self._client.statfs()
        return {
            "f_bsize": _BEST,
            "f_frsize": _BLOCK,
            "f_blocks": space.total // _BLOCK,
            "f_bfree": space.free // _BLOCK,
            "f_bavail": space.available // _BLOCK,
            "f_files": space.files,
            "f_ffree": space.free_files,
            "f_favail": space.free_files,
            "f_namemax": 255,
        }

    # The layout, which is an extended attribute. It is not listed, so that programs which copy attributes leave it.

    def getxattr(self, path: str, name: str) -> bytes:
        if name != LAYOUT:
            raise OSError(errno.ENODATA, "no such attribute")
        return format_layout(self._client.layout(path)).encode()

    def setxattr(self, path: str, name: str, value: bytes, options: int) -> int:  # noqa: ARG002
        if name != LAYOUT:
            raise OSError(errno.EOPNOTSUPP, f"only {LAYOUT} can be set")
        try:
            layout = parse_layout(value.decode("utf-8", "replace"))
        except ValueError as error:
            raise OSError(errno.EINVAL, str(error)) from None
        self._client.set_layout(path, layout)
        return 0

    def listxattr(self, path: str) -> Iterable[str]:  # noqa: ARG002
        return ()

    def removexattr(self, path: str, name: str) -> int:  # noqa: ARG002
        raise OSError(errno.EPERM if name == LAYOUT else errno.ENODATA, "can't be removed")

    def _new_owner(self) -> tuple[int, int]:
        return self._caller() if self._caller else (self._owner["st_uid"], self._owner["st_gid"])

    def _owner_of(self, found: Stat) -> dict[str, int]:
        if self._caller is None:
            return self._owner
        own = {"st_uid": found.uid, "st_gid": found.gid}
        return self._owner | {name: number for name, number in own.items() if number is not None}

    def _opened(self, file: File) -> int:
        number = next(self._numbers)
        self._files[number] = file
        return number

    def _file(self, handle: int | None) -> File:
        try:
            return self._files[handle or 0]
        except KeyError:
            raise OSError(errno.EBADF, "not open") from None

    def _attributes(self, found: Stat) -> dict[str, Any]:
        times = {"st_mtime": found.mtime, "st_ctime": found.ctime, "st_atime": found.mtime}
        links = 2 if found.is_folder else 1
        blocks = -(-found.allocated // 512)
        sizes = {"st_size": found.size, "st_blocks": blocks, "st_blksize": _BEST, "st_nlink": links}
        return {"st_mode": found.mode} | self._owner_of(found) | times | sizes
