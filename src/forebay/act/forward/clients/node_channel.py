"""An asyncio client's connection to whichever of its I/O nodes is there: many requests at a time."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress

from forebay.act.forward.clients.operations import Ask, Handle, Lost, attach
from forebay.act.forward.clients.identity import Identity
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.auth import Denied
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.admission import connect
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.wire import BadMessage, Flag, Kind, Message

_CONNECTING = 5.0
Waiting = tuple[Ask, asyncio.Future[Message]]


class Bundle:
    """As `Tie`: connects when it has to, and fences off the session of a connection that was lost."""

    def __init__(self, nodes: Sequence[Address], key: bytes, who: Identity, *, timeout: float, checked: bool) -> None:
        self._nodes, self._key, self._who = nodes, key, who
        self._timeout, self._flags = timeout, Flag.CHECKED if checked else 0
        self._buffers = Buffers()
        self._next = 0
        self._connection: Connection | None = None
        self._connecting, self._attaching = asyncio.Lock(), asyncio.Lock()
        self._attached: set[int] = set()
        self._session = 0
        self._unfenced = 0
        self._tag = 0
        self._waiting: dict[int, Waiting] = {}

    async def exchange(self, ask: Ask) -> Message:
        """The answer; raises `Lost`, after which the connection is made anew with the next call."""
        connection = self._connection
        if connection is None:
            async with self._connecting:
                connection = self._connection or await self._connect()
        session, handle = self._session, ask.handle
        if handle is not None and handle.file not in self._attached:
            answer = await self._attach(connection, handle, session)
            if answer is not None and answer.status:
                return answer
        answer = await self._exchange(connection, ask, session)
        if ask.kind in (Kind.OPEN, Kind.ATTACH) and not answer.status and connection is self._connection:
            self._attached.add(answer.file)
        return answer

    async def leave(self, file: int) -> None:
        """Tell the I/O node that the file is not needed any more."""
        if self._connection is not None and file in self._attached:
            self._attached.discard(file)
            with suppress(Lost):  # then it has forgotten all files
                await self._exchange(self._connection, Ask(Kind.CLOSE, file=file), self._session)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            await asyncio.sleep(0)  # whoever waits is told

    @property
    def _node(self) -> Address:
        return self._nodes[self._next % len(self._nodes)]

    async def _connect(self) -> Connection:
        session = secrets.randbits(63) | 1
        node = self._node
        try:
            connection = await connect(
                node,
                self._key,
                self._who.peer(session),
                ("node",),
                self._received,
                self._lost,
                buffers=self._buffers,
                timeout=min(_CONNECTING, self._timeout),
            )
        except Denied as error:
            raise OSError(errno.EACCES, str(error)) from None
        except (OSError, BadMessage) as error:
            self._next += 1
            raise Lost(f"{node}: {str(error).lower() or 'no answer'}") from None
        self._session = session
        if self._unfenced:
            await self._fence(connection, session)
        if connection.closed:
            raise Lost(f"{node}: lost again")
        self._connection, self._unfenced = connection, 0
        return connection

    async def _attach(self, connection: Connection, handle: Handle, session: int) -> Message | None:
        async with self._attaching:
            if handle.file in self._attached:
                return None  # another request has seen to it
            answer = await self._exchange(connection, attach(handle), session)
            if not answer.status and connection is self._connection:
                self._attached.add(handle.file)
            return answer

    async def _fence(self, connection: Connection, session: int) -> None:
        answer = await self._exchange(connection, Ask(Kind.FENCE, file=self._unfenced), session)
        if answer.status:
            self._next += 1
            connection.close()
            raise Lost(f"the old session can't be fenced off: {os.strerror(answer.status).lower()}")

    async def _exchange(self, connection: Connection, ask: Ask, session: int) -> Message:
        if connection.closed:
            raise Lost("the connection is closed")
        self._tag += 1
        tag = self._tag
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[tag] = ask, future
        message = Message(ask.kind, self._flags, 0, ask.size, tag, ask.file, ask.offset, session, ask.payload)
        sent = asyncio.Event()
        connection.send([message.header(), ask.payload] if len(ask.payload) else [message.header()], sent.set)
        try:
            async with asyncio.timeout(self._timeout):
                return await future
        except TimeoutError:
            connection.close(f"no answer within {self._timeout:g} s")
            raise Lost(f"no answer within {self._timeout:g} s") from None
        finally:
            self._waiting.pop(tag, None)
            if not sent.is_set():
                # The caller may change its bytes once this has returned; half of a message can't be taken back.
                connection.close("given up in the middle of a message")

    def _received(self, connection: Connection, message: Message) -> None:
        ask, future = self._waiting.get(message.tag, (None, None))
        if ask is None or future is None or future.done() or not message.flags & Flag.REPLY:
            message.release()  # whoever asked has given up
            return
        if ask.into is not None and not message.status:
            count = len(message.payload)
            if count > len(ask.into):
                message.release()
                connection.close("more bytes than were asked for")
                return
            ask.into[:count] = message.payload
            message.size = count
            message.release()
        elif message.buffer is not None:
            payload = bytes(message.payload)
            message.release()
            message.payload = payload
        future.set_result(message)

    def _lost(self, connection: Connection, why: str) -> None:
        if self._connection is connection:
            self._connection = None
            self._attached.clear()
            self._unfenced = self._unfenced or self._session
            self._next += 1
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(Lost(why))
