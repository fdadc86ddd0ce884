"""The only module that imports mfusepy: a file system's operations as a mount point that any program can use.

If both are installed, mfusepy prefers libfuse 2, which cuts every request into pieces of 128 KiB; so the library is
chosen here, before mfusepy is imported.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forebay.model.errors import UserError

_LIBRARIES = ("libfuse3.so.3", "libfuse3.so.4", "libfuse3.so")
_NOW, _OMIT = (1 << 30) - 1, (1 << 30) - 2  # UTIME_NOW and UTIME_OMIT in place of nanoseconds
_LEFT = (1 << 32) - 1  # -1 as a uid_t
_SERVED = 8
"""What libfuse's main function returns when a signal ends a mount."""
_WRITABLE, _READABLE = 0x200, 0x100  # PyBUF_WRITE and PyBUF_READ

_kept = threading.local()

Times = tuple[int | None, int | None]
"""Times of the last access and the last change in ns since 1970; None leaves one."""


class CantMount(UserError):
    """FUSE is not available, or the mount point cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountOptions:
    """How to mount. The kernel may remember names and attributes for `cache` seconds."""

    foreground: bool = True
    threads: int = 8
    cache: float = 0.0
    everybody: bool = False
    name: str = "forebay"


def mount(operations: object, folder: Path, options: MountOptions) -> None:
    """Serve until the folder is unmounted; SIGTERM, SIGINT and SIGHUP unmount it.

    `operations` has mfusepy's methods, except that `read` and `write` get the kernel's buffer, and methods for an open
    file get its handle (a number above 0) last, and None as the path. Errors are OSErrors with the errno for the
    program. Without `foreground`, the caller's process ends as soon as the folder is mounted.
    """
    fuse = _load_mfusepy()
    check_mount_point(folder)
    arguments = {
        "foreground": options.foreground,
        "fsname": options.name,
        "subtype": "forebay",
        "direct_io": True,  # whole requests, and no bytes in the kernel's cache that other nodes change
        "max_threads": options.threads,
        "max_idle_threads": options.threads,
        "attr_timeout": options.cache,
        "entry_timeout": options.cache,
        "negative_timeout": 0,
        "allow_other": options.everybody,
        "default_permissions": True,
    }
    try:
        _zero_copy_class(fuse)(operations, str(folder), **arguments)
    except RuntimeError as error:  # libfuse has printed why
        if error.args == (_SERVED,):
            return
        raise CantMount(f"{folder}: libfuse could not mount it (code {error}); see its message above") from None


def _load_mfusepy() -> Any:
    """mfusepy with libfuse 3."""
    for name in filter(None, (os.environ.get("FUSE_LIBRARY_PATH"), *_LIBRARIES)):
        with suppress(OSError):
            ctypes.CDLL(name)
            os.environ["FUSE_LIBRARY_PATH"] = name
            break
    else:
        raise CantMount("libfuse 3 is not installed (Debian: apt-get install fuse3)")
    try:
        import mfusepy
    except ImportError:
        raise CantMount("mounting needs mfusepy: pip install 'forebay[mount]'") from None
    if mfusepy.fuse_version_major != 3:
        raise CantMount(f"{name} is libfuse {mfusepy.fuse_version_major}; set FUSE_LIBRARY_PATH to libfuse 3")
    return mfusepy


def calling_user() -> tuple[int, int]:
    """User and group of the program that called the current operation."""
    import mfusepy  # `mount` has loaded it

    uid, gid, _ = mfusepy.fuse_get_context()
    return uid, gid


def check_mount_point(folder: Path) -> None:
    """Raise unless something can be mounted there; the error says what to do."""
    try:
        if not folder.is_dir():
            raise CantMount(f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}")
    except OSError as error:
        if error.errno not in (errno.ENOTCONN, errno.ECONNABORTED):
            raise CantMount(f"{folder}: {os.strerror(error.errno or 0).lower()}") from None
        reason = "the process that mounted this folder is gone; unmount it first: fusermount3 -u"
        raise CantMount(f"{folder}: {reason} {folder}") from None
    if folder.is_mount():
        raise CantMount(f"{folder}: something is already mounted there")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise CantMount("/dev/fuse is missing or not accessible; mounting needs the kernel's FUSE module")


def _zero_copy_class(fuse: Any) -> Any:
    """mfusepy's class, but it passes the kernel's buffers on instead of copies."""
    view = ctypes.pythonapi.PyMemoryView_FromMemory
    view.argtypes, view.restype = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int), ctypes.py_object

    class ZeroCopy(fuse.FUSE):  # type: ignore[misc]
        """Also passes what mfusepy leaves out: the handle, and times to leave alone."""

        def _wrapper(self, func: Any, *args: Any, **kwargs: Any) -> Any:
            # Keep Python's state of a thread of libfuse. Python would create it for every call and delete it
            # afterwards, which takes as long as the call itself.
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
            if flags:  # RENAME_NOREPLACE, RENAME_EXCHANGE: programs then use something else
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
            """Call an operation with the handle (None without one) last."""
            *values, fip = arguments
            text = None if path is None else path.decode(self.encoding, self.errors)
            return getattr(self.operations, name)(text, *values, int(fip.contents.fh) if fip else None)

    return ZeroCopy


def _nanoseconds(at: Any, now: int) -> int | None:
    if at.tv_nsec == _OMIT:
        return None
    return now if at.tv_nsec == _NOW else int(at.tv_sec) * 10**9 + int(at.tv_nsec)
