"""The layer as a mounted file system: what each call of an unmodified program becomes.

Nothing is cached here: a write is with the data servers when it returns, and a read asks them. There are no symbolic or
hard links and no device files; unless everybody may use the mount, all files belong to whoever mounts. The time of the
last access is that of the last change. Appending happens at the end that the kernel knows: processes of one mount take
turns, those of several mounts must agree among themselves, as with NFS. A file can be mapped into memory for reading
(MAP_PRIVATE), not shared.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterable

from forebay.act.filesystems.forebay_mount import LAYOUT, format_layout, parse_layout
from forebay.act.forward.clients.operations import Handle
from forebay.act.forward.clients.sync import Client, File
from forebay.act.forward.fuse import Times

_BLOCK = 4096
_BEST = 1 << 20
"""The recommended size of requests: the most that the kernel passes on in one piece."""


class Mount:
    """Files of one client; `ready` is called once programs can use them. See `fuse.mount`."""

    use_ns = True  # these are for mfusepy: times in ns, and no paths if there is a handle
    flag_nopath = True
    flag_nullpath_ok = True

    def __init__(
        self, client: Client, ready: Callable[[], None], caller: Callable[[], tuple[int, int]] | None = None
    ) -> None:
        """`caller` returns the user and group of the calling program, if everybody may use the mount."""
        self._client, self._ready, self._caller = client, ready, caller
        self.unlink, self.rmdir, self.rename = client.unlink, client.rmdir, client.rename
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
        return self._add(self._client.open(path, flags | os.O_CREAT, stat.S_IMODE(mode), owner=self._new_owner()))

    def open(self, path: str, flags: int) -> int:
        return self._add(self._client.open(path, flags & ~(os.O_CREAT | os.O_EXCL)))

    def read(self, handle: int, room: memoryview, offset: int) -> int:
        return self._files[handle].preadinto(room, offset)

    def write(self, handle: int, data: memoryview, offset: int) -> int:
        return self._files[handle].pwrite(data, offset)

    def fsync(self, path: str | None, datasync: int, handle: int) -> None:  # noqa: ARG002
        self._files[handle].fsync()

    def release(self, path: str | None, handle: int) -> None:  # noqa: ARG002
        self._files.pop(handle).close()

    # Names

    def opendir(self, path: str) -> int:
        number = next(self._numbers)
        self._folders[number] = path
        return number

    def releasedir(self, path: str | None, handle: int) -> None:  # noqa: ARG002
        del self._folders[handle]

    def readdir(self, path: str | None, handle: int) -> Iterable[tuple[str, int, int]]:  # noqa: ARG002
        """Name, type as in a mode, and 0, of each entry."""
        yield from ((name, stat.S_IFDIR, 0) for name in (".", ".."))
        for entry in self._client.readdir(self._folders[handle]):
            yield entry.name, stat.S_IFDIR if entry.is_folder else stat.S_IFREG, 0

    def truncate(self, path: str | None, length: int, handle: int | None) -> None:
        if path is None:
            self._file(handle).truncate(length)
        else:
            self._client.truncate(path, length)

    def mkdir(self, path: str, mode: int) -> None:
        self._client.mkdir(path, stat.S_IMODE(mode), owner=self._new_owner())

    def chmod(self, path: str | None, mode: int, handle: int | None) -> None:
        self._client.chmod(self._where(path, handle), stat.S_IMODE(mode))

    def chown(self, path: str | None, uid: int, gid: int, handle: int | None) -> None:
        """-1 leaves the user or the group; the kernel has checked that the caller may do it."""
        if self._caller is not None:
            user, group = (None if number == -1 else number for number in (uid, gid))
            self._client.chown(self._where(path, handle), user, group)
        elif uid not in (-1, self._owner["st_uid"]) or gid not in (-1, self._owner["st_gid"]):
            raise OSError(errno.EPERM, "all files belong to whoever mounts")

    def utimens(self, path: str | None, times: Times, handle: int | None) -> None:
        if times[1] is not None:
            self._client.utime(self._where(path, handle), times[1])

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

    # The layout is an extended attribute. It is not listed, so that programs which copy attributes leave it alone.

    def getxattr(self, path: str, name: str) -> bytes:
        if name != LAYOUT:
            raise OSError(errno.ENODATA, "no such attribute")
        return format_layout(self._client.layout(path)).encode()

    def setxattr(self, path: str, name: str, value: bytes, options: int) -> None:  # noqa: ARG002
        if name != LAYOUT:
            raise OSError(errno.EOPNOTSUPP, f"only {LAYOUT} can be set")
        try:
            layout = parse_layout(value.decode("utf-8", "replace"))
        except ValueError as error:
            raise OSError(errno.EINVAL, str(error)) from None
        self._client.set_layout(path, layout)

    def listxattr(self, path: str) -> Iterable[str]:  # noqa: ARG002
        return ()

    def removexattr(self, path: str, name: str) -> None:  # noqa: ARG002
        raise OSError(errno.EPERM if name == LAYOUT else errno.ENODATA, "the attribute cannot be removed")

    def _new_owner(self) -> tuple[int, int]:
        return self._caller() if self._caller else (self._owner["st_uid"], self._owner["st_gid"])

    def _add(self, file: File) -> int:
        number = next(self._numbers)
        self._files[number] = file
        return number

    def _file(self, handle: int | None) -> File:
        try:
            return self._files[handle or 0]
        except KeyError:
            raise OSError(errno.EBADF, "not open") from None

    def _where(self, path: str | None, handle: int | None) -> str | Handle:
        return self._file(handle).handle if path is None else path

    def getattr(self, path: str | None, handle: int | None) -> dict[str, int]:
        status = self._client.stat(self._where(path, handle))
        owner = self._owner.copy()
        if self._caller is not None:
            known = {"st_uid": status.uid, "st_gid": status.gid}
            owner |= {name: number for name, number in known.items() if number is not None}
        return owner | {
            "st_mode": status.mode,
            "st_mtime": status.mtime,
            "st_ctime": status.ctime,
            "st_atime": status.mtime,
            "st_size": status.size,
            "st_blocks": -(-status.allocated // 512),
            "st_blksize": _BEST,
            "st_nlink": 2 if status.is_folder else 1,
        }
