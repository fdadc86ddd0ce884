"""The layer as a mounted file system for unmodified programs.

Nothing is cached here: when a write returns, the data servers have the bytes, and a read asks the servers. Symbolic
links, hard links and device files do not exist. Unless everybody may use the mount, all files belong to the user who
mounts. The access time is that of the last change. Appends go to the end of the file that the kernel knows: processes
of one mount take turns; processes of several mounts must coordinate, as with NFS. A file can be mapped into memory for
reading (MAP_PRIVATE), but not shared.

Only this module imports mfusepy. If both versions of libfuse are installed, mfusepy prefers libfuse 2, which cuts
requests into pieces of 128 KiB. So this module chooses the library before it imports mfusepy.
"""

import ctypes
import errno
import itertools
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from forebay.act.filesystems.forebay_mount import LAYOUT, format_layout, parse_layout
from forebay.act.forward.clients.operations import Handle
from forebay.act.forward.clients.sync import Client, File
from forebay.model.errors import UserError

_BLOCK = 4096
_BEST = 1 << 20
"""The recommended request size: the most bytes that the kernel passes on at once."""
_LIBRARIES = ("libfuse3.so.3", "libfuse3.so.4", "libfuse3.so")
_NOW, _OMIT = (1 << 30) - 1, (1 << 30) - 2  # UTIME_NOW and UTIME_OMIT in place of nanoseconds
_LEFT = (1 << 32) - 1  # -1 as a uid_t
_SERVED = 8
"""The return value of libfuse's main function when a signal ends a mount."""
_WRITABLE, _READABLE = 0x200, 0x100  # PyBUF_WRITE and PyBUF_READ

_kept = threading.local()

Times = tuple[int | None, int | None]
"""Times of the last access and the last change in ns since 1970; None leaves a time unchanged."""


class CantMount(UserError):
    """FUSE is not available, or the mount point cannot be used."""


class Mount:
    """The operations of a mount, through one client; it calls `ready` once programs can use the mount."""

    use_ns = True  # settings of mfusepy: times in ns, and no path if there is a handle
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
        """Yield each entry as its name, its type as in a mode, and 0."""
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
        """Change the owner; -1 keeps the user or the group. The kernel has checked the caller's permission."""
        if self._caller is not None:
            user, group = (None if number == -1 else number for number in (uid, gid))
            self._client.chown(self._where(path, handle), user, group)
        elif uid not in (-1, self._owner["st_uid"]) or gid not in (-1, self._owner["st_gid"]):
            raise OSError(errno.EPERM, "all files belong to the user who mounts; see --everybody")

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

    # The layout is an extended attribute. It is not listed, so that programs do not copy it with other attributes.

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
            raise OSError(errno.EBADF, "the file is not open") from None

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


def mount(
    operations: object,
    folder: Path,
    *,
    foreground: bool = True,
    threads: int = 8,
    cache: float = 0.0,
    everybody: bool = False,
) -> None:
    """Serve until the folder is unmounted; SIGTERM, SIGINT and SIGHUP unmount it.

    `operations` has mfusepy's methods, except that `read` and `write` get the kernel's buffer. Methods for an open file
    get its handle (a number above 0) as the last argument, and None as the path. Errors are OSErrors with the errno for
    the program. Without `foreground`, the caller's process ends as soon as the folder is mounted. The kernel may cache
    names and attributes for `cache` seconds.
    """
    fuse = _load_mfusepy()
    check_mount_point(folder)
    arguments = {
        "foreground": foreground,
        "fsname": "forebay",
        "subtype": "forebay",
        "direct_io": True,  # whole requests; the kernel must not cache bytes that other nodes can change
        "max_threads": threads,
        "max_idle_threads": threads,
        "attr_timeout": cache,
        "entry_timeout": cache,
        "negative_timeout": 0,
        "allow_other": everybody,
        "default_permissions": True,
    }
    try:
        _zero_copy_class(fuse)(operations, str(folder), **arguments)
    except RuntimeError as error:  # libfuse has printed why
        if error.args == (_SERVED,):
            return
        raise CantMount(f"{folder}: libfuse cannot mount it (code {error}); see its message above") from None


