"""System calls that Python's library does not have, or has only in part. Errors are OSErrors."""

import ctypes
import errno
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from forebay.act.forward.net.payloads import Caller

KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
_ALLOCATIONS = (0, KEEP_SIZE, PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE, ZERO_RANGE | KEEP_SIZE)
_NOREPLACE, _EXCHANGE = 1, 2
_SETGROUPS = {"x86_64": 116, "aarch64": 159, "riscv64": 159, "ppc64le": 81, "s390x": 206}
"""Number of the system call setgroups. The function of the C library changes all threads of the process."""


def check_allocation(mode: int) -> None:
    """Raise EOPNOTSUPP for a mode of fallocate(2) that would move bytes of the file."""
    if mode not in _ALLOCATIONS:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def allocate(handle: int, mode: int, offset: int, length: int) -> None:
    """Allocate these bytes of an open file, as fallocate(2)."""
    check_allocation(mode)
    _call("fallocate64", ctypes.c_int(handle), ctypes.c_int(mode), ctypes.c_int64(offset), ctypes.c_int64(length))


def rename(folder: int, name: bytes, into: int, new: bytes, *, exchange: bool, keep: bool) -> None:
    """Rename a file, as renameat2(2); `keep` does not replace an existing one."""
    flags = (_EXCHANGE if exchange else 0) | (_NOREPLACE if keep else 0)
    if flags:
        _call("renameat2", ctypes.c_int(folder), name, ctypes.c_int(into), new, ctypes.c_uint(flags))
    else:
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=into)


@contextmanager
def acting_as(caller: Caller | None) -> Iterator[None]:
    """Let this thread reach files as this user, if the process runs as root. Other threads do not change."""
    if caller is None or not caller.uid or os.geteuid():
        yield
        return
    library = _library()
    try:
        _set_groups(caller.groups)
        library.setfsgid(ctypes.c_uint(caller.gid))
        library.setfsuid(ctypes.c_uint(caller.uid))
        yield
    finally:
        library.setfsuid(ctypes.c_uint(0))
        library.setfsgid(ctypes.c_uint(os.getegid()))
        _set_groups(tuple(os.getgroups()))


@contextmanager
def acting_as_itself() -> Iterator[None]:
    """Let this thread reach files with the rights of the process again, within `acting_as`."""
    library = _library()
    before = library.setfsuid(ctypes.c_uint(os.geteuid()))
    try:
        yield
    finally:
        library.setfsuid(ctypes.c_uint(before))


def _set_groups(groups: tuple[int, ...]) -> None:
    number = _SETGROUPS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"cannot act for other users on {platform.machine()}")
    array = (ctypes.c_uint * len(groups))(*groups)
    _call("syscall", ctypes.c_long(number), ctypes.c_size_t(len(groups)), array)


def _call(name: str, *arguments: Any) -> None:
    function: Callable[..., int] = getattr(_library(), name)
    if function(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
