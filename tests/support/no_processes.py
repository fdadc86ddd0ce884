"""`--no-processes` skips every test that would start a process: what is left is quick, and runs while one works."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import pytest

_STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system"})
_REASON = "starts a process"
_testing = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-processes", action="store_true", help="skip every test that starts a process")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--no-processes"):
        sys.addaudithook(_skip_at_start)
        multiprocessing.get_context = partial(_get_context, multiprocessing.get_context)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    global _testing
    if item.config.getoption("--no-processes") and item.get_closest_marker("processes"):
        item.add_marker(pytest.mark.skip(reason=_REASON))
    _testing = True
    try:
        return (yield)
    finally:
        _testing = False


def _skip_at_start(event: str, _values: tuple[Any, ...]) -> None:
    if _testing and event in _STARTS:
        pytest.skip(_REASON)


def _get_context(usual: Callable[..., Any], method: str | None = None) -> Any:
    """The processes of a crew are started by threads, where a skip would be lost."""
    return pytest.skip(_REASON) if _testing else usual(method)
