"""The client for asyncio programs: like sync.py, but with many requests in progress on one connection.

async with AsyncClient([parse_address("unix:/run/ion0")], key) as layer:
    async with await layer.open("/runs/a", os.O_RDWR | os.O_CREAT) as file:
        await asyncio.gather(*(file.pwrite(block, i * len(block)) for i, block in enumerate(blocks)))
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from forebay.act.forward.clients.channel import Identity, NodeChannel, identify
from forebay.act.forward.clients.open_file import OpenFile
from forebay.act.forward.clients.operations import Async, Operations
from forebay.act.forward.clients.requests import Handle, Request, Where
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.admission import connect
from forebay.act.forward.net.auth import Credentials
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.connection import Closed, CloseReason, Connection
from forebay.act.forward.net.wire import Flag, Message
from forebay.model.layout import Layout


class AsyncClient(Operations, AbstractAsyncContextManager["AsyncClient"]):
    """Like `Client`, for one loop; at most `most` requests are in progress at once, and the others wait."""

    def __init__(
        self,
        nodes: Sequence[Address],
        key: bytes,
        *,
        most: int = 64,
        who: Identity | None = None,
        patience: float = 30.0,
        timeout: float = 60.0,
        checked: bool = False,
    ) -> None:
        self._connections = NodeConnection(nodes, key, who or identify(), most, timeout=timeout, checked=checked)
        super().__init__(self._connections, patience)
        self._users: Counter[int] = Counter()  # of each open file
        self._lock = nullcontext()  # for one loop only

    async def open(self, path: Where, flags: int = 0, mode: int = 0o644, *, layout: Layout | None = None) -> AsyncFile:
        return AsyncFile(self, await self.open_handle(path, flags, mode, layout=layout))

    async def truncate(self, where: Where | Handle, size: int, *, clear: bool = False) -> None:
        if isinstance(where, Handle):
            await super().truncate(where, size, clear=clear)
        else:
            async with await self.open(where, os.O_WRONLY) as file:
                await file.truncate(size)

    async def close(self) -> None:
        self._connections.closed = True
        self._connections.close()
        await asyncio.sleep(0)  # callers that wait get their error

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _run(self, operation: Callable[..., Async[Any]], *args: Any, **options: Any) -> Async[Any]:
        return operation(self, *args, **options)


class AsyncFile(OpenFile[AsyncClient], AbstractAsyncContextManager["AsyncFile"]):
    """Like `File`; do not change a buffer before its `pwrite` returns."""

    async def close(self) -> None:
        channel = self._client._connections
        if self._end() and not channel.closed:
            channel.leaving.add(self.id)
            await channel.close_left_files()

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class NodeConnection(NodeChannel[Connection]):
    """A connection for many requests at a time."""

    def __init__(
        self, nodes: Sequence[Address], key: bytes, who: Identity, most: int, *, timeout: float, checked: bool
    ) -> None:
        super().__init__(nodes, key, who, timeout=timeout, checked=checked)
        self._buffers = Buffers()
        self._free = asyncio.Semaphore(most)
        self._waiting: dict[int, tuple[Request, asyncio.Future[Message]]] = {}

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def exchange(self, request: Request) -> Message:
        async with self._free:
            return await super().exchange(request)

    async def _open(self, node: Address, credentials: Credentials, timeout: float) -> Connection:
        return await connect(node, credentials, self._receive, self._lose, buffers=self._buffers, timeout=timeout)

    async def _exchange(self, link: Connection, request: Request, session: int) -> Message:
        if link.closed:
            raise ConnectionError("the connection is closed")
        self._tag += 1
        tag, payload = self._tag, request.payload
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[tag] = request, future
        message = Message(
            request.kind, self.flags, 0, request.size, tag, request.file, request.offset, session, payload
        )
        sent = asyncio.Event()
        link.send([message.header(), payload] if len(payload) else [message.header()], sent.set)
        try:
            async with asyncio.timeout(self.timeout):
                return await future
        except TimeoutError:
            reason = f"no answer within {self.timeout:g} s"
            link.close(CloseReason.SILENT, reason)
            raise TimeoutError(reason) from None
        finally:
            self._waiting.pop(tag, None)
            if not sent.is_set():
                # The caller may change its bytes once this returns, and part of a message can't be taken back.
                link.close(CloseReason.CANCELLED, "the caller gave up in the middle of a message")

    def _receive(self, connection: Connection, message: Message) -> None:
        request, future = self._waiting.get(message.tag, (None, None))
        if request is None or future is None or future.done() or not message.flags & Flag.REPLY:
            message.release()  # the caller has given up
            return
        if request.into is not None and not message.status:
            count = len(message.payload)
            if count > len(request.into):
                message.release()
                connection.close(CloseReason.MALFORMED, "received more bytes than requested")
                return
            request.into[:count] = message.payload
            message.size = count
            message.release()
        future.set_result(message.detach())

    def _lose(self, connection: Connection, closed: Closed) -> None:
        self.lose(connection)
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionError(str(closed)))
