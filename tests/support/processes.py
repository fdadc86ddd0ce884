"""Processes that a test starts: they end with it, and nobody waits for them without a limit."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from time import monotonic, sleep
from typing import IO, Any, TypeVar

PATIENCE = 120.0
"""Seconds after which something will not happen any more; no test waits for them where all is well."""
Value = TypeVar("Value")


@contextmanager
def started(argv: Any, **how: Any) -> Iterator[subprocess.Popen[Any]]:
    """Runs meanwhile, and is killed at the end if it still runs."""
    process = subprocess.Popen(argv, **how)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()


def piped(stream: IO[Any] | None) -> IO[Any]:
    """A stream of a process that was started with a pipe for it."""
    assert stream is not None
    return stream


def limited(wait: Callable[[], Value]) -> Value:
    """What it returns, within `PATIENCE`: for what takes no limit of its own, such as `process.stdout.readline`."""
    results: list[Value] = []
    thread = Thread(target=lambda: results.append(wait()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert results, f"{wait}: nothing within {PATIENCE:g} s"
    return results[0]


def wait_until(ready: Callable[[], Value | None], otherwise: str) -> Value:
    """What it returns, once that is true. Looks often at first, and then less and less: to look may cost a process."""
    start = monotonic()
    while not (value := ready()):
        waited = monotonic() - start
        assert waited < PATIENCE, otherwise
        sleep(min(0.2, 0.005 + waited / 10))
    return value
