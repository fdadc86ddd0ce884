"""Runs a process of the layer: starts it, reports that it is ready, serves metrics, and ends it at a signal."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from forebay.act.forward.net.address import Address, parse_address
from forebay.act.forward.net.loop import run
from forebay.act.metrics import Endpoint, Sample

Numbers = Callable[[], Iterable[Sample]]
Start = Callable[[AsyncExitStack, asyncio.Event], Awaitable[tuple[Sequence[Address], Numbers]]]
"""Starts a process and returns its addresses and metrics; pushes onto the stack what ends it."""
Ready = Callable[[Sequence[Address], str | None], None]
"""Called once the process listens, with its addresses and that of its metrics."""


def run_daemon(start: Start, metrics: str | None, ready: Ready) -> None:
    """Run until a signal sets the event passed to `start`; serve metrics at the address `metrics`."""
    address = parse_address(metrics, "--metrics") if metrics else None

    async def main(end: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            addresses, numbers = await start(stack, end)
            endpoint = Endpoint(address, numbers) if address is not None else None
            if endpoint is not None:
                stack.callback(endpoint.close)
            ready(addresses, str(endpoint.address) if endpoint is not None else None)
            await end.wait()

    run(main)


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None], end: asyncio.Event) -> AsyncIterator[None]:
    """Run `work` until the block ends; if `work` ends earlier, set `end` and raise its error."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(lambda _: end.set())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
