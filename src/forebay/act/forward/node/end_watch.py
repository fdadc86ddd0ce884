"""Notices when a process on this machine ends."""

import os
from asyncio import AbstractEventLoop, Task
from collections.abc import Callable, Coroutine
from typing import Any


class EndWatch:
    """Starts `work` when the process ends; raises OSError if it cannot be watched."""

    def __init__(self, loop: AbstractEventLoop, process: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._loop, self._work = loop, work
        self._descriptor = os.pidfd_open(process)
        self._task: Task[None] | None = None
        loop.add_reader(self._descriptor, self._start)

    def close(self) -> None:
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        self.close()
        self._task = self._loop.create_task(self._work())
