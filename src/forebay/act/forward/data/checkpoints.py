"""Moves the write-ahead log of the names into their database while requests go on."""

import asyncio
from collections.abc import Callable

from forebay.act.forward.data.name_requests import Names

_PAUSE = 1.0
"""Seconds between the end of a checkpoint and the next one."""
_LOOK = 0.02
"""Seconds between looks at the length of the log."""


class Checkpoints:
    """Begins a checkpoint when the log is long. It has two halves, both in a thread.

    Requests go on during the first one, which moves most of the log. They wait during the second one, which moves what
    they have added, and empties the log: SQLite begins a log anew only when all of it has been moved.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._loop = asyncio.get_running_loop()
        self._held: list[Callable[[], None]] | None = None
        self._task: asyncio.Task[None] | None = None
        self._next = 0.0

    def hold(self, retry: Callable[[], None]) -> bool:
        """Whether a request must wait now; then `retry` is called once it need not."""
        if self._held is None:
            return False
        self._held.append(retry)
        return True

    def begin_if_due(self) -> None:
        if self._task is not None or self._loop.time() < self._next:
            return
        if self._names.needs_checkpoint():
            self._task = self._loop.create_task(self._run())
        else:
            self._next = self._loop.time() + _LOOK

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            await self._loop.run_in_executor(None, self._names.checkpoint)
            self._held = []
            await self._loop.run_in_executor(None, self._names.empty_log)
        finally:
            held, self._held = self._held or [], None
            self._task, self._next = None, self._loop.time() + _PAUSE
            for retry in held:
                retry()
