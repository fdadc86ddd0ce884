"""The door to libfuse 3: a file system's operations as a mount point that any program can use.

mfusepy would take libfuse 2 where both are installed, which chops every request into pieces of 128 KiB; so the
library is chosen here, before mfusepy is imported.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
import time
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from forebay.model.errors import UserError

_LIBRARIES = ("libfuse3.so.3", "libfuse3.so.4", "libfuse3.so")
_NOW, _OMIT = (1 << 30) - 1, (1 << 30) - 2  # UTIME_NOW and UTIME_OMIT in place of nanoseconds
_LEFT = (1 << 32) - 1  # -1 as a uid_t
_SERVED = 8
"""What libfuse's main function returns once it was mounted and is ended by a signal."""
_WRITABLE, _READABLE = 0x200, 0x100  # PyBUF_WRITE and PyBUF_READ

_kept = threading.local()

Times = tuple[int | None, int | None]
"""Nanoseconds since 1970 of the last access and the last change; None leaves it."""


class CantMount(UserError):
    """There is no FUSE here, or the mount point can't be used."""


class Operations(Protocol):
    """What a mounted file system can do. Every error is an OSError with the errno that the program is to see.

    An open file is a number above 0. `path` is None where `handle` is given.
    """

    @abstractmethod
    def getattr(self, path: str | None, handle: int | None) -> dict[str, Any]: ...
    @abstractmethod
    def opendir(self, path: str) -> int: ...
    @abstractmethod
    def releasedir(self, path: str | None, handle: int) -> int: ...
    @abstractmethod
    def readdir(self, path: str | None, handle: int) -> Iterable[tuple[str, int, int]]:
        """Name, type as in a mode, and 0, of each."""

    @abstractmethod
    def create(self, path: str, mode: int, flags: int) -> int: ...
    @abstractmethod
    def open(self, path: str, flags: int) -> int: ...
    @abstractmethod
    def read(self, handle: int, room: memoryview, offset: int) -> int:
        """Fill the room; how many bytes there were: fewer only at the file's end."""

    @abstractmethod
    def write(self, handle: int, data: memoryview, offset: int) -> int: ...
    @abstractmethod
    def release(self, path: str | None, handle: int) -> int: ...
    @abstractmethod
    def fsync(self, path: str | None, datasync: int, handle: int) -> int: ...
    @abstractmethod
    def truncate(self, path: str | None, length: int, handle: int | None) -> int: ...
    @abstractmethod
    def unlink(self, path: str) -> int: ...
    @abstractmethod
    def mkdir(self, path: str, mode: int) -> int: ...
    @abstractmethod
    def rmdir(self, path: str) -> int: ...
    @abstractmethod
    def rename(self, old: str, new: str) -> int: ...
    @abstractmethod
    def chmod(self, path: str | None, mode: int, handle: int | None) -> int: ...
    @abstractmethod
    def chown(self, path: str | None, uid: int, gid: int, handle: int | None) -> int:
        """-1 leaves the user or the group."""

    @abstractmethod
    def utimens(self, path: str | None, times: Times, handle: int | None) -> int: ...
    @abstractmethod
    def statfs(self, path: str) -> dict[str, int]: ...
    @abstractmethod
    def getxattr(self, path: str, name: str) -> bytes: ...
    @abstractmethod
    def setxattr(self, path: str, name: str, value: bytes, options: int) -> int: ...
    @abstractmethod
    def listxattr(self, path: str) -> Iterable[str]: ...
    @abstractmethod
    def removexattr(self, path: str, name: str) -> int: ...
    @abstractmethod
    def init(self, path: str) -> None:
        """The mount point answers from now on; in the process that stays."""

    @abstractmethod
    def destroy(self, path: str) -> None:
        """It does not any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How to mount. For `cache` seconds the kernel may answer by itself what a name and its attributes are."""

    foreground: bool = True
    threads: int = 8
    cache: float = 0.0
    everybody: bool = False
    name: str = "forebay"


def mount(operations: Operations, folder: Path, manner: Manner) -> None:
    """Serve until the folder is unmounted, or SIGTERM, SIGINT or SIGHUP come, which unmount it.

    Without `foreground` the caller's process ends well as soon as the folder is mounted, and one of its own goes on.
    """
    fuse = _library()
    check(folder)
    options = {
        "foreground": manner.foreground,
        "fsname": manner.name,
        "subtype": "forebay",
        "direct_io": True,  # requests come as the program made them, and nothing is kept that another node changed
        "max_threads": manner.threads,
        "max_idle_threads": manner.threads,
        "attr_timeout": manner.cache,
        "entry_timeout": manner.cache,
        "negative_timeout": 0,
        "allow_other": manner.everybody,
        "default_permissions": True,
    }
    try:
        _whole(fuse)(operations, str(folder), **options)
    except RuntimeError as error:  # libfuse has said why on stderr
        if error.args == (_SERVED,):
            return
        raise CantMount(f"{folder}: libfuse could not mount or serve it (code {error})") from None


