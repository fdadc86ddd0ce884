"""No test holds up the others: each has a limit, and what tests start has the system's default signals."""

from __future__ import annotations

import faulthandler
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

LIMIT = 270.0
"""Seconds that a test may take, with the fixtures that are set up for it."""
END = 300.0
"""Seconds after which its fixtures must be torn down too. pyproject.toml has the same number for faulthandler, which
ends a process that does not even notice a signal; under xdist another one takes its place."""
_AGAIN = 30.0
"""Seconds after which a test that ignored its end, or hangs while it tidies up, is ended again."""
_deadline = pytest.StashKey[float]()


def pytest_configure() -> None:
    reset_signals()


def pytest_unconfigure() -> None:
    """A thread that hangs does not keep the process from ending."""
    faulthandler.dump_traceback_later(END, exit=True, file=sys.__stderr__ or 2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[_deadline] = time.monotonic() + LIMIT
    with _limited(item, LIMIT):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _limited(item, item.stash[_deadline] - time.monotonic()):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    with _limited(item, item.stash[_deadline] + END - LIMIT - time.monotonic()):
        return (yield)


@contextmanager
def _limited(item: pytest.Item, seconds: float) -> Iterator[None]:
    def fail(_number: int, _frame: FrameType | None) -> None:
        faulthandler.dump_traceback(2)
        pytest.fail(f"{item.nodeid} took longer than {LIMIT:g} s")

    if item.config.getoption("usepdb"):  # somebody looks at it
        yield
        return
    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, max(1.0, seconds), _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def reset_signals() -> None:
    """No child inherits that a signal is ignored or blocked, as in a background job, under nohup or from cron.

    This process itself goes on ignoring them, except for an interrupt.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - _PYTHONS_OWN:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, _HANDLERS.get(number, _ignore))


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """A handler is not inherited, unlike SIG_IGN."""


_PYTHONS_OWN = {signal.SIGPIPE, signal.SIGXFSZ}
"""Which Python ignores, and subprocess resets."""
_HANDLERS: dict[int, Callable[[int, FrameType | None], Any] | signal.Handlers] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGCHLD: signal.SIG_DFL,
}
