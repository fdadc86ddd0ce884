"""An I/O node's connection to one data server, which reconnects whenever it is lost.

What was in progress when it was lost fails with AGAIN: nobody knows whether the server carried it out. It is never sent
again from here; the client decides.
"""

from __future__ import annotations

import asyncio
import errno
from itertools import groupby
from time import monotonic

from forebay.act.forward.net.address import Address
from forebay.act.forward.net.admission import connect
from forebay.act.forward.net.auth import Credentials, Denied, Peer
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.connection import Closed, CloseReason, Connection
from forebay.act.forward.net.wire import AGAIN, HEADER, MAGIC, VERSION, BadMessage, Bytes, Flag, Kind, Message, checksum
from forebay.act.forward.node.backend import Answered, Changed, Refused
from forebay.act.forward.node.dispatch import Batch
from forebay.act.forward.striping import parts_of
from forebay.decide.order.queue_layout import NONE

FIRST_ASK = 1 << 62
"""Tags below are slots of the queue."""
_SOONEST, _LATEST = 0.05, 2.0
_MOST_ASKS = 4096
_READ, _WRITE = int(Kind.READ), int(Kind.WRITE)
_REPLY, _CHECKED = Flag.REPLY, Flag.CHECKED
_pack = HEADER.pack


class SharedMessage(Message):
    """A message whose payload several requests share."""

    __slots__ = ("_message", "_users")

    def __init__(self, message: Message, users: int) -> None:
        super().__init__(message.kind)
        self._message, self._users = message, users

    def release(self) -> None:
        self._users -= 1
        if not self._users:
            self._message.release()