def _library() -> Any:
    """mfusepy over libfuse 3."""
    for name in (os.environ.get("FUSE_LIBRARY_PATH", ""), *_LIBRARIES):
        if name and _loads(name):
            os.environ["FUSE_LIBRARY_PATH"] = name
            break
    else:
        raise CantMount("libfuse 3 is not installed (Debian: apt-get install fuse3)")
    try:
        import mfusepy
    except ImportError:
        raise CantMount("mounting needs mfusepy: pip install 'forebay[mount]'") from None
    if mfusepy.fuse_version_major != 3:
        raise CantMount(f"{name} is libfuse {mfusepy.fuse_version_major}; FUSE_LIBRARY_PATH has to name libfuse 3")
    return mfusepy


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def caller() -> tuple[int, int]:
    """User and group of the program whose call is being served; within an operation."""
    import mfusepy  # which `mount` has loaded

    uid, gid, _ = mfusepy.fuse_get_context()
    return uid, gid


def check(folder: Path) -> None:
    """Whether something can be mounted there; the error says why not, and what to do."""
    try:
        if not folder.is_dir():
            raise CantMount(f"{folder}: {'is not a folder' if folder.exists() else 'there is no such folder'}")
    except OSError as error:
        if error.errno not in (errno.ENOTCONN, errno.ECONNABORTED):
            raise CantMount(f"{folder}: {os.strerror(error.errno or 0).lower()}") from None
        words = "is the mount point of a process that is gone; unmount it first: fusermount3 -u"
        raise CantMount(f"{folder}: {words} {folder}") from None
    if folder.is_mount():
        raise CantMount(f"{folder}: something is mounted there already")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise CantMount("/dev/fuse is not there or may not be used; the kernel's FUSE is needed to mount")


def _whole(fuse: Any) -> Any:
    """mfusepy's class, with the buffers of the kernel handed on as they are instead of copied into bytes."""
    view = ctypes.pythonapi.PyMemoryView_FromMemory
    view.argtypes, view.restype = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int), ctypes.py_object

    class Whole(fuse.FUSE):  # type: ignore[misc]
        """Also hands on what mfusepy leaves out: the handle, and times that are to be left alone."""

        def _wrapper(self, func: Any, *args: Any, **kwargs: Any) -> Any:
            _keep_thread()
            return super()._wrapper(func, *args, **kwargs)

        def read(self, _path: bytes | None, buf: Any, size: int, offset: int, fip: Any) -> int:
            room = view(ctypes.cast(buf, ctypes.c_void_p), size, _WRITABLE)
            return int(self.operations.read(fip.contents.fh, room, offset))

        def write(self, _path: bytes | None, buf: Any, size: int, offset: int, fip: Any) -> int:
            data = view(ctypes.cast(buf, ctypes.c_void_p), size, _READABLE)
            return int(self.operations.write(fip.contents.fh, data, offset))

        def rename_fuse_3(self, old: bytes, new: bytes, flags: int) -> int:
            if flags:  # RENAME_NOREPLACE, RENAME_EXCHANGE: programs fall back to something else
                return -errno.EINVAL
            return int(super().rename_fuse_3(old, new, flags))

        def truncate_fuse_3(self, path: bytes | None, length: int, fip: Any) -> int:
            return int(self.operations.truncate(self._text(path), length, _handle(fip)))

        def chmod_fuse_3(self, path: bytes | None, mode: int, fip: Any) -> int:
            return int(self.operations.chmod(self._text(path), mode, _handle(fip)))

        def chown_fuse_3(self, path: bytes | None, uid: int, gid: int, fip: Any) -> int:
            user, group = (-1 if number == _LEFT else number for number in (uid, gid))
            return int(self.operations.chown(self._text(path), user, group, _handle(fip)))

        def utimens_fuse_3(self, path: bytes | None, buf: Any, fip: Any) -> int:
            return int(self.operations.utimens(self._text(path), _times(buf), _handle(fip)))

        def _text(self, path: bytes | None) -> str | None:
            return None if path is None else path.decode(self.encoding, self.errors)

    return Whole


def _keep_thread() -> None:
    """The threads are libfuse's. Python would set up what it needs of a thread anew for every call from it, and throw
    it away afterwards, which takes as long as the call itself; so the first call of each leaves one hold on it."""
    if not hasattr(_kept, "held"):
        _kept.held = True
        ctypes.pythonapi.PyGILState_Ensure()


def _handle(fip: Any) -> int | None:
    return int(fip.contents.fh) if fip else None


def _times(buf: Any) -> Times:
    if not buf:
        return _time(0, _NOW), _time(0, _NOW)
    both = buf.contents
    return _time(both.actime.tv_sec, both.actime.tv_nsec), _time(both.modtime.tv_sec, both.modtime.tv_nsec)


def _time(seconds: int, nanoseconds: int) -> int | None:
    if nanoseconds == _OMIT:
        return None
    if nanoseconds == _NOW:
        return time.time_ns()
    return int(seconds) * 10**9 + int(nanoseconds)
