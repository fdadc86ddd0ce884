"""Work that must not hold up a job: in a process of its own, which is left behind if need be.

A file system that hangs holds a process inside the kernel, where no signal reaches it; nobody may wait for that one.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

_GRACE = 1.0
"""Seconds to put things back in order after the end of the time."""


def within(seconds: float, work: Callable[[], None], *, grace: float = _GRACE) -> str:
    """Do the work; what became of it in words, nothing if it was done in time.

    After `seconds` it is interrupted as by Ctrl-C, so that what was half done is undone, then ended.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    child = os.fork()
    if child == 0:
        _work(work)
    watch = os.pidfd_open(child)
    try:
        if _ended(watch, seconds):
            return _words(os.waitpid(child, 0)[1])
        for number, patience in ((signal.SIGINT, grace), (signal.SIGKILL, 0.2)):
            with suppress(ProcessLookupError):
                os.kill(child, number)
            if _ended(watch, patience):
                os.waitpid(child, 0)
                break
        return f"not done within {seconds:g} s; ended"
    finally:
        os.close(watch)


def _work(work: Callable[[], None]) -> None:
    """In the child, which never comes back."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where we come from
        work()
        code = 0
    except KeyboardInterrupt:
        code = 1
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _ended(watch: int, seconds: float) -> bool:
    return bool(select.select([watch], [], [], seconds)[0])


def _words(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return "" if code == 0 else f"ended with {code}" if code > 0 else f"ended by signal {-code}"
