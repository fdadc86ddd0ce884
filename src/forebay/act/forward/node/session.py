"""One client at an I/O node: what it asks, what it has open, and how much of it may wait."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Callable
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, Any

from forebay.act.forward.net.auth import Peer
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.wire import (
    HEADER,
    LAST_OFFSET,
    LONGEST,
    MAGIC,
    VERSION,
    BadMessage,
    Bytes,
    Flag,
    Kind,
    Message,
    answer_header,
    checksum,
    unpacked,
)
from forebay.act.forward.node.backend import Answer, Asked
from forebay.act.forward.node.dispatch import Opened, Request
from forebay.act.forward.node.job_accounting import Client
from forebay.act.forward.striping import in_order
from forebay.model.layout import Layout
from forebay.profile.request_watch import finish, observe

if TYPE_CHECKING:
    from forebay.act.forward.node.io_node import IoNode

MOST_HELD = 64 << 20
"""Bytes of requests that one client may have under way; then it is not listened to until some are answered."""
MOST_ASKED = 64
_MOST_REQUESTS = 512
_READ, _WRITE = int(Kind.READ), int(Kind.WRITE)
_DATA = (_READ, _WRITE)
_ASKS = frozenset(
    (
        Kind.FSYNC, Kind.OPEN, Kind.ATTACH, Kind.STAT, Kind.TRUNCATE, Kind.UNLINK, Kind.READDIR, Kind.MKDIR,
        Kind.RMDIR, Kind.RENAME, Kind.LAYOUT, Kind.FENCE, Kind.STATFS, Kind.CLOSE, Kind.SETATTR,
    )
)  # fmt: skip
_ZEROS = memoryview(bytes(1 << 20))
_pack = HEADER.pack


class Session:
    """Answers one client. `node` is what all clients of an I/O node share."""

    def __init__(self, node: IoNode, connection: Connection, client: Client) -> None:
        assert connection.peer is not None
        self.peer: Peer = connection.peer
        self._node, self._connection, self.client = node, connection, client
        self._submit, self._pump, self._watch = node.dispatch.submit, node.dispatch.pump, node.watch
        self._files: dict[int, Opened] = {}
        self._open: set[Request] = set()
        self._held = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._paused = self._ends = False
        self.flow = 0
        self.gone = False
        self._owed_before = 0, 0
        self.stalled = 0.0
        connection.redirect(self._received, self._lost)

    @property
    def idle(self) -> bool:
        return not (self._open or self._tasks or self._connection.queued)

    def close(self, why: str) -> None:
        self._connection.close(why)

    def quiet(self) -> None:
        """Listen no more; what is under way is still answered."""
        self._ends = True
        self._pause()

    def resume(self) -> bool:
        """The node has room again; False if this client has too much under way of its own."""
        if self._ends or self._too_much():
            return False
        self._paused = False
        self._connection.resume()
        return True

    def watch(self, seconds: float) -> None:
        """Called every so many seconds: notes for how long the client has not read what it asked for, or has left a
        message half sent; both hold memory that others need."""
        owed = self._connection.queued, self._connection.half
        self.stalled = self.stalled + seconds if any(owed) and owed == self._owed_before else 0.0
        self._owed_before = owed

    # Reads and writes

    def _received(self, _connection: Connection, message: Message) -> None:
        kind = message.kind
        try:
            if kind in _DATA:
                self._request(message, 1 if kind == _WRITE else 0)
            elif kind in _ASKS and not message.flags & Flag.REPLY:
                self._asked(message)
            else:
                raise BadMessage(f"a client has no business with {message!r}")
        except BadMessage:
            raise
        except Exception as error:
            self._ours(message, error)

    def _request(self, message: Message, write: int) -> None:
        file = self._files.get(message.file)
        size = len(message.payload) if write else message.size
        if file is None or size > LONGEST or message.offset + size > LAST_OFFSET:
            self._refuse_request(message, file is None, size)
            return
        now = time_ns()
        request = Request(self, message, file, size, write, self.flow, now)
        node = self._node
        observe(self._watch, now, file.number, message.offset, size, write)
        self.client.began(now, file.number, message.offset, size, write)
        self._open.add(request)
        self._held += size
        node.admitted += size
        self._submit(request)
        if self._held > MOST_HELD or len(self._open) > _MOST_REQUESTS or node.crowded():
            self._pause()
        self._pump()

    def _refuse_request(self, message: Message, unknown: bool, size: int) -> None:
        if unknown:
            self._error(message, errno.ESTALE, "this file is not open here")
        elif size > LONGEST:
            self._error(message, errno.EINVAL, f"a request may have {LONGEST} bytes")
        else:
            self._error(message, errno.EFBIG, "beyond 2^63")

    def finish(self, request: Request) -> None:
        """All pieces of a request were answered: so is the client."""
        try:
            if request.status or self.gone:
                self._failed(request)
            elif request.write:
                of = request.message
                header = _pack(MAGIC, VERSION, _WRITE, 1, 0, 0, request.size, 0, of.tag, of.file, 0, of.session)
                self._connection.send((header,))
                self._done(request)
            elif sum(map(len, request.parts)) == request.size:  # type: ignore[arg-type]
                self._give(request, whole(request))
            elif request.known is not None:
                self._give(request, filled(request, request.known))
            else:
                self._begin(self._give_short(request), partial(self._spoilt, request))
        except Exception as error:
            self._spoilt(request, error)

    def _spoilt(self, request: Request, error: Exception) -> None:
        self._ours(request.message, error)
        # Behind whatever the end of the connection still does with it.
        asyncio.get_running_loop().call_soon(self._forsake, request)

    def _forsake(self, request: Request) -> None:
        if request in self._open:
            self._done(request)

    def _ours(self, message: Message, error: Exception) -> None:
        """A mistake of ours: one client has to begin anew, and does not wait for ever; the others go on."""
        self._node.counts["internal"] += 1
        print(f"forebay: ion: {message!r}: {error!r}", file=sys.stderr)
        self.close("an error of ours")

    def _give(self, request: Request, parts: list[Bytes]) -> None:
        message, length = request.message, sum(map(len, parts))
        flags = Flag.REPLY | (message.flags & Flag.CHECKED)
        crc = checksum(parts) if message.flags & Flag.CHECKED else 0
        header = _pack(
            MAGIC, VERSION, _READ, flags, 0, length, length, crc, message.tag, message.file, 0, message.session
        )
        self._connection.send([header, *parts], lambda: self._done(request))

    async def _give_short(self, request: Request) -> None:
        """Some servers had fewer bytes: either the file ends there, or has a hole; only its size tells.

        Where the size says that there are bytes which a server had not, they may have come since, written before those
        that the size counts: they are read once more, and what is missing then is a hole.
        """
        try:
            size = await self._node.backend.file_size(request.file, request.message.session)
        except (OSError, BadMessage) as error:
            words = str(error) if isinstance(error, BadMessage) else error.strerror or str(error)
            request.failed(getattr(error, "errno", None) or errno.EIO, words)
        if request.status or self.gone:
            self._failed(request)
        elif sum(map(len, upto := filled(request, 0))) >= min(size - request.message.offset, request.size):
            self._give(request, upto)
        else:
            release(request)
            request.anew(size)
            self._submit(request)
            self._pump()

    def _failed(self, request: Request) -> None:
        if not self.gone:
            self._error(request.message, request.status or errno.EIO, request.words)
        self._done(request)

    def _done(self, request: Request) -> None:
        now, size, node = time_ns(), request.size, self._node
        if not request.write:
            release(request)
        request.message.release()
        self._open.discard(request)
        self._held -= size
        node.admitted -= size
        finish(self._watch, now)
        self.client.ended(now, request.began, request.write)
        if node.waits:
            node.let_in()

    # All else

    def _asked(self, message: Message) -> None:
        asked = Asked(
            kind=message.kind,
            session=message.session,
            file=message.file,
            offset=message.offset,
            words=_words(message),
            payload=bytes(message.payload),
        )
        message.release()
        self._begin(self._answer(message, asked), partial(self._ours, message))
        if self._too_much():
            self._pause()

    async def _answer(self, message: Message, asked: Asked) -> None:
        began = time_ns()
        try:
            answer = await self._ways(asked)
        except OSError as error:
            self._error(message, error.errno or errno.EIO, error.strerror or str(error))
        except BadMessage as error:  # a server's answer, or the client's words
            self._error(message, errno.EIO, str(error))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._error(message, errno.EINVAL, f"a question that can't be understood: {error!r}")
        else:
            payload = answer.payload
            crc = checksum((payload,)) if message.flags & Flag.CHECKED and payload else 0
            header = answer_header(message, size=answer.size, file=answer.file, length=len(payload), crc=crc)
            self._connection.send((header, payload) if payload else (header,))
        self.client.asked(time_ns() - began)

    async def _ways(self, asked: Asked) -> Answer:
        if asked.kind == Kind.CLOSE:
            self._close(asked.file)
            return Answer()
        if asked.kind == Kind.FENCE:
            await self._node.backend.fence(asked.file)
            return Answer()
        answer = await self._node.backend.ask(asked)
        if answer.opened is not None:
            self._opened(answer.file, answer.opened, answer.name)
            if self.gone:  # nobody will close it
                self._close(answer.file)
        return answer

    def _opened(self, file: int, layout: Layout, name: bytes) -> None:
        if file not in self._files:
            self._files[file] = self._node.open_file(file, layout)
        self.client.opened(self._files[file].number, file, layout, name)

    def _close(self, file: int) -> None:
        if self._files.pop(file, None) is not None:
            self._node.close_file(file)

    def _error(self, message: Message, status: int, words: str) -> None:
        message.release()
        payload = words.encode()[:1000] or os.strerror(status).encode()
        crc = checksum((payload,)) if message.flags & Flag.CHECKED else 0
        self._connection.send((answer_header(message, status=status, length=len(payload), crc=crc), payload))

    def _lost(self, _connection: Connection, why: str) -> None:
        self.gone = True
        for request in tuple(self._open):
            self._node.dispatch.withdraw(request, errno.EIO, "the client is gone")
        for file in tuple(self._files):
            self._close(file)
        self._node.gone(self, why)

    def _too_much(self) -> bool:
        return self._held > MOST_HELD or len(self._open) > _MOST_REQUESTS or len(self._tasks) > MOST_ASKED

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._connection.pause()
            self._node.waits.add(self)

    def _begin(self, work: Any, failed: Callable[[Exception], None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, failed))

    def _ended(self, failed: Callable[[Exception], None], task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            failed(error)
        if self._paused:
            self._node.let_in()


def whole(request: Request) -> list[Bytes]:
    """What a read gives, where all servers had all bytes."""
    pieces, parts = request.pieces, request.parts
    if len(pieces) == 1 or not any(piece.cuts for piece in pieces):
        return parts  # type: ignore[return-value]
    return [part for _, _, part in in_order(zip(pieces, parts, strict=True))]


def filled(request: Request, size: int) -> list[Bytes]:
    """What a read of a file of `size` bytes gives, where servers had fewer bytes than were asked for: holes are zeros.

    Beyond that size it ends with the first byte that is missing: what is there behind may be what came since.
    """
    end = size - request.message.offset
    found: list[Bytes] = []
    for at, length, part in in_order(
        (piece, part or b"") for piece, part in zip(request.pieces, request.parts, strict=True)
    ):
        found.append(part)
        found += _zeros(min(length, end - at) - len(part))
        if max(len(part), end - at) < length:
            break
    return found


def release(request: Request) -> None:
    """What servers gave for a read is not needed any more."""
    for given in request.given:
        given.release()
    request.given.clear()
    request.parts.clear()


def _zeros(length: int) -> list[Bytes]:
    found: list[Bytes] = []
    while length > 0:
        found.append(_ZEROS[:length])
        length -= len(found[-1])
    return found


def _words(message: Message) -> dict[str, Any]:
    if not len(message.payload):
        return {}
    words = unpacked(message.payload)
    if not isinstance(words, dict):
        raise BadMessage("a question without words")
    return words