class ServerLink:
    """Server `number` of a layer of `servers`; `changed(number, up)` is called when it comes and goes."""

    def __init__(
        self, number: int, address: Address, key: bytes, me: Peer, buffers: Buffers, *, servers: int, changed: Changed
    ) -> None:
        self.number, self.address, self._servers = number, address, servers
        self._credentials, self._buffers = Credentials(key, me, ("server",)), buffers
        self._changed = changed
        self._answered: Answered = lambda _slot, _batch: None
        self._refused: Refused = lambda _slot, _batch, _status, _reason: None
        self._flying: dict[int, tuple[float, Batch]] = {}
        # By tag: the slot that its message began with, and how many answers are missing.
        self._groups: dict[int, list[int]] = {}
        self._asks: dict[int, asyncio.Future[Message]] = {}
        self._next = FIRST_ASK
        self._out: list[Bytes] = []
        self._connection: Connection | None = None
        self._connected = asyncio.Event()
        self._gone = asyncio.Event()
        self.problem = "not connected yet"

    def report_to(self, answered: Answered, refused: Refused) -> None:
        """Set who hears of the messages that are sent from now on."""
        self._answered, self._refused = answered, refused

    @property
    def pending(self) -> bool:
        """Whether anything waits for `flush`."""
        return bool(self._out)

    @property
    def up(self) -> bool:
        return self._connection is not None

    @property
    def name(self) -> str:
        return f"server {self.number} ({self.address})"

    async def keep_connected(self) -> None:
        """Connect, again and again."""
        pause = _SOONEST
        while True:
            try:
                connection = await connect(
                    self.address, self._credentials, self._received, self._lost, buffers=self._buffers
                )
            except (OSError, Denied, BadMessage, TimeoutError) as error:
                self.problem = str(error) or "no answer"
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LATEST)
                continue
            if self._is_right_server(connection):
                pause = _SOONEST
                await self._use(connection)
            else:
                await asyncio.sleep(_LATEST)

    def _is_right_server(self, connection: Connection) -> bool:
        """Whether this is the server that we expect; files would be torn apart otherwise."""
        facts = connection.peer.facts if connection.peer else {}
        index, servers = facts.get("index"), facts.get("servers")
        if (index, servers) != (self.number, self._servers):
            self.problem = f"found server {index} of {servers}, expected {self.number} of {self._servers}"
            connection.close(CloseReason.DENIED, self.problem)
        return not connection.closed

    async def _use(self, connection: Connection) -> None:
        self._gone.clear()
        self._connection = connection
        self._connected.set()
        self._changed(self.number, True)
        try:
            await self._gone.wait()
        finally:
            connection.close()

    def drop_overdue(self, timeout: float) -> None:
        """Hang up on a server that owes an answer for longer than `timeout` seconds."""
        before = monotonic() - timeout
        if self._connection is not None and any(since < before for since, _ in self._flying.values()):
            self._connection.close(CloseReason.SILENT, f"no answer within {timeout:g} s")

    def put(self, slot: int, batch: Batch) -> None:
        """Prepare a message for the next `flush`: pieces that are neighbours in one object."""
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
        # A server refuses fenced sessions. So a message writes for one session only, and the pieces of several sessions
        # go as several messages, under the numbers of their own slots.
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

    def _freed_slot(self, tag: int) -> int:
        """The slot that this answer frees; NONE while other messages of its group have no answer."""
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
        """The answer to anything but a read or a write; wait for the server for `within` seconds."""
        if self._connection is None:
            await self._wait_for_server(within)
        if self._connection is None or len(self._asks) >= _MOST_ASKS:
            raise OSError(AGAIN, f"{self.name} is away")
        tag = self._next
        self._next += 1
        future = self._asks[tag] = asyncio.get_running_loop().create_future()
        asked = Message(kind, tag=tag, file=file, offset=offset, session=session, payload=payload)
        self._connection.send([asked.header(), payload] if payload else [asked.header()])
        try:
            answer: Message = await future
        finally:
            self._asks.pop(tag, None)
        answer.detach()
        if answer.status:
            raise OSError(answer.status, answer.error_text())
        return answer

    async def _wait_for_server(self, within: float) -> None:
        try:
            async with asyncio.timeout(within):
                await self._connected.wait()
        except TimeoutError:
            raise OSError(errno.EIO, f"{self.name} is away for {within:g} s: {self.problem}") from None

    def _received(self, _connection: Connection, message: Message) -> None:
        tag = message.tag
        if tag >= FIRST_ASK:
            self._take_answer(message)
            return
        flown = self._flying.pop(tag, None)
        if flown is None:
            raise BadMessage("received an answer without a request")
        batch = flown[1]
        if len(batch) > 1 or message.status:
            self._settle(tag, batch, message)
            return
        request, i, _ = batch[0]
        asked = request.pieces[i][2]
        if request.write:
            if message.size != asked:
                self._settle(tag, batch, message)
                return
        elif len(message.payload) <= asked:
            request.parts[i] = message.payload
            if message.buffer is not None:
                request.given.append(message)
        else:
            self._settle(tag, batch, message)
            return
        self._answered(self._freed_slot(tag) if self._groups else tag, batch)

    def _take_answer(self, message: Message) -> None:
        future = self._asks.get(message.tag)
        if future is None or future.done():
            message.release()  # the asker is gone
        else:
            future.set_result(message)

    def _settle(self, tag: int, batch: Batch, message: Message) -> None:
        """Handle an answer that is an error, or that several requests share."""
        if message.status:
            self._refused(self._freed_slot(tag), batch, message.status, f"{self.name}: {message.error_text()}")
            message.release()
            return
        asked = sum(request.pieces[i][2] for request, i, _ in batch)
        if len(message.payload) > asked:
            self._flying[tag] = 0.0, batch
            raise BadMessage("received more bytes than requested")
        if not batch[0][0].write:
            _share(batch, message)
        elif message.size != asked:
            reason = f"{self.name} wrote {message.size} of {asked} bytes"
            self._refused(self._freed_slot(tag), batch, errno.EIO, reason)
            return
        self._answered(self._freed_slot(tag), batch)

    def _lost(self, _connection: Connection, closed: Closed) -> None:
        self._connection = None
        self._connected.clear()
        self._out = []
        self.problem = str(closed)
        self._changed(self.number, False)
        reason = f"{self.name} was lost: {closed}"
        flying, self._flying = self._flying, {}
        for slot, (_, batch) in flying.items():
            self._refused(self._freed_slot(slot), batch, AGAIN, reason)
        for future in self._asks.values():
            if not future.done():
                future.set_exception(OSError(AGAIN, reason))
        self._gone.set()


def _share(batch: Batch, message: Message) -> None:
    """Give each request its part of what a server sent for several."""
    shared = SharedMessage(message, len(batch))
    begin = 0
    for request, i, _ in batch:
        length = request.pieces[i][2]
        request.parts[i] = message.payload[begin : begin + length]
        request.given.append(shared)
        begin += length
