"""Runs a whole layer on one machine: starts its processes, restarts those that die, and ends them together."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from time import monotonic

from forebay.act.command import Child
from forebay.act.forward.daemon import background
from forebay.act.forward.layer_settings import LayerFile, Part
from forebay.act.forward.net.key import write_key
from forebay.model.errors import BadInput, UserError, why

_SOONEST, _LATEST = 0.2, 5.0
_SETTLED = 10.0
"""Seconds after which a process counts as healthy, so that its next restart comes without a long pause."""
_GRACE = 15.0
_START = 120.0

Say = Callable[[str], None]


class CantStart(UserError):
    """A process of the layer did not become ready; its own message is above."""


class PartProcess:
    """Keeps the process of one part running."""

    def __init__(self, part: Part, say: Say) -> None:
        self.part, self._say = part, say
        self.child: Child | None = None
        self.ready = asyncio.Event()

    async def keep_running(self) -> None:
        """Start the process whenever it ends. Raises CantStart if it ends before it was ever ready."""
        pause = _SOONEST
        while True:
            began = monotonic()
            self.child = Child((sys.executable, "-m", "forebay", "forward", *self.part.arguments))
            code = await self._wait_for_end(self.child)
            if not self.ready.is_set():
                raise CantStart(f"{self.part.name}: ended before it was ready (exit {code}); see its message above")
            pause = _SOONEST if monotonic() - began > _SETTLED else min(2 * pause, _LATEST)
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
        """Run until `end` is set; call `ready` once every process is ready."""
        prepare(self.file)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, self._stop)
            for number, process in enumerate(self.parts, 1):
                await stack.enter_async_context(background(process.keep_running(), end))
                if process.part not in self.file.servers[:-1]:  # servers don't wait for each other
                    await self._wait_until_ready(number, end)
                if end.is_set():
                    break
            if not end.is_set():
                ready()
            await end.wait()

    async def _wait_until_ready(self, count: int, end: asyncio.Event) -> None:
        """Wait until the first `count` processes are ready, or the layer ends."""
        ready = asyncio.ensure_future(_wait_for_all(process.ready for process in self.parts[:count]))
        ending = asyncio.ensure_future(end.wait())
        try:
            done, _ = await asyncio.wait((ready, ending), timeout=_START, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            ending.cancel()
        if not done:
            late = next(process.part.name for process in self.parts if not process.ready.is_set())
            raise CantStart(f"{late}: not ready within {_START:g} s; see its messages above")

    def _stop(self) -> None:
        """Stop all processes, those that no other process needs first."""
        for process in reversed(self.parts):
            if process.child is not None:
                process.child.stop(_GRACE)


async def _wait_for_all(events: Iterable[asyncio.Event]) -> None:
    for event in events:
        await event.wait()


def prepare(file: LayerFile) -> None:
    """Create the folder and the key, unless they exist."""
    try:
        file.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(str(file.folder), f"cannot create the folder: {why(error)}") from None
    if not file.key.exists():
        write_key(file.key)
