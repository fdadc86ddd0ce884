"""The only module that imports uvloop: one process, one loop, a graceful end at the first signal."""

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvloop


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop that the caller runs, for example in a thread."""
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def run(main: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `main` until it returns. SIGTERM and SIGINT set the event that it receives, and it should then return."""

    async def until_signalled() -> None:
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end.set)
        gc.freeze()  # what exists now stays: the collector need not look at it again while requests flow
        await main(end)

    with suppress(KeyboardInterrupt):
        uvloop.run(until_signalled())
