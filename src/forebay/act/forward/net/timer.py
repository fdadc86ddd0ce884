"""An alarm that is accurate to a few microseconds: a timerfd that the event loop watches.

The timers of event loops count in milliseconds, and a window can be as short as an eighth of one.
"""

import ctypes
import os
import struct
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress

from forebay.model.errors import UserError

NEVER = (1 << 63) - 1
_REALTIME = 0
_ABSOLUTE = 1
_SECOND = 1_000_000_000


_libc = ctypes.CDLL(None, use_errno=True)
_pack_times = struct.Struct("4l").pack  # interval and first time, each in seconds and nanoseconds


class Alarm:
    """Calls `ring` when the clock reaches the time last set with `at`.

    Times are nanoseconds since 1970 on the machine's clock, so that machines with synchronised clocks wake together.
    """

    def __init__(self, loop: AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop, self._ring = loop, ring
        self._fd = _libc.timerfd_create(_REALTIME, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise UserError(f"cannot create a timer: {os.strerror(ctypes.get_errno())}")
        self._set = NEVER
        loop.add_reader(self._fd, self._on_timer)

    def at(self, when: int) -> None:
        """Set the alarm to this time only: it rings at once if that is past, and not at all for NEVER."""
        if when == self._set:
            return
        self._set = when
        # All zeros would switch the timer off, and so would a time before 1970.
        seconds, nanoseconds = divmod(max(when, 1), _SECOND) if when < NEVER else (0, 0)
        _libc.timerfd_settime(self._fd, _ABSOLUTE, _pack_times(0, 0, seconds, nanoseconds), None)

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _on_timer(self) -> None:
        with suppress(BlockingIOError):  # the alarm was set again before this call
            os.read(self._fd, 8)
            self._set = NEVER
            self._ring()
