"""One client of an I/O node: its requests, its open files, and its limits."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, Any

from forebay.act.forward.net import payloads
from forebay.act.forward.net.connection import Closed, CloseReason, Connection
from forebay.act.forward.net.request_payloads import REQUESTS, read_request
from forebay.act.forward.net.sole_payloads import AddRequest
from forebay.act.forward.net.wire import (
    LAST_OFFSET,
    LONGEST,
    BadMessage,
    Bytes,
    Flag,
    Kind,
    Message,
    WrongFields,
    answer_header,
    checksum,
    pack,
)
from forebay.act.forward.node.answers import data_answer, fill_holes, order_parts, status_answer
from forebay.act.forward.node.backend import Answer, NodeFile
from forebay.act.forward.node.client_limits import is_over_limit
from forebay.act.forward.node.dispatch import Request
from forebay.act.forward.node.identity import identify_client
from forebay.act.forward.node.job_accounting import JobProcess
from forebay.act.forward.node.request_accounting import count_answer, count_arrival
from forebay.model.layout import Layout

if TYPE_CHECKING:
    from forebay.act.forward.node.io_node import IoNode

_READ, _WRITE = int(Kind.READ), int(Kind.WRITE)
_DATA = (_READ, _WRITE)
_INTERNAL = {Kind.OPENED, Kind.CLOSED, Kind.HELD, Kind.PLACE}
_PLAIN = {Kind.FSYNC, Kind.TRUNCATE, Kind.FENCE, Kind.STATFS, Kind.CLOSE, Kind.WATCH, Kind.APPEND}
_QUERIES = {*REQUESTS, *_PLAIN} - _INTERNAL
_CHANGES = (Kind.TRUNCATE, Kind.ALLOCATE, Kind.APPEND)
_ABOUT_LEASES = (Kind.WATCH, Kind.RECALLED)
_READ_ACCESS, _WRITE_ACCESS = 4 | 1, 2  # a program that can be executed is read


class Session:
    """Answers one client; all clients of an I/O node share `node`."""

    def __init__(self, node: IoNode, connection: Connection, process: JobProcess) -> None:
        self._node, self._connection, self.process = node, connection, process
        self._dispatch, self._watch = node.dispatch, node.watch
        self._caller, self._speaks_for_all = identify_client(connection)
        self._watches = False
        self._readable: dict[int, NodeFile] = {}
        # Clients that speak for all users have checked themselves what each may do with an open file.
        self._writable: dict[int, NodeFile] = self._readable if self._speaks_for_all else {}
        self._requests: set[Request] = set()
        other_end = connection.process_at_other_end()
        self.process_number = other_end.number if other_end is not None else 0
        self._held = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._paused = self._ending = False
        self._flow = process.flow
        self.gone = False
        self._owed_before = 0, 0
        self.stalled = 0.0
        self.close = connection.close
        connection.redirect(self._receive, self._lose)
        connection.received_all = self._dispatch.pump_arrival

    def is_idle(self) -> bool:
        return not (self._requests or self._tasks or self._connection.queued)

    def drain(self) -> None:
        """Read no more requests; those in progress still get answers."""
        self._ending = True
        self._pause()

    def resume(self) -> bool:
        """Read from the client again; return False if it has too much in progress itself."""
        if self._ending or self._is_over_limit():
            return False
        self._paused = False
        self._connection.resume()
        return True

    def update_stall(self, seconds: float) -> None:
        """Measure for how long the client has not read its answers, or has left a message incomplete."""
        owed = self._connection.queued, self._connection.partial_bytes
        self.stalled = self.stalled + seconds if any(owed) and owed == self._owed_before else 0.0
        self._owed_before = owed

    # Reads and writes

    def _receive(self, _connection: Connection, message: Message) -> None:
        kind = message.kind
        try:
            if kind in _DATA:
                self._start_request(message, 1 if kind == _WRITE else 0)
            elif kind in _QUERIES and not message.flags & Flag.REPLY:
                self._start_query(message)
            else:
                raise BadMessage(f"unexpected message from a client: {message!r}")
        except BadMessage:
            raise
        except Exception as error:
            self._abort(message, error)

    def _start_request(self, message: Message, write: int) -> None:
        file = (self._writable if write else self._readable).get(message.file)
        offset, size = message.offset, len(message.payload) if write else message.size
        if file is None or size > LONGEST or offset + size > (file.reach if write else LAST_OFFSET):
            self._start_unusual_request(message, file, size, write)
            return
        now, node, process, number = time_ns(), self._node, self.process, file.number
        request = Request(self, message, file, size, write, self._flow, now)
        row = process.rows[number]
        count_arrival(self._watch, process.uses, process.times, now, number, row, offset, size, write)
        self._requests.add(request)
        self._held += size
        node.admitted += size
        self._dispatch.submit(request, now)
        if node.is_crowded() or is_over_limit(self._held, len(self._requests), len(self._tasks)):
            self._pause()

    def _start_unusual_request(self, message: Message, file: NodeFile | None, size: int, write: int) -> None:
        """Refuse a request, or prepare the file for a write that is the first one beyond its first stripe."""
        if file is None:
            if message.file in self._readable or message.file in self._writable:
                self._send_error(message, errno.EBADF, f"the file is not open to {'write' if write else 'read'}")
            else:
                self._send_error(message, errno.ESTALE, "the file is not open at this I/O node; open it again")
        elif size > LONGEST:
            self._send_error(message, errno.EINVAL, f"a request must not exceed {LONGEST} bytes")
        elif message.offset + size > LAST_OFFSET:
            self._send_error(message, errno.EFBIG, "the offset is beyond 2^63")
        else:
            self._held += size
            self._begin(self._extend_reach(message, file, size), partial(self._abort, message))
            if self._is_over_limit():
                self._pause()

    async def _extend_reach(self, message: Message, file: NodeFile, size: int) -> None:
        """Let writes reach all of the file, and begin the write again."""
        try:
            await self._node.backend.extend_reach(file)
        except (OSError, BadMessage) as error:
            self._send_error(message, getattr(error, "errno", None) or errno.EIO, str(error))
        else:
            self._start_request(message, 1)
            self._dispatch.pump_arrival()
        finally:
            self._held -= size

    def finish(self, requests: list[Request]) -> None:
        """Answer the client, now that all pieces of these requests have answers."""
        out: list[Bytes] = []
        reads: list[Request] = []
        writes: list[Request] = []
        for request in requests:
            try:
                if request.status or self.gone:
                    self._send_failure(request)
                elif request.write:
                    out += status_answer(request)
                    writes.append(request)
                elif answer := self._build_data_answer(request):
                    out += answer
                    reads.append(request)
            except Exception as error:
                self._abort_request(request, error)
        if out:
            self._connection.send(out, partial(self._forget, reads) if reads else None)
            if writes:
                self._forget(writes)

    def _build_data_answer(self, request: Request) -> list[Bytes] | None:
        """The answer to a read; None if the file's size must be known first."""
        length = sum(map(len, request.parts))  # type: ignore[arg-type]
        if length == request.size:
            return data_answer(request, order_parts(request), length)
        if request.known_size is not None:
            parts = fill_holes(request, request.known_size)
            return data_answer(request, parts, sum(map(len, parts)))
        self._begin(self._complete_short_read(request), partial(self._abort_request, request))
        return None

    def _abort_request(self, request: Request, error: Exception) -> None:
        def forget() -> None:
            if request in self._requests:
                self._forget([request])

        self._abort(request.message, error)
        asyncio.get_running_loop().call_soon(forget)  # the end of the connection may still use it

    def _abort(self, message: Message, error: Exception) -> None:
        """Close the connection after a bug on this side, so that the client does not wait for ever."""
        self._node.counts["internal"] += 1
        print(f"forebay: ion: {message!r}: {error!r}", file=sys.stderr)
        self.close(CloseReason.INTERNAL, "internal error")

    async def _complete_short_read(self, request: Request) -> None:
        """Some servers had fewer bytes: the file ends there, or it has a hole; its size shows which.

        If the file is longer, another client may have written the missing bytes in the meantime: read again. Bytes that
        are still missing are a hole.
        """
        try:
            size = await self._node.backend.file_size(request.file, request.message.session)
        except (OSError, BadMessage) as error:
            reason = getattr(error, "strerror", None) or str(error)
            request.fail(getattr(error, "errno", None) or errno.EIO, reason)
        if request.status or self.gone:
            self._send_failure(request)
        elif (length := sum(map(len, prefix := fill_holes(request, 0)))) >= min(
            size - request.message.offset, request.size
        ):
            self._connection.send(data_answer(request, prefix, length), partial(self._forget, [request]))
        else:
            request.release_parts()
            request.restart(size)
            self._dispatch.submit(request, time_ns())
            self._dispatch.pump_arrival()

    def _send_failure(self, request: Request) -> None:
        if not self.gone:
            self._send_error(request.message, request.status or errno.EIO, request.reason)
        self._forget([request])

    def _forget(self, requests: list[Request]) -> None:
        now, node, watch, times = time_ns(), self._node, self._watch, self.process.times
        for request in requests:
            if not request.write:
                request.release_parts()
            request.message.release()
            self._requests.discard(request)
            self._held -= request.size
            node.admitted -= request.size
            count_answer(watch, times, now, request.began, request.write)
        if self.gone and not self._requests:
            node.unfinished.discard(self)
        if node.waits:
            node.resume_waiting()

    # Everything else

    def _start_query(self, message: Message) -> None:
        try:
            request = read_request(message.kind, message.payload)
        except WrongFields as error:
            self._send_error(message, errno.EINVAL, str(error))
            return
        message.detach()
        if isinstance(request, payloads.PathRequest):
            request.caller = self._vouch(request.caller)
            message.payload = pack(request)
        self._begin(self._answer(message, request), partial(self._abort, message))
        if self._is_over_limit():
            self._pause()

    def _vouch(self, claimed: payloads.Caller | None) -> payloads.Caller:
        """The user for whom this client makes a request, as far as this node knows it."""
        if claimed is None or not self._speaks_for_all:
            return self._caller
        return payloads.Caller(claimed.uid, claimed.gid, claimed.groups, self._caller.uid, self._caller.holder)

    async def _answer(self, message: Message, request: payloads.Payload | None) -> None:
        began = time_ns()
        try:
            answer = await self._carry_out(message, request)
            self._send_answer(message, answer.payload, file=answer.file)
            if isinstance(request, AddRequest):
                self._count_new_files(request, began)
        except (OSError, BadMessage) as error:  # a BadMessage comes from a server
            reason = getattr(error, "strerror", None) or str(error)
            self._send_error(message, getattr(error, "errno", None) or errno.EIO, reason)
        self.process.other_time += time_ns() - began

    def _count_new_files(self, request: AddRequest, began: int) -> None:
        layout, now = payloads.read_layout(request.layout), time_ns()
        for each in request.files:
            if each.data:
                self.process.count_new_file(began, now, each.file, layout, len(each.data))

    async def _carry_out(self, message: Message, request: payloads.Payload | None) -> Answer:
        if message.kind == Kind.CLOSE:
            assert isinstance(request, payloads.NodeList)
            for file in request.nodes:
                self._close(file)
            return Answer()
        if message.kind == Kind.FENCE:
            await self._node.backend.fence(message.file)
            return Answer()
        if message.kind in _ABOUT_LEASES:
            self._check_holder(message.file)
            if message.kind == Kind.WATCH:
                self._node.watchers.add(message.file, self)  # a recall may follow the answer at once
                self._watches = True
        if isinstance(request, payloads.LockRequest):
            if message.file not in self._readable and message.file not in self._writable:
                raise OSError(errno.ESTALE, "the file is not open at this I/O node; open it again")
            self._node.watch_holder(request.client, self.process_number)
        if message.kind == Kind.TOUCH and not self._speaks_for_all:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        if message.kind in _CHANGES and not self._speaks_for_all and message.file not in self._writable:
            raise OSError(errno.EBADF, "the file is not open to write")
        answer = await self._node.backend.answer(message, request)
        if answer.opened is not None:
            self._add_file(answer.file, answer.opened, answer.access)
            if self.gone:  # the client will not close it
                self._close(answer.file)
        return answer

    # Leases

    def recall(self, message: Message) -> None:
        self._connection.send([message.header(), message.payload])

    def end_watch(self) -> None:
        self._watches = False
        self.close(CloseReason.SHUTDOWN, "the server of the names is lost")

    def _check_holder(self, holder: int) -> None:
        if not holder or holder != self._caller.holder:
            raise OSError(errno.EPERM, "only a mount itself can watch for its leases")

    def _add_file(self, file: int, layout: Layout, access: int) -> None:
        opened = self._readable.get(file) or self._writable.get(file) or self._node.open_file(file, layout)
        for files, bit in ((self._readable, _READ_ACCESS), (self._writable, _WRITE_ACCESS)):
            if access & bit or self._speaks_for_all:
                files[file] = opened
        self.process.add_file(opened.number, file, layout)

    def _close(self, file: int) -> None:
        readable, writable = self._readable.pop(file, None), self._writable.pop(file, None)
        if readable is not None or writable is not None:
            self._node.close_file(file)

    def _send_error(self, message: Message, status: int, reason: str) -> None:
        message.release()
        self._send_answer(message, reason.encode()[:1000] or os.strerror(status).encode(), status=status)

    def _send_answer(self, message: Message, payload: bytes, *, status: int = 0, file: int = 0) -> None:
        crc = checksum((payload,)) if message.flags & Flag.CHECKED else 0
        self._connection.send((answer_header(message, status=status, file=file, length=len(payload), crc=crc), payload))

    def _lose(self, _connection: Connection, closed: Closed) -> None:
        self.gone = True
        if self._requests:
            self._node.unfinished.add(self)
        for request in tuple(self._requests):
            self._dispatch.withdraw(request, errno.EIO, "the client has disconnected")
        for file in {*self._readable, *self._writable}:
            self._node.backend.keep_for_return(file)
            self._close(file)
        holder = self._caller.holder
        if self._watches and self._node.watchers.remove(holder, self) and closed.reason is CloseReason.GONE:
            self._node.backend.end_watch(holder)
        self._node.remove_session(self, closed.reason)

    def _is_over_limit(self) -> bool:
        return is_over_limit(self._held, len(self._requests), len(self._tasks))

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._connection.pause()
            self._node.waits.add(self)

    def _begin(self, work: Coroutine[Any, Any, None], failed: Callable[[Exception], None]) -> None:
        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                failed(error)
            if self._paused:
                self._node.resume_waiting()

        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(end)