def _load_mfusepy() -> Any:
    """Import mfusepy with libfuse 3."""
    for name in filter(None, (os.environ.get("FUSE_LIBRARY_PATH"), *_LIBRARIES)):
        with suppress(OSError):
            ctypes.CDLL(name)
            os.environ["FUSE_LIBRARY_PATH"] = name
            break
    else:
        raise CantMount("libfuse 3 is not installed; on Debian, run: apt-get install fuse3")
    try:
        import mfusepy
    except ImportError:
        raise CantMount("mounting needs mfusepy; install it with: pip install 'forebay[mount]'") from None
    if mfusepy.fuse_version_major != 3:
        raise CantMount(f"{name} is libfuse {mfusepy.fuse_version_major}; set FUSE_LIBRARY_PATH to libfuse 3")
    return mfusepy


def calling_user() -> tuple[int, int]:
    """The user and the group of the program that called the current operation."""
    import mfusepy  # `mount` has loaded it

    uid, gid, _ = mfusepy.fuse_get_context()
    return uid, gid


def check_mount_point(folder: Path) -> None:
    """Raise CantMount unless something can be mounted there."""
    try:
        if not folder.is_dir():
            raise CantMount(f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}")
    except OSError as error:
        if error.errno not in (errno.ENOTCONN, errno.ECONNABORTED):
            raise CantMount(f"{folder}: {os.strerror(error.errno or 0).lower()}") from None
        reason = "the process that mounted this folder is gone; unmount it first: fusermount3 -u"
        raise CantMount(f"{folder}: {reason} {folder}") from None
    if folder.is_mount():
        raise CantMount(f"{folder}: something is already mounted there; unmount it or choose another folder")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise CantMount("/dev/fuse is missing or not accessible; load the kernel's FUSE module: modprobe fuse")


def _zero_copy_class(fuse: Any) -> Any:
    """Build a subclass of mfusepy's class that passes on the kernel's buffers instead of copies."""
    view = ctypes.pythonapi.PyMemoryView_FromMemory
    view.argtypes, view.restype = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int), ctypes.py_object

    class ZeroCopy(fuse.FUSE):  # type: ignore[misc]
        """Also passes on what mfusepy omits: the handle, and which times to keep."""

        def _wrapper(self, func: Any, *args: Any, **kwargs: Any) -> Any:
            # Keep Python's state of each libfuse thread. Otherwise Python creates and deletes it for every call,
            # which takes as long as the call itself.
            if not hasattr(_kept, "held"):
                _kept.held = True
                ctypes.pythonapi.PyGILState_Ensure()
            return super()._wrapper(func, *args, **kwargs)

        def read(self, _path: bytes | None, buf: Any, size: int, offset: int, fip: Any) -> int:
            room = view(ctypes.cast(buf, ctypes.c_void_p), size, _WRITABLE)
            return int(self.operations.read(fip.contents.fh, room, offset))

        def write(self, _path: bytes | None, buf: Any, size: int, offset: int, fip: Any) -> int:
            data = view(ctypes.cast(buf, ctypes.c_void_p), size, _READABLE)
            return int(self.operations.write(fip.contents.fh, data, offset))

        def rename_fuse_3(self, old: bytes, new: bytes, flags: int) -> Any:
            if flags:  # RENAME_NOREPLACE, RENAME_EXCHANGE: programs have a fallback
                return -errno.EINVAL
            return super().rename_fuse_3(old, new, flags)

        def truncate_fuse_3(self, path: bytes | None, length: int, fip: Any) -> Any:
            return self._call("truncate", path, length, fip)

        def chmod_fuse_3(self, path: bytes | None, mode: int, fip: Any) -> Any:
            return self._call("chmod", path, mode, fip)

        def chown_fuse_3(self, path: bytes | None, uid: int, gid: int, fip: Any) -> Any:
            return self._call("chown", path, *(-1 if number == _LEFT else number for number in (uid, gid)), fip)

        def utimens_fuse_3(self, path: bytes | None, buf: Any, fip: Any) -> Any:
            now = time.time_ns()
            times = (buf.contents.actime, buf.contents.modtime) if buf else ()
            return self._call("utimens", path, tuple(_nanoseconds(each, now) for each in times) or (now, now), fip)

        def _call(self, name: str, path: bytes | None, *arguments: Any) -> Any:
            """Call an operation with the handle, or None, as the last argument."""
            *values, fip = arguments
            text = None if path is None else path.decode(self.encoding, self.errors)
            return getattr(self.operations, name)(text, *values, int(fip.contents.fh) if fip else None)

    return ZeroCopy


def _nanoseconds(at: Any, now: int) -> int | None:
    if at.tv_nsec == _OMIT:
        return None
    return now if at.tv_nsec == _NOW else int(at.tv_sec) * 10**9 + int(at.tv_nsec)
