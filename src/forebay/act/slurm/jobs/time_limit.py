"""Work that must not delay a job: in a process of its own, which is abandoned if it cannot be stopped.

A file system that hangs holds a process inside the kernel, where no signal reaches it, so nothing may wait for it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

_GRACE = 1.0
"""Seconds to undo what was begun after the time is up."""


def run_within(seconds: float, work: Callable[[], None], *, grace: float = _GRACE) -> str:
    """Do the work; return why it failed, or nothing.

    After `seconds` it is interrupted as by Ctrl-C, so that it can undo what it began, then killed.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    child = os.fork()
    if child == 0:
        _run_child(work)
    watch = os.pidfd_open(child)
    try:
        if _has_ended(watch, seconds):
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            return "" if code == 0 else f"ended with {code}" if code > 0 else f"ended by signal {-code}"
        for number, patience in ((signal.SIGINT, grace), (signal.SIGKILL, 0.2)):
            with suppress(ProcessLookupError):
                os.kill(child, number)
            if _has_ended(watch, patience):
                os.waitpid(child, 0)
                break
        return f"not finished within {seconds:g} s; ended"
    finally:
        os.close(watch)


def _has_ended(watch: int, seconds: float) -> bool:
    return bool(select.select([watch], [], [], seconds)[0])


def _run_child(work: Callable[[], None]) -> None:
    """Do the work in the child; never returns."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent may ignore it
        with suppress(KeyboardInterrupt):
            work()
            code = 0
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
