"""A data server as a process."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from forebay.act.forward.daemon import Numbers, Ready, run_daemon
from forebay.act.forward.data.server import Server, ServerSettings
from forebay.act.forward.metrics import server_metrics
from forebay.act.forward.net.address import Address


def run_server(settings: ServerSettings, metrics: str | None, ready: Ready) -> None:
    """Run a data server until a signal ends it."""

    async def start(stack: AsyncExitStack, _end: asyncio.Event) -> tuple[list[Address], Numbers]:
        server = Server(settings)
        stack.push_async_callback(server.close)
        return [server.address], partial(server_metrics, server, settings.index)

    run_daemon(start, metrics, ready)
