"""Waiting for something to happen to a grant, a node, or at all, without looking again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

ANY = "any"
"""Rung whenever anything happens."""


class ChangeSignals:
    """ChangeSignals by name. Who waits for one is not disturbed by the others."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._closed = False

    def notify(self, names: Iterable[str]) -> None:
        for name in names:
            for waiter in self._waiting.pop(name, ()):
                if not waiter.done():
                    waiter.set_result(None)

    async def wait(self, name: str, seconds: float) -> bool:
        """Whether the bell rang within so many seconds."""
        if self._closed or seconds <= 0:
            return False
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, set()).add(waiter)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await waiter
            return waiter.done() and not waiter.cancelled() and not self._closed
        finally:
            self._leave(name, waiter)

    def _leave(self, name: str, waiter: asyncio.Future[None]) -> None:
        others = self._waiting.get(name)
        if others is not None:
            others.discard(waiter)
            if not others:
                del self._waiting[name]

    def close(self) -> None:
        """Nobody waits any more, now or later."""
        self._closed = True
        self.notify(list(self._waiting))

    @property
    def is_closed(self) -> bool:
        return self._closed
