"""A whole layer on one machine: its processes started, watched, started again when they die, and ended together."""

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
"""Seconds after which a part that runs is taken to be well, and its next end for a new mishap."""
_GRACE = 15.0
_START = 120.0

Say = Callable[[str], None]


class CantStart(UserError):
    """A part did not come up; what it said itself stands above."""


class Running:
    """One part, for as long as the layer is there."""

    def __init__(self, part: Part, say: Say) -> None:
        self.part, self._say = part, say
        self.child: Child | None = None
        self.restarts = 0
        self.ready = asyncio.Event()

    async def keep(self) -> None:
        """Start it, again and again. Raises CantStart if it ends before it was ever ready."""
        pause = _SOONEST
        while True:
            began = monotonic()
            self.child = Child((sys.executable, "-m", "forebay", "forward", *self.part.words))
            await self._until_ended(self.child)
            code = self.child.code
            if not self.ready.is_set():
                raise CantStart(f"{self.part.name} could not be started (exit {code})")
            pause = _SOONEST if monotonic() - began > _SETTLED else min(2 * pause, _LATEST)
            self.restarts += 1
            self._say(f"{self.part.name} ended ({_words(code)}); it is started again in {pause:g} s")
            await asyncio.sleep(pause)

    async def _until_ended(self, child: Child) -> None:
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def readable() -> None:
            said = os.read(child.out, 4096)
            if b"ready" in said:
                self.ready.set()
            if not said:
                loop.remove_reader(child.out)
                ended.set_result(None)

        loop.add_reader(child.out, readable)
        try:
            await ended
        finally:
            loop.remove_reader(child.out)
        while child.code is None:
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        if self.child is not None:
            self.child.stop(_GRACE)


class Layer:
    """All parts of a file."""

    def __init__(self, file: LayerFile, say: Say) -> None:
        self.file = file
        self.parts = [Running(part, say) for part in file.parts]

    async def run(self, end: asyncio.Event, ready: Callable[[], None]) -> None:
        """Until `end` is set; `ready` is told once every part is."""
        prepare(self.file)
        ending = asyncio.ensure_future(end.wait())
        keeping: list[asyncio.Task[None]] = []
        try:
            for running in self.parts:
                keeping.append(asyncio.get_running_loop().create_task(running.keep()))
                if not _is_followed_at_once(running.part):
                    await self._ready(keeping, ending)
            await self._ready(keeping, ending)
            if not end.is_set():
                ready()
            await self._first(keeping, ending)
        finally:
            ending.cancel()
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)
            await asyncio.get_running_loop().run_in_executor(None, self._stop)

    async def _ready(self, keeping: list[asyncio.Task[None]], ending: asyncio.Future[Any]) -> None:
        """Wait until all that were started are ready."""
        waiting = [asyncio.ensure_future(r.ready.wait()) for r in self.parts[: len(keeping)]]
        every = asyncio.gather(*waiting)
        try:
            async with asyncio.timeout(_START):
                await self._first(keeping, ending, every)
        except TimeoutError:
            late = next(r.part.name for r in self.parts if not r.ready.is_set())
            raise CantStart(f"{late} was not ready within {_START:g} s") from None
        finally:
            every.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _first(self, keeping: list[asyncio.Task[None]], *others: asyncio.Future[Any]) -> None:
        done, _ = await asyncio.wait((*keeping, *others), return_when=asyncio.FIRST_COMPLETED)
        for task in keeping:
            if task in done:
                task.result()

    def _stop(self) -> None:
        """Those first that others don't need."""
        for running in reversed(self.parts):
            running.stop()


def _is_followed_at_once(part: Part) -> bool:
    """Servers don't wait for each other."""
    return part.name.startswith("server")


def prepare(file: LayerFile) -> None:
    """The folder and the key, where they are not there yet."""
    try:
        file.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(str(file.folder), f"can't be made: {why(error)}") from None
    if not file.key.exists():
        write_key(file.key)


def _words(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit {code}"
