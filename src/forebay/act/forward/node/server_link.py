"""An I/O node's connection to one data server, made anew whenever it is lost.

What was under way when it was lost has failed with AGAIN: nobody knows whether the server did it. It is never sent
again from here; the client decides.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from itertools import groupby
from time import monotonic
from typing import Any

from forebay.act.forward.net.address import Address
from forebay.act.forward.net.auth import Denied, Peer
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.admission import connect
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.wire import (
    AGAIN,
    HEADER,
    MAGIC,
    VERSION,
    BadMessage,
    Bytes,
    Flag,
    Kind,
    Message,
    checksum,
)
from forebay.act.forward.node.dispatch import Batch
from forebay.act.forward.striping import parts_of
from forebay.decide.order.queue import NONE

FIRST_ASK = 1 << 62
"""Tags below are slots of the queue."""
_SOONEST, _LATEST = 0.05, 2.0
_MOST_ASKS = 4096
_READ, _WRITE = int(Kind.READ), int(Kind.WRITE)
_REPLY, _CHECKED = Flag.REPLY, Flag.CHECKED
_pack = HEADER.pack


class Failed(OSError):
    """What a server answered, or why it did not: an errno and words."""


class Shared:
    """A message whose payload several requests got a part of."""

    __slots__ = ("_message", "_users")

    def __init__(self, message: Message, users: int) -> None:
        self._message, self._users = message, users

    def release(self) -> None:
        self._users -= 1
        if not self._users:
            self._message.release()


class Link:
    """Server number `number` of a layer `of` so many; `changed(number, up)` hears of its comings and goings."""

    def __init__(
        self,
        number: int,
        address: Address,
        key: bytes,
        me: Peer,
        buffers: Buffers,
        *,
        of: int,
        changed: Callable[[int, bool], None],
    ) -> None:
        self.number, self.address, self._of = number, address, of
        self._key, self._me, self._buffers = key, me, buffers
        self._changed = changed
        self._answered: Callable[[int, Batch], None] = _nobody
        self._refused: Callable[[int, Batch, int, str], None] = _nobody
        self._flying: dict[int, tuple[float, Batch]] = {}
        self._groups: dict[
            int, list[int]
        ] = {}  # by tag: the slot that its message began with, and how many answers lack
        self._asks: dict[int, asyncio.Future[Message]] = {}
        self._next = FIRST_ASK
        self._out: list[Bytes] = []
        self._connection: Connection | None = None
        self._there = asyncio.Event()
        self._gone = asyncio.Event()
        self.why = "not connected yet"
        self.losses = 0

    def tell(self, answered: Callable[[int, Batch], None], refused: Callable[[int, Batch, int, str], None]) -> None:
        """Who hears of the messages that are sent from here on."""
        self._answered, self._refused = answered, refused

    @property
    def pending(self) -> bool:
        """Whether anything waits for `flush`."""
        return bool(self._out)

    @property
    def up(self) -> bool:
        return self._connection is not None

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._flying or self._asks)

    @property
    def name(self) -> str:
        return f"server {self.number} ({self.address})"

    async def keep(self) -> None:
        """Be connected, for ever."""
        pause = _SOONEST
        while True:
            try:
                connection = await connect(
                    self.address, self._key, self._me, ("server",), self._received, self._lost, buffers=self._buffers
                )
            except (OSError, Denied, BadMessage, TimeoutError) as error:
                self.why = str(error) or "no answer"
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LATEST)
                continue
            if self._is_right(connection):
                pause = _SOONEST
                await self._with(connection)
            else:
                await asyncio.sleep(_LATEST)

    def _is_right(self, connection: Connection) -> bool:
        """Whether the one who answers is the server that we think it is; files would be torn apart otherwise."""
        facts = connection.peer.facts if connection.peer else {}
        is_, of = facts.get("index"), facts.get("servers")
        if (is_, of) != (self.number, self._of):
            self.why = f"there is server {is_} of {of}, not {self.number} of {self._of}"
            connection.close(self.why)
        return not connection.closed

    async def _with(self, connection: Connection) -> None:
        self._gone.clear()
        self._connection = connection
        self._there.set()
        self._changed(self.number, True)
        try:
            await self._gone.wait()
        finally:
            connection.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def check(self, timeout: float) -> None:
        """Hang up on a server that owes an answer for longer than `timeout` seconds."""
        before = monotonic() - timeout
        if self._connection is not None and any(since < before for since, _ in self._flying.values()):
            self._connection.close(f"no answer within {timeout:g} s")

    def put(self, slot: int, batch: Batch) -> None:
        """Have a message sent with the next `flush`: pieces that are neighbours in one object."""
        request, i, _ = batch[0]
        if len(batch) > 1:
            self._put_several(slot, batch)
            return
        self._flying[slot] = monotonic(), batch
        _, offset, length, at, cuts = request.pieces[i]
        message, out = request.message, self._out
        flags, file, session = message.flags & _CHECKED, message.file, message.session
        if request.write:
            payload = message.payload
            data = [payload[begin : begin + part] for begin, part in cuts or ((at, length),)]
            crc = checksum(data) if flags else 0
            out.append(_pack(MAGIC, VERSION, _WRITE, flags, 0, length, 0, crc, slot, file, offset, session))
            out += data
        else:
            out.append(_pack(MAGIC, VERSION, _READ, flags, 0, 0, length, 0, slot, file, offset, session))

    def _put_several(self, slot: int, batch: Batch) -> None:
        # A server refuses a session that is fenced off. So what one message writes is of one session, and the pieces
        # of several go as several messages, under the numbers of their own slots.
        if not batch[0][0].write:
            self._put_run(slot, batch, Kind.READ)
            return
        runs = [list(run) for _, run in groupby(batch, key=lambda part: part[0].message.session)]
        if len(runs) > 1:
            group = [slot, len(runs)]
            self._groups.update((run[0][2], group) for run in runs)
        for run in runs:
            self._put_run(run[0][2], run, Kind.WRITE)

    def _put_run(self, tag: int, run: Batch, kind: Kind) -> None:
        self._flying[tag] = monotonic(), run
        first, place, _ = run[0]
        message, offset = first.message, first.pieces[place][1]
        flags = _CHECKED if any(request.message.flags & _CHECKED for request, _, _ in run) else 0
        asked = Message(kind, flags, tag=tag, file=message.file, offset=offset, session=message.session)
        if kind == _READ:
            asked.size = sum(request.pieces[i][2] for request, i, _ in run)
            self._out.append(asked.header())
            return
        data = [part for r, i, _ in run for part in parts_of(r.pieces[i], r.message.payload)]
        self._out.append(asked.header(sum(map(len, data)), checksum(data) if flags else 0))
        self._out += data

    def _head(self, tag: int) -> int:
        """The slot that is free now that this was answered; NONE while others of its message are not."""
        group = self._groups.pop(tag, None) if self._groups else None
        if group is None:
            return tag
        group[1] -= 1
        return NONE if group[1] else group[0]

    def flush(self) -> None:
        out = self._out
        if out:
            self._out = []
            if self._connection is not None:
                self._connection.send(out)

    async def ask(
        self, kind: Kind, *, file: int = 0, offset: int = 0, session: int = 0, payload: Bytes = b"", within: float
    ) -> Message:
        """The answer to anything but a read or a write; `within` so many seconds it must be there to be asked."""
        if self._connection is None:
            await self._return(within)
        if self._connection is None or len(self._asks) >= _MOST_ASKS:
            raise Failed(AGAIN, f"{self.name} is away")
        tag = self._next
        self._next += 1
        future = self._asks[tag] = asyncio.get_running_loop().create_future()
        asked = Message(kind, tag=tag, file=file, offset=offset, session=session, payload=payload)
        self._connection.send([asked.header(), payload] if payload else [asked.header()])
        try:
            answer: Message = await future
        finally:
            self._asks.pop(tag, None)
        if answer.status:
            raise Failed(answer.status, said(answer))
        return answer

    async def _return(self, within: float) -> None:
        try:
            async with asyncio.timeout(within):
                await self._there.wait()
        except TimeoutError:
            raise Failed(errno.EIO, f"{self.name} is away for {within:g} s: {self.why}") from None

    def _received(self, _connection: Connection, message: Message) -> None:
        tag = message.tag
        if tag >= FIRST_ASK:
            self._told(message)
            return
        flown = self._flying.pop(tag, None)
        if flown is None:
            raise BadMessage("an answer to nothing")
        batch = flown[1]
        if len(batch) > 1 or message.status:
            self._landed(tag, batch, message)
            return
        request, i, _ = batch[0]
        asked = request.pieces[i][2]
        if request.write:
            if message.size != asked:
                self._landed(tag, batch, message)
                return
        elif len(message.payload) <= asked:
            request.parts[i] = message.payload
            if message.buffer is not None:
                request.given.append(message)
        else:
            self._landed(tag, batch, message)
            return
        self._answered(self._head(tag) if self._groups else tag, batch)

    def _told(self, message: Message) -> None:
        """The answer to a question."""
        future = self._asks.get(message.tag)
        if future is None or future.done():
            message.release()  # whoever asked is gone
        else:
            future.set_result(message)

    def _landed(self, tag: int, batch: Batch, message: Message) -> None:
        """An answer that is an error, or that several requests share."""
        if message.status:
            self._refused(self._head(tag), batch, message.status, f"{self.name}: {said(message)}")
            message.release()
            return
        asked = sum(request.pieces[i][2] for request, i, _ in batch)
        if len(message.payload) > asked:
            self._flying[tag] = 0.0, batch
            raise BadMessage("more bytes than were asked for")
        if not batch[0][0].write:
            _share(batch, message)
        elif message.size != asked:
            words = f"{self.name} wrote {message.size} of {asked} bytes"
            self._refused(self._head(tag), batch, errno.EIO, words)
            return
        self._answered(self._head(tag), batch)

    def _lost(self, _connection: Connection, why: str) -> None:
        self._connection = None
        self._there.clear()
        self._out = []
        self.why = why
        self.losses += 1
        self._changed(self.number, False)
        words = f"{self.name} was lost: {why}"
        flying, self._flying = self._flying, {}
        for slot, (_, batch) in flying.items():
            self._refused(self._head(slot), batch, AGAIN, words)
        for future in self._asks.values():
            if not future.done():
                future.set_exception(Failed(AGAIN, words))
        self._gone.set()


def _share(batch: Batch, message: Message) -> None:
    """Each request's part of what a server gave for several."""
    shared: Any = Shared(message, len(batch))
    begin = 0
    for request, i, _ in batch:
        length = request.pieces[i][2]
        request.parts[i] = message.payload[begin : begin + length]
        request.given.append(shared)
        begin += length


def said(answer: Message) -> str:
    """The words of an answer that is an error."""
    try:
        words = bytes(answer.payload).decode()
    except UnicodeDecodeError:
        words = ""
    return words or os.strerror(answer.status).lower()


def _nobody(*_: Any) -> None:
    pass
