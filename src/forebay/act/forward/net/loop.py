"""Runs a process on one event loop and ends it gracefully at the first signal. Only this module imports uvloop."""

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvloop


def new_loop() -> asyncio.AbstractEventLoop:
    """Create a loop for the caller to run, for example in a thread."""
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def run(main: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `main` until it returns. It should return when SIGTERM or SIGINT sets its event."""

    async def until_signalled() -> None:
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end.set)
        gc.freeze()  # existing objects stay, so the collector need not scan them again
        await main(end)

    with suppress(KeyboardInterrupt):
        uvloop.run(until_signalled())
