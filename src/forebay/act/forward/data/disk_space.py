"""The free space of a server's disk, and the part of it that is kept for names.

Names take space even while they are removed: a change is first written to a log. So data and new names get no space
once only the reserve is left. One half of the reserve is free. The other half is a file (`spare`), so that nobody else
who writes to the disk can take it either; it becomes shorter when a change finds no other space.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from forebay.act.forward.data.extents import allocated_bytes
from forebay.act.forward.net.payloads import Space, space_of

_SPARE = "spare"
_SHARE = 64
"""Each half of the reserve is this part of the disk, or the nearest size within these limits."""
_LEAST, _MOST_FREE, _MOST_SPARE = 512 << 10, 8 << 20, 2 << 20
_STEP = 64 << 10
_MOST_CREDIT = 1 << 20
"""Bytes that may be written before the free space is measured again."""
_CREDIT_SHARE = 16
"""Servers that may share a disk, so that each of them takes only this part of it before it measures again."""

T = TypeVar("T")


def check_room(handle: int, offset: int, length: int) -> None:
    """Raise ENOSPC if these bytes of an open object would take the reserve; for others than its server."""
    status = os.fstatvfs(handle)
    part, available = _share_of(status), status.f_bavail * status.f_frsize
    if not part or available - length >= _margin(part):
        return
    missing = length - allocated_bytes(handle, offset, length)
    if missing and available - missing < _margin(part):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _share_of(status: os.statvfs_result) -> int:
    return status.f_blocks * status.f_frsize // _SHARE


def _margin(part: int) -> int:
    return min(max(part, _LEAST), _MOST_FREE)


class DiskSpace:
    """The space on the disk of `folder`. Errors are OSErrors."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / _SPARE
        part = _share_of(os.statvfs(folder))
        self._unlimited = not part
        self.margin = _margin(part)
        """The half of the reserve that is free."""
        self._whole = min(max(part, _LEAST), _MOST_SPARE)
        self._spare = self._measure_spare()
        self._credit = 0

    def claim(self, length: int) -> None:
        """Raise ENOSPC if the disk has no room for so many bytes of data or new names."""
        if length and not self.has_room(length):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def has_room(self, length: int) -> bool:
        """Whether the disk has room for so many bytes of data or new names, which then count as written."""
        self._credit -= length
        if self._credit >= 0:
            return True
        room = self.measure_room()
        self._credit = max(min((room - length) // _CREDIT_SHARE, _MOST_CREDIT), 0)
        return length <= room

    def measure_room(self) -> int:
        """Bytes that the disk has besides the reserve, which comes first."""
        if self._unlimited:
            return 1 << 62
        self.keep_spare()
        return max(self._available() - self.margin - (self._whole - self._spare), 0)

    def measure_import_room(self) -> int:
        """Bytes of names that this server can take over; some of the reserve is left even if this happens often."""
        return max(self.measure_room(), self._spare // 2)

    def measure(self) -> Space:
        """The space as `df` shows it: the reserve is not available."""
        space = space_of(os.statvfs(self._folder))
        if not self._unlimited:
            space.available = min(space.available, self.measure_room())
        return space

    def is_low(self) -> bool:
        """Whether changes of names take from the reserve."""
        return not self._unlimited and self._available() < self.margin

    def is_exhausted(self) -> bool:
        """Whether there is next to no space."""
        return not self._unlimited and self._available() < _STEP

    def keep_spare(self) -> None:
        """Make the spare file complete again, as far as there is space."""
        if self._spare >= self._whole or self._unlimited:
            return
        more = min(self._whole - self._spare, self._available() - self.margin // 2) // _STEP * _STEP
        if more > 0:
            with suppress(OSError):
                handle = self._open_spare(os.O_CREAT)
                try:
                    os.posix_fallocate(handle, self._spare, more)
                finally:
                    os.close(handle)
            self._spare = self._measure_spare()

    def release(self) -> bool:
        """Make some of the spare space free; return whether there was any."""
        if not self._spare:
            return False
        left = max(self._spare - max(_STEP, self._spare // 4), 0)
        try:
            handle = self._open_spare()
            try:
                os.ftruncate(handle, left)
            finally:
                os.close(handle)
        except OSError:
            return False
        self._spare, self._credit = left, 0
        return True

    def release_if_low(self) -> None:
        """Make all of the spare space free if a server could not start without it."""
        while self.is_low() and self.release():
            pass

    def free(self, change: Callable[[], T]) -> T:
        """Make a change that must not fail on a full disk, if need be with the spare space."""
        while True:
            try:
                return change()
            except OSError as error:
                if error.errno != errno.ENOSPC or not self.release():
                    raise

    def _available(self) -> int:
        status = os.statvfs(self._folder)
        return status.f_bavail * status.f_frsize

    def _open_spare(self, flags: int = 0) -> int:
        return os.open(self._path, flags | os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)

    def _measure_spare(self) -> int:
        """The bytes in the file; nothing else with this name counts."""
        with suppress(OSError):
            handle = self._open_spare()
            try:
                return os.fstat(handle).st_size
            finally:
                os.close(handle)
        return 0
