"""A whole layer on one machine: starts its processes, restarts those that die, and ends all of them together."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from time import monotonic
from typing import Any

from forebay.act.command import Child
from forebay.act.forward.layer_file import LayerFile, Part
from forebay.act.forward.net.key import write_key
from forebay.model.errors import BadInput, UserError, why

_SOONEST, _LATEST = 0.2, 5.0
_SETTLED = 10.0
"""Seconds after which a process that runs is healthy, and its end a new incident."""
_GRACE = 15.0
_START = 120.0

Say = Callable[[str], None]


class CantStart(UserError):
    """A process of the layer did not become ready; its own message is above."""


class PartProcess:
    """The process of one part, for the life of the layer."""

    def __init__(self, part: Part, say: Say) -> None:
        self.part, self._say = part, say
        self.child: Child | None = None
        self.restarts = 0
        self.ready = asyncio.Event()

    async def keep_running(self) -> None:
        """Start it, again and again. Raises CantStart if it ends before it was ever ready."""
        pause = _SOONEST
        while True:
            began = monotonic()
            self.child = Child((sys.executable, "-m", "forebay", "forward", *self.part.arguments))
            code = await self._wait_for_end(self.child)
            if not self.ready.is_set():
                raise CantStart(f"{self.part.name}: ended before it was ready (exit {code}); see its message above")
            pause = _SOONEST if monotonic() - began > _SETTLED else min(2 * pause, _LATEST)
            self.restarts += 1
            end = f"signal {-code}" if code < 0 else f"exit {code}"
            self._say(f"{self.part.name} ended ({end}); restarting it in {pause:g} s")
            await asyncio.sleep(pause)

    async def _wait_for_end(self, child: Child) -> int:
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def readable() -> None:
            output = os.read(child.out, 4096)
            if b"ready" in output:
                self.ready.set()
            if not output:
                loop.remove_reader(child.out)
                ended.set_result(None)

        loop.add_reader(child.out, readable)
        try:
            await ended
        finally:
            loop.remove_reader(child.out)
        while (code := child.code) is None:
            await asyncio.sleep(0.01)
        return code


class Layer:
    """All processes of a layer."""

    def __init__(self, file: LayerFile, say: Say) -> None:
        self.file = file
        self.parts = [PartProcess(part, say) for part in file.parts]

    async def run(self, end: asyncio.Event, ready: Callable[[], None]) -> None:
        """Until `end` is set; call `ready` once every process is."""
        prepare(self.file)
        loop = asyncio.get_running_loop()
        ending = asyncio.ensure_future(end.wait())
        running: list[asyncio.Task[None]] = []
        try:
            for process in self.parts:
                running.append(loop.create_task(process.keep_running()))
                if process.part not in self.file.servers:  # servers don't wait for each other
                    await self._wait_until_ready(running, ending)
            await self._wait_until_ready(running, ending)
            if not end.is_set():
                ready()
            await _wait_for_first(running, ending)
        finally:
            ending.cancel()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await loop.run_in_executor(None, self._stop)

    async def _wait_until_ready(self, running: list[asyncio.Task[None]], ending: asyncio.Future[Any]) -> None:
        """Wait until all started processes are ready."""
        waiting = [asyncio.ensure_future(process.ready.wait()) for process in self.parts[: len(running)]]
        every = asyncio.gather(*waiting)
        try:
            async with asyncio.timeout(_START):
                await _wait_for_first(running, ending, every)
        except TimeoutError:
            late = next(process.part.name for process in self.parts if not process.ready.is_set())
            raise CantStart(f"{late}: not ready within {_START:g} s") from None
        finally:
            every.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def _stop(self) -> None:
        """First those that no other process needs."""
        for process in reversed(self.parts):
            if process.child is not None:
                process.child.stop(_GRACE)


async def _wait_for_first(running: list[asyncio.Task[None]], *others: asyncio.Future[Any]) -> None:
    done, _ = await asyncio.wait((*running, *others), return_when=asyncio.FIRST_COMPLETED)
    for task in running:
        if task in done:
            task.result()


def prepare(file: LayerFile) -> None:
    """Create the folder and the key, unless they exist."""
    try:
        file.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(str(file.folder), f"cannot create the folder: {why(error)}") from None
    if not file.key.exists():
        write_key(file.key)
