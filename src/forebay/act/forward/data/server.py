"""A data server holds its share of the bytes of every file, and names.

The first server of a layer holds the names of all folders that no other server has taken over (folder_moves.py).

It is one process with one loop, which reads and writes directly (to the page cache). An fsync runs in a thread.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, closing, suppress
from functools import partial
from zlib import crc32

from forebay.act.forward.daemon import Numbers, Ready, run_daemon
from forebay.act.forward.data.disk_space import DiskSpace
from forebay.act.forward.data.fences import Fences
from forebay.act.forward.data.lock_server import LockServer
from forebay.act.forward.data.name_service import Handler, NameService
from forebay.act.forward.data.objects import FOLDER as OBJECTS
from forebay.act.forward.data.objects import Objects
from forebay.act.forward.data.server_folder import ServerFolder
from forebay.act.forward.data.settings import ServerSettings
from forebay.act.forward.data.untrusted_tree import sync_all
from forebay.act.forward.metrics import ADMISSION, SERVER
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.admission import NodeListener
from forebay.act.forward.net.auth import Credentials, Peer
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.connection import Closed, CloseReason, Connection
from forebay.act.forward.net.payloads import (
    AllocateRequest,
    FileStatus,
    LeaseRequest,
    LockRequest,
    Payload,
    listed_nodes,
)
from forebay.act.forward.net.request_payloads import read_request
from forebay.act.forward.net.wire import (
    AGAIN,
    LONGEST,
    BadMessage,
    Bytes,
    Flag,
    Kind,
    Message,
    answer_header,
    pack,
    split_sessions,
)
from forebay.act.metrics import Sample
from forebay.model.errors import BadInput, why

_MOST_SYNCING = 128
_THREADS = 4
_COUNTED = ("reads", "writes", "bytes_read", "bytes_written", "fsyncs", "names", "failed")


class Server:
    """Listens at `address` from its creation, in a running loop, until `close`."""

    def __init__(self, settings: ServerSettings) -> None:
        self._loop, self._index, self._servers = asyncio.get_running_loop(), settings.index, settings.servers
        self.buffers = Buffers()
        self.counts: Counter[str] = Counter()
        self._syncing = 0
        self._closed = False
        self._waiting: set[Connection] = set()
        with ExitStack() as held:
            folder = held.enter_context(closing(ServerFolder(settings.folder, settings.index, settings.servers)))
            facts = {"index": settings.index, "servers": settings.servers, "sharded": folder.sharded}
            me = Credentials(settings.key, Peer(role="server", name=str(settings.index), facts=facts), ("node",))
            space = DiskSpace(settings.folder)
            space.release_if_low()
            self._fenced = held.enter_context(closing(Fences(settings.folder / "fenced")))
            self._objects = held.enter_context(closing(Objects(settings.folder / OBJECTS, settings.most_open, space)))
            names = NameService(
                settings, self._objects, space, sharded=folder.sharded,
                answer=self._answer, receive=self._receive, counts=self.counts,
            )  # fmt: skip
            self._names = held.enter_context(closing(names))
            self._locks = held.enter_context(closing(self._open_locks(settings))) if settings.index == 0 else None
            disk = settings.emulation.disk(self._loop) if settings.emulation else None
            self._disk = held.enter_context(closing(disk)) if disk else None
            self._threads = ThreadPoolExecutor(_THREADS, "fsync")
            held.callback(self._threads.shutdown, wait=False)
            self._handlers = self._build_handlers(space)
            listening = {"buffers": self.buffers, "counts": self.counts, "timeout": settings.timeout}
            self._listener = NodeListener(settings.address, me, self._receive, self._lose, **listening)
            space.keep_spare()
            self._release = held.pop_all().close
        self.address, self.nodes = self._listener.address, self._listener.nodes

    async def close(self) -> None:
        """Stop, once running fsyncs are complete. The kernel has all other bytes that were acknowledged."""
        if self._closed:
            return
        self._closed = True
        with suppress(OSError):
            self._listener.close()
            await asyncio.sleep(0)
            await self._loop.run_in_executor(None, self._threads.shutdown)
            self._release()

    def metrics(self) -> Iterator[Sample]:
        yield SERVER["info"].number(1, str(self._index))
        for name in _COUNTED:
            yield SERVER[name].number(self.counts[name])
        yield SERVER["nodes"].number(len(self.nodes))
        events = {name: count for name, count in self.counts.items() if name not in _COUNTED}
        yield from SERVER["events"].counts(events, (*ADMISSION, "fences", "replaced"))
        yield SERVER["buffers_bytes"].number(self.buffers.out)

    def _build_handlers(self, space: DiskSpace) -> dict[int, Callable[[Connection, Message], None]]:
        objects = self._objects
        plain: dict[int, Handler] = {
            Kind.TRUNCATE: lambda message: objects.truncate(message.file, message.offset),
            Kind.FORGET: self._forget,
            Kind.SIZE: lambda message: objects.size(message.file, message.size, not message.offset),
            Kind.TOUCH: self._touch,
            Kind.ALLOCATE: self._allocate,
            Kind.FENCE: self._fence,
            Kind.STATFS: lambda _: space.measure(),
        }
        handlers: dict[int, Callable[[Connection, Message], None]]
        handlers = {kind: partial(self._answer, handler) for kind, handler in plain.items()}
        handlers |= self._names.handlers
        if self._locks is not None:
            handlers |= {Kind.LOCK: self._lock, Kind.LEASE: partial(self._answer, self._renew_lease)}
        return {**handlers, Kind.READ: self._read, Kind.WRITE: self._write, Kind.FSYNC: self._fsync}

    def _lose(self, connection: Connection, _: Closed) -> None:
        self._waiting.discard(connection)
        self._names.lose(connection)
        if self._locks is not None and not self._closed:
            self._locks.lose(connection)

    # Locks

    def _open_locks(self, settings: ServerSettings) -> LockServer:
        try:
            return LockServer(settings.folder, enabled=settings.locks, lease=settings.lease)
        except OSError as error:
            raise BadInput(str(settings.folder), f"cannot open the locks: {why(error)}") from None

    def _lock(self, connection: Connection, message: Message) -> None:
        request = read_request(message.kind, message.payload)
        assert isinstance(request, LockRequest)
        assert self._locks is not None
        reply = partial(self._answer_later, connection, message)
        self._locks.ask(message.file, request, connection, reply)

    def _answer_later(self, connection: Connection, message: Message, answer: Payload) -> None:
        self._answer(lambda _: answer, connection, message)

    def _renew_lease(self, message: Message) -> Payload | None:
        request = read_request(message.kind, message.payload)
        assert isinstance(request, LeaseRequest)
        assert self._locks is not None
        return self._locks.renew(request)

    # Removal and space

    def _forget(self, message: Message) -> None:
        for file in listed_nodes(message):
            self._objects.forget(file)

    def _touch(self, message: Message) -> None:
        for file in listed_nodes(message):
            self._objects.touch(file)

    def _allocate(self, message: Message) -> None:
        request = read_request(message.kind, message.payload)
        assert isinstance(request, AllocateRequest)
        self._objects.allocate(message.file, request)

    # Requests

    def _receive(self, connection: Connection, message: Message) -> None:
        handler = self._handlers.get(message.kind)
        if handler is None or message.flags & Flag.REPLY:
            self.counts["malformed"] += 1
            connection.close(CloseReason.MALFORMED, f"unexpected message from an I/O node: {message!r}")
            return
        try:
            if self._is_fenced(message):
                self._refuse(connection, message, errno.ESTALE)
            else:
                handler(connection, message)
        except OSError as error:
            self._refuse(connection, message, error.errno or errno.EIO)
        except BadMessage as error:
            self.counts["malformed"] += 1
            message.release()
            connection.close(CloseReason.MALFORMED, str(error))
        except Exception as error:  # a bug: only this request fails
            print(f"forebay: server: {message!r}: {error!r}", file=sys.stderr)
            self._refuse(connection, message, errno.EIO)

    def _is_fenced(self, message: Message) -> bool:
        """Whether this server refuses a session of the message."""
        if message.flags & Flag.SESSIONS:
            return any(session in self._fenced for session in split_sessions(message))
        return message.session in self._fenced

    def _refuse(self, connection: Connection, message: Message, status: int) -> None:
        self.counts["failed"] += 1
        message.release()
        connection.send([answer_header(message, status=status)])

    def _answer(self, handler: Handler, connection: Connection, message: Message) -> None:
        answer = handler(message)
        message.release()
        payload = pack(answer) if answer is not None else b""
        if len(payload) > LONGEST:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
        crc = crc32(payload) if message.flags & Flag.CHECKED else 0
        file = (answer.file or 0) if isinstance(answer, FileStatus) else 0
        connection.send([answer_header(message, file=file, length=len(payload), crc=crc), payload])

    def _read(self, connection: Connection, message: Message) -> None:
        size = message.size
        if size > LONGEST:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        buffer = self.buffers.take(size)
        try:
            count = self._objects.read(message.file, message.offset, buffer[:size])
        except BaseException:
            self.buffers.give(buffer)
            raise
        data = buffer[:count]
        crc = crc32(data) if message.flags & Flag.CHECKED else 0
        self.counts["reads"] += 1
        self.counts["bytes_read"] += count
        header = answer_header(message, size=count, length=count, crc=crc)
        self._send(connection, message, size, [header, data], partial(self.buffers.give, buffer))

    def _write(self, connection: Connection, message: Message) -> None:
        count = self._objects.write(message.file, message.offset, message.payload)
        message.release()
        self.counts["writes"] += 1
        self.counts["bytes_written"] += count
        status = self._objects.pack_status(message.file) if message.size and not message.flags & Flag.SESSIONS else b""
        crc = crc32(status) if message.flags & Flag.CHECKED else 0
        header = answer_header(message, size=count, length=len(status), crc=crc)
        self._send(connection, message, count, [header, status] if status else [header], None)

    def _send(
        self, connection: Connection, message: Message, size: int, pieces: list[Bytes], done: Callable[[], None] | None
    ) -> None:
        """Answer now, or when the emulated disk has served the request."""
        if self._disk is None:
            connection.send(pieces, done)
        else:
            write = message.kind == Kind.WRITE
            name = connection.peer.name
            self._disk.serve(name, message.file, message.offset, size, write, partial(connection.send, pieces, done))

    def _fsync(self, connection: Connection, message: Message) -> None:
        descriptors = self._objects.descriptors_to_sync(message.file)
        descriptors += self._names.descriptors_to_sync()
        message.release()
        self._syncing += 1
        if self._syncing >= _MOST_SYNCING:
            self._waiting.add(connection)
            connection.pause()
        work = self._loop.run_in_executor(self._threads, sync_all, descriptors)
        work.add_done_callback(partial(self._after_sync, connection, message))

    def _after_sync(self, connection: Connection, message: Message, work: asyncio.Future[None]) -> None:
        self._syncing -= 1
        while self._waiting and self._syncing < _MOST_SYNCING:
            self._waiting.pop().resume()
        error = work.exception() if not work.cancelled() else None
        if error is not None:
            self._objects.sync_failed(message.file)
        status = 0 if error is None else getattr(error, "errno", None) or errno.EIO
        self.counts["fsyncs"] += 1
        connection.send([answer_header(message, status=AGAIN if work.cancelled() else status)])

    def _fence(self, message: Message) -> None:
        if not message.file:  # the I/O nodes' own requests have no session
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._fenced.add(message.file)
        self.counts["fences"] += 1


def run_server(settings: ServerSettings, metrics: str | None, ready: Ready) -> None:
    """Run a data server until a signal ends it."""

    async def start(stack: AsyncExitStack, _end: asyncio.Event) -> tuple[list[Address], Numbers]:
        server = Server(settings)
        stack.push_async_callback(server.close)
        return [server.address], server.metrics

    run_daemon(start, metrics, ready)
