"""The layer for asyncio programs: as sync.py, with many requests in progress on one connection.

async with AsyncClient([parse_address("unix:/run/ion0")], key) as layer:
    async with await layer.open("/runs/a", os.O_RDWR | os.O_CREAT) as file:
        await asyncio.gather(*(file.pwrite(block, i * len(block)) for i, block in enumerate(blocks)))
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from forebay.act.forward.clients.identity import Identity, identify
from forebay.act.forward.clients.node_socket import CONNECT_TIMEOUT, NodeRoute
from forebay.act.forward.clients.operations import (
    Handle,
    Lost,
    OpenFile,
    Operations,
    PathLike,
    Pause,
    Request,
    Steps,
    attach_request,
)
from forebay.act.forward.clients.sync import Buffer
from forebay.act.forward.data.names import NOBODY, Owner
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.admission import connect
from forebay.act.forward.net.auth import Credentials, Denied
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.connection import Closed, CloseReason, Connection
from forebay.act.forward.net.wire import BadMessage, Flag, Kind, Message
from forebay.model.layout import Layout

P = ParamSpec("P")
T = TypeVar("T")
Waiting = tuple[Request, asyncio.Future[Message]]


def _by_path(
    operation: Callable[Concatenate[Operations, P], Steps[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """The operation as a coroutine of the client."""

    @wraps(operation)
    async def method(client: AsyncClient, /, *args: P.args, **options: P.kwargs) -> T:
        return await client._run(operation(client._operations, *args, **options))

    return method


def _of_file(
    operation: Callable[Concatenate[Operations, Handle, P], Steps[T]],
) -> Callable[Concatenate[AsyncFile, P], Coroutine[Any, Any, T]]:
    """The operation as a coroutine of an open file."""

    @wraps(operation)
    async def method(file: AsyncFile, /, *args: P.args, **options: P.kwargs) -> T:
        return await file._run(operation(file._client._operations, file.handle, *args, **options))

    return method


class AsyncClient:
    """As `Client`; at most `most` requests are in progress at once, the others wait. For one loop only."""

    def __init__(
        self,
        nodes: Sequence[Address],
        key: bytes,
        *,
        who: Identity | None = None,
        patience: float = 30.0,
        timeout: float = 60.0,
        most: int = 64,
        checked: bool = False,
    ) -> None:
        self._operations = Operations(patience)
        self._channel = NodeChannel(NodeRoute(nodes, key, who or identify(), timeout=timeout, checked=checked))
        self._free = asyncio.Semaphore(most)
        self._closed = False

    stat = _by_path(Operations.stat)
    unlink = _by_path(Operations.unlink)
    readdir = _by_path(Operations.readdir)
    mkdir = _by_path(Operations.mkdir)
    rmdir = _by_path(Operations.rmdir)
    rename = _by_path(Operations.rename)
    layout = _by_path(Operations.layout)
    set_layout = _by_path(Operations.set_layout)
    chmod = _by_path(Operations.chmod)
    chown = _by_path(Operations.chown)
    utime = _by_path(Operations.utime)
    statfs = _by_path(Operations.statfs)

    async def open(
        self, path: PathLike, flags: int = 0, mode: int = 0o644, *, layout: Layout | None = None, owner: Owner = NOBODY
    ) -> AsyncFile:
        return AsyncFile(self, await self._run(self._operations.open(path, flags, mode, layout=layout, owner=owner)))

    async def truncate(self, path: PathLike, size: int) -> None:
        async with await self.open(path) as file:
            await file.truncate(size)

    async def close(self) -> None:
        self._closed = True
        await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, steps: Steps[T]) -> T:
        if self._closed:
            raise OSError(errno.EBADF, "the client is closed")
        async with self._free:
            return await self._carry_out(steps)

    async def _carry_out(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    step = next(steps)
                    continue
                try:
                    answer = await self._channel.exchange(step)
                except Lost as lost:
                    if self._closed:
                        raise OSError(errno.EBADF, "the client is closed") from None
                    step = steps.throw(lost)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result


class AsyncFile(OpenFile):
    """As `File`."""

    def __init__(self, client: AsyncClient, handle: Handle) -> None:
        super().__init__(handle)
        self._client = client

    fsync = _of_file(Operations.fsync)
    truncate = _of_file(Operations.truncate)
    stat = _of_file(Operations.stat)
    chmod = _of_file(Operations.chmod)
    chown = _of_file(Operations.chown)
    utime = _of_file(Operations.utime)

    async def pread(self, size: int, offset: int) -> bytes:
        if size < 0:
            raise OSError(errno.EINVAL, "a size must not be negative")
        room = bytearray(size)
        count = await self.preadinto(room, offset)
        return bytes(memoryview(room)[:count])

    async def preadinto(self, room: Buffer, offset: int) -> int:
        return await self._run(self._client._operations.read(self.handle, memoryview(room).cast("B"), offset))

    async def pwrite(self, data: Buffer, offset: int) -> int:
        """Do not change `data` before this returns."""
        return await self._run(self._client._operations.write(self.handle, memoryview(data).cast("B"), offset))

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._client._operations.close(self.handle) and not self._client._closed:
                await self._client._channel.leave(self.handle.file)

    async def __aenter__(self) -> AsyncFile:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, steps: Steps[T]) -> T:
        if self._closed:
            raise OSError(errno.EBADF, "the file is closed")
        return await self._client._run(steps)


class NodeChannel:
    """As `NodeSocket`, with many requests at a time."""

    def __init__(self, route: NodeRoute) -> None:
        self._route = route
        self._buffers = Buffers()
        self._connection: Connection | None = None
        self._connecting, self._attaching = asyncio.Lock(), asyncio.Lock()
        self._tag = 0
        self._waiting: dict[int, Waiting] = {}

    async def exchange(self, request: Request) -> Message:
        """The answer to a request; raises `Lost`."""
        connection = self._connection
        if connection is None:
            async with self._connecting:
                connection = self._connection or await self._connect()
        session, handle = self._route.session, request.handle
        if handle is not None and handle.file not in self._route.attached:
            attached = await self._attach(connection, handle, session)
            if attached is not None and attached.status:
                return attached
        answer = await self._exchange(connection, request, session)
        if request.kind in (Kind.OPEN, Kind.ATTACH):
            self._note_attached(connection, answer, answer.file)
        return answer

    async def leave(self, file: int) -> None:
        """Tell the I/O node that the file is not needed any more."""
        if self._connection is not None and file in self._route.attached:
            self._route.attached.discard(file)
            with suppress(Lost):  # then the node has forgotten all files
                await self._exchange(self._connection, Request(Kind.CLOSE, file=file), self._route.session)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            await asyncio.sleep(0)  # those who wait hear of it

    async def _connect(self) -> Connection:
        route = self._route
        session, node = secrets.randbits(63) | 1, route.node
        credentials = Credentials(route.key, route.who.peer(session), ("node",))
        timeout = min(CONNECT_TIMEOUT, route.timeout)
        try:
            connection = await connect(
                node, credentials, self._received, self._lost, buffers=self._buffers, timeout=timeout
            )
        except Denied as error:
            raise OSError(errno.EACCES, str(error)) from None
        except (OSError, BadMessage) as error:
            route.skip()
            raise Lost(f"{node}: {str(error).lower() or 'no answer'}") from None
        route.session = session
        if route.unfenced:
            answer = await self._exchange(connection, Request(Kind.FENCE, file=route.unfenced), session)
            if answer.status:
                route.skip()
                connection.close()
                raise Lost(f"the old session cannot be fenced: {os.strerror(answer.status).lower()}")
        if connection.closed:
            raise Lost(f"{node}: lost again")
        self._connection, route.unfenced = connection, 0
        return connection

    async def _attach(self, connection: Connection, handle: Handle, session: int) -> Message | None:
        async with self._attaching:
            if handle.file in self._route.attached:
                return None  # another request has done it
            answer = await self._exchange(connection, attach_request(handle), session)
            self._note_attached(connection, answer, handle.file)
            return answer

    def _note_attached(self, connection: Connection, answer: Message, file: int) -> None:
        if not answer.status and connection is self._connection:
            self._route.attached.add(file)

    async def _exchange(self, connection: Connection, request: Request, session: int) -> Message:
        if connection.closed:
            raise Lost("the connection is closed")
        self._tag += 1
        tag, timeout = self._tag, self._route.timeout
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[tag] = request, future
        payload = request.payload
        message = Message(
            request.kind, self._route.flags, 0, request.size, tag, request.file, request.offset, session, payload
        )
        sent = asyncio.Event()
        connection.send([message.header(), payload] if len(payload) else [message.header()], sent.set)
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            reason = f"no answer within {timeout:g} s"
            connection.close(CloseReason.SILENT, reason)
            raise Lost(reason) from None
        finally:
            self._waiting.pop(tag, None)
            if not sent.is_set():
                # The caller may change its bytes once this has returned; half of a message can't be taken back.
                connection.close(CloseReason.CANCELLED, "given up in the middle of a message")

    def _received(self, connection: Connection, message: Message) -> None:
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

    def _lost(self, connection: Connection, closed: Closed) -> None:
        if self._connection is connection:
            self._connection = None
            self._route.lose()
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(Lost(str(closed)))
