"""An I/O node's connection to one data server.

When it is lost, requests in progress fail with AGAIN: nobody knows whether the server carried them out. Only the client
decides whether to send them again.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from itertools import groupby
from time import monotonic
from typing import TYPE_CHECKING
from zlib import crc32

from forebay.act.forward.data.folder_records import Detour, Elsewhere
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.admission import PersistentLink
from forebay.act.forward.net.auth import Credentials, Denied
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.connection import Closed, CloseReason, Connection
from forebay.act.forward.net.wire import (
    AGAIN,
    ELSEWHERE,
    HEADER,
    LONGEST,
    MAGIC,
    OBJECT_STATUS,
    VERSION,
    BadMessage,
    Bytes,
    Flag,
    Kind,
    Message,
    checksum,
    pack_sessions,
    unpack_as,
)
from forebay.act.forward.node.backend import Batch
from forebay.act.forward.striping import parts_of
from forebay.decide.order.queue_layout import NONE

if TYPE_CHECKING:
    from forebay.act.forward.node.dispatch import Dispatch

FIRST_ASK = 1 << 62
"""The first tag for messages other than reads and writes, whose tags are slots of the queue."""
_LATEST = 2.0
_PAUSE = 0.05
_MOST_ASKS = 4096
_READ, _WRITE = int(Kind.READ), int(Kind.WRITE)
_CHECKED = Flag.CHECKED
_STATUS_SIZE = OBJECT_STATUS.size
_pack = HEADER.pack


class SharedMessage(Message, eq=False):
    """A message whose payload several requests share; the last release frees it."""

    whole: Message | None = None
    users: int = 0

    def release(self) -> None:
        self.users -= 1
        if not self.users and self.whole is not None:
            self.whole.release()


class ServerLink(PersistentLink):
    """A link to server `number` of a layer of `servers`."""

    dispatch: Dispatch
    """Receives the answers; set before the link connects."""
    changed: Callable[[int, bool], None]
    """Called with the server's number and whether it is up now; set before the link connects."""
    recall: Callable[[Message], None]
    """Called with each recall of leases; set before the link connects."""
    arrive: Callable[[Message], None]
    """Called when server 0 has taken over open files; set before the link connects."""

    def __init__(self, number: int, address: Address, credentials: Credentials, buffers: Buffers, servers: int) -> None:
        super().__init__(address, credentials, buffers, _LATEST)
        self.number, self._servers = number, servers
        self.name = f"server {number} ({address})"
        self._flying: dict[int, tuple[float, Batch]] = {}
        # By tag: the slot that its message began with, and how many answers are missing.
        self._groups: dict[int, list[int]] = {}
        self._answered: list[tuple[int, Batch]] = []  # messages whose answers have arrived together
        self._asks: dict[int, asyncio.Future[Message]] = {}
        self._next = FIRST_ASK
        self.out: list[Bytes] = []
        """Bytes that wait for `flush`."""
        self._connected = asyncio.Event()
        self.sharded: bool | None = None
        """Whether the names of the layer are spread over its servers; None until this server has said so."""

    def _check_peer(self, connection: Connection) -> None:
        """Reject any other server: it would mix up the stripes of files."""
        index, servers = (connection.peer.facts.get(name) for name in ("index", "servers"))
        if (index, servers) != (self.number, self._servers):
            reason = f"found server {index} of {servers}, expected {self.number} of {self._servers}; check --server"
            connection.close(CloseReason.DENIED, reason)
            raise Denied(reason)

    def _on_connect(self) -> None:
        assert self.connection is not None
        self.sharded = bool(self.connection.peer.facts.get("sharded"))
        self.connection.received_all = self._complete
        self._connected.set()
        self.changed(self.number, True)

    def drop_overdue(self, timeout: float) -> None:
        """Disconnect from a server that has owed an answer for longer than `timeout` seconds."""
        before = monotonic() - timeout
        if self.connection is not None and any(since < before for since, _ in self._flying.values()):
            self.connection.close(CloseReason.SILENT, f"no answer within {timeout:g} s")

    def put(self, slot: int, batch: Batch) -> None:
        """Prepare a message of contiguous pieces of one object for the next `flush`."""
        if len(batch) > 1:
            self._put_several(slot, batch)
            return
        self._flying[slot] = monotonic(), batch
        request, i, _ = batch[0]
        _, offset, length, at, cuts = request.pieces[i]
        message, out = request.message, self.out
        file, flags, session = message.file, message.flags & _CHECKED, message.session
        if not request.write:
            out.append(_pack(MAGIC, VERSION, _READ, flags, 0, 0, length, 0, slot, file, offset, session))
        elif length == request.size:  # the only piece
            payload = message.payload
            crc = crc32(payload) if flags else 0
            out.append(_pack(MAGIC, VERSION, _WRITE, flags, 0, length, message.size, crc, slot, file, offset, session))
            out.append(payload)
        else:
            data = [message.payload[begin : begin + part] for begin, part in cuts or ((at, length),)]
            crc = checksum(data) if flags else 0
            out.append(_pack(MAGIC, VERSION, _WRITE, flags, 0, length, 0, crc, slot, file, offset, session))
            out += data

    def _put_several(self, slot: int, batch: Batch) -> None:
        """Prepare one message of several pieces; a write names the sessions of all of them."""
        if not batch[0][0].write:
            self._put_run(slot, batch, Kind.READ)
        elif 8 * len(batch) + sum(request.pieces[i][2] for request, i, _ in batch) > LONGEST:
            self._put_by_session(slot, batch)
        else:
            self._put_run(slot, batch, Kind.WRITE)

    def _put_by_session(self, slot: int, batch: Batch) -> None:
        """Prepare a message for each session in turn, tagged with its own slot, as a server may refuse some of them."""
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
        merged = Message(kind, flags, tag=tag, file=message.file, offset=offset, session=message.session)
        if kind == _READ:
            merged.size = sum(request.pieces[i][2] for request, i, _ in run)
            self.out.append(merged.header())
            return
        data = [part for r, i, _ in run for part in parts_of(r.pieces[i], r.message.payload)]
        sessions = dict.fromkeys(request.message.session for request, _, _ in run)
        if len(sessions) > 1:
            merged.flags, merged.size = flags | Flag.SESSIONS, len(sessions)
            data.insert(0, pack_sessions(sessions))
        self.out.append(merged.header(sum(map(len, data)), checksum(data) if flags else 0))
        self.out += data

    def _freed_slot(self, tag: int) -> int:
        """The slot that this answer frees; NONE while other messages of its group have no answer."""
        group = self._groups.pop(tag, None) if self._groups else None
        if group is None:
            return tag
        group[1] -= 1
        return NONE if group[1] else group[0]

    def flush(self) -> None:
        out, self.out = self.out, []
        if self.connection is not None:
            self.connection.send(out)

    async def wait_connected(self, within: float) -> None:
        """Wait at most `within` seconds for the server; raises EIO if it is not there then."""
        if self.connection is None:
            try:
                async with asyncio.timeout(within):
                    await self._connected.wait()
            except TimeoutError:
                raise OSError(errno.EIO, f"{self.name} was not reachable for {within:g} s: {self.problem}") from None

    async def ask(self, request: Message, within: float) -> Message:
        """Send anything but a read or a write, and return the answer; wait `within` seconds for a missing server.

        Raises Elsewhere if another server has what it is about.
        """
        await self.wait_connected(within)
        if self.connection is None or len(self._asks) >= _MOST_ASKS:
            raise OSError(AGAIN, f"{self.name} is not connected, or has too many requests in progress")
        tag = request.tag = self._next
        self._next += 1
        future = self._asks[tag] = asyncio.get_running_loop().create_future()
        self.connection.send([request.header(), request.payload] if request.payload else [request.header()])
        try:
            answer: Message = await future
        finally:
            self._asks.pop(tag, None)
        answer.detach()
        if answer.status == ELSEWHERE:
            raise Elsewhere(unpack_as(Detour, answer.payload))
        if answer.status:
            raise OSError(answer.status, answer.error_text())
        return answer

    async def ask_again(self, request: Message, within: float) -> Message:
        """Ask until the server answers, for at most `within` seconds after it was lost first."""
        until = 0.0
        while True:
            try:
                return await self.ask(request, within)
            except OSError as error:
                until = until or monotonic() + within
                if error.errno != AGAIN or monotonic() > until:
                    raise
            await asyncio.sleep(_PAUSE)

    def _receive(self, _connection: Connection, message: Message) -> None:
        tag, payload = message.tag, message.payload
        flown = self._flying.pop(tag, None)
        if flown is None:
            self._receive_other(message)
            return
        batch = flown[1]
        request, i, _ = batch[0]
        wanted = request.pieces[i][2]
        write = request.write
        if (
            len(batch) > 1
            or message.status
            or len(payload) > (_STATUS_SIZE if write else wanted)
            or (write and message.size != wanted)
        ):
            self._settle(tag, batch, message)
            return
        if not write:
            request.parts[i] = payload
            if message.buffer is not None:
                request.replies.append(message)
        elif payload:
            request.object = payload
        self._answered.append((self._freed_slot(tag) if self._groups else tag, batch))

    def _receive_other(self, message: Message) -> None:
        """Handle the answer to an `ask`, and what the server sends by itself."""
        if message.tag < FIRST_ASK:
            raise BadMessage("received an answer without a request")
        future = self._asks.get(message.tag)
        if message.kind == Kind.RECALL:
            self.recall(message.detach())
        elif message.kind == Kind.ARRIVED:
            self.arrive(message.detach())
        elif future is None or future.done():
            message.release()  # the caller has given up
        else:
            future.set_result(message)

    def _complete(self) -> None:
        if self._answered:
            answered, self._answered = self._answered, []
            self.dispatch.complete(answered)

    def _settle(self, tag: int, batch: Batch, message: Message) -> None:
        """Handle an answer that is an error, or that several requests share."""
        wanted = sum(request.pieces[i][2] for request, i, _ in batch)
        if message.status == errno.ESTALE and batch[0][0].write and len({r.message.session for r, _, _ in batch}) > 1:
            message.release()
            self._put_by_session(tag, batch)
            self.flush()
        elif message.status:
            reason = f"{self.name}: {message.error_text()}"
            self.dispatch.refuse(self._freed_slot(tag), batch, message.status, reason)
            message.release()
        elif len(message.payload) > wanted and not batch[0][0].write:
            self._flying[tag] = 0.0, batch
            raise BadMessage("received more bytes than requested")
        elif batch[0][0].write and message.size != wanted:
            reason = f"{self.name} wrote {message.size} of {wanted} bytes"
            self.dispatch.refuse(self._freed_slot(tag), batch, errno.EIO, reason)
        else:
            if not batch[0][0].write:
                _share(batch, message)
            self._answered.append((self._freed_slot(tag), batch))

    def _lose(self, connection: Connection, closed: Closed) -> None:
        super()._lose(connection, closed)
        self._connected.clear()
        self.out = []
        self.changed(self.number, False)
        reason = f"lost the connection to {self.name}: {closed}"
        flying, self._flying = self._flying, {}
        for slot, (_, batch) in flying.items():
            self.dispatch.refuse(self._freed_slot(slot), batch, AGAIN, reason)
        for future in self._asks.values():
            if not future.done():
                future.set_exception(OSError(AGAIN, reason))


def _share(batch: Batch, message: Message) -> None:
    """Divide a server's answer among the requests that share it."""
    shared = SharedMessage(message.kind, whole=message, users=len(batch))
    begin = 0
    for request, i, _ in batch:
        length = request.pieces[i][2]
        request.parts[i] = message.payload[begin : begin + length]
        request.replies.append(shared)
        begin += length
