"""The back end of data servers: files striped over them, names kept by the first."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from forebay.act.forward.net import payloads
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.auth import Peer
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.payloads import find_operation, read_layout
from forebay.act.forward.net.wire import BadMessage, Kind, Message, pack, unpack_as
from forebay.act.forward.node.backend import Answer, Answered, Backend, Changed, Query, Refused
from forebay.act.forward.node.dispatch import Batch, NodeFile
from forebay.act.forward.node.server_link import ServerLink
from forebay.act.forward.striping import Piece, file_size, pieces, servers_of, shares
from forebay.model.layout import Layout

_KEPT_BUFFERS = 128 << 20
Asks = Iterable[Coroutine[Any, Any, Message]]


class StripedFile:
    """An open file; every request calls `pieces`."""

    __slots__ = ("_count", "_servers", "_size", "file", "layout", "number")

    def __init__(self, file: int, number: int, layout: Layout, servers: int) -> None:
        self.file, self.number, self.layout = file, number, layout
        self._size, self._count, self._servers = layout.size, layout.count, servers

    def pieces(self, offset: int, length: int) -> Sequence[Piece]:
        """As `striping.pieces`, with a short cut for requests within one stripe."""
        stripe, within = divmod(offset, self._size)
        if not 0 < length <= self._size - within:
            return pieces(self.layout, self._servers, offset, length)
        row, place = divmod(stripe, self._count)
        return (Piece((self.layout.start + place) % self._servers, row * self._size + within, length, 0),)


class DataServers(Backend):
    """`addresses` are those of the servers in order; a request waits `patience` seconds for a missing one."""

    def __init__(
        self, addresses: Sequence[Address], key: bytes, me: Peer, *, patience: float, buffers: Buffers | None = None
    ) -> None:
        self.count = len(addresses)
        self.up = [False] * self.count
        self._patience = patience
        # Admitted requests bound the answers, which must never wait for memory.
        buffers = buffers or Buffers(1 << 62, kept=_KEPT_BUFFERS)
        self.links = [
            ServerLink(number, address, key, me, buffers, servers=self.count, changed=self._on_change)
            for number, address in enumerate(addresses)
        ]
        self._changed: Changed = lambda _server, _up: None
        self._layouts: dict[int, Layout] = {}  # of files that are open here
        self._dirty: list[ServerLink] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def report_to(self, answered: Answered, refused: Refused, changed: Changed) -> None:
        self._changed = changed
        for link in self.links:
            link.report_to(answered, refused)

    async def start(self) -> None:
        for link in self.links:
            self._begin(link.keep_connected())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def absence(self, server: int) -> str:
        link = self.links[server]
        return f"{link.name} is away for more than {self._patience:g} s: {link.problem}"

    def send(self, slot: int, server: int, batch: Batch) -> None:
        link = self.links[server]
        if not link.pending:
            self._dirty.append(link)
        link.put(slot, batch)

    def flush(self) -> None:
        for link in self._dirty:
            link.flush()
        self._dirty.clear()

    def drop_overdue(self, timeout: float) -> None:
        for link in self.links:
            link.drop_overdue(timeout)

    def open_file(self, file: int, number: int, layout: Layout) -> NodeFile:
        if layout.start < 0 or layout.count > self.count:
            raise OSError(errno.EINVAL, f"a layout of {layout.count} servers from {layout.start} on")
        self._layouts[file] = layout
        return StripedFile(file, number, layout, self.count)

    def close_file(self, file: NodeFile) -> None:
        assert isinstance(file, StripedFile)
        self._layouts.pop(file.file, None)

    async def file_size(self, file: NodeFile, session: int) -> int:
        assert isinstance(file, StripedFile)
        return (await self._measure(file.file, file.layout, session)).size

    async def fence(self, session: int) -> None:
        await _all(link.ask(Kind.FENCE, file=session, within=self._patience) for link in self.links)

    async def answer(self, query: Query) -> Answer:
        operation = find_operation(self, query.kind)
        if operation is None:
            return Answer(payload=bytes((await self._ask_names(query)).payload))
        answer: Answer = await operation(query)
        return answer

    # What clients ask

    async def do_open(self, query: Query) -> Answer:
        reply = await self._ask_names(query)
        layout = read_layout(unpack_as(payloads.FileStatus, reply.payload).layout)
        return Answer(payload=bytes(reply.payload), file=reply.file, opened=layout)

    do_attach = do_open

    async def do_stat(self, query: Query) -> Answer:
        status = unpack_as(payloads.FileStatus, (await self._ask_names(query)).payload)
        if not status.folder:
            objects = await self._measure(status.id or 0, read_layout(status.layout), query.session)
            status.size, status.allocated = objects.size, objects.allocated
            status.mtime = objects.mtime if objects.mtime > status.stamp else status.mtime
            status.ctime = max(status.ctime, objects.mtime)
        return Answer(payload=pack(status), file=status.id or 0)

    async def do_setattr(self, query: Query) -> Answer:
        request = query.request
        assert isinstance(request, payloads.AttributesRequest)
        if request.mtime is not None:
            path = b"" if request.path is None else pack(payloads.PathRequest(path=request.path))
            question = Query(kind=Kind.STAT, session=query.session, file=query.file, payload=path)
            status = unpack_as(payloads.FileStatus, (await self._ask_names(question)).payload)
            if not status.folder:
                objects = await self._measure(status.id or 0, read_layout(status.layout), query.session)
                request.stamp = objects.mtime
        await self._ask_names(Query(kind=query.kind, session=query.session, file=query.file, payload=pack(request)))
        return Answer()

    async def do_truncate(self, query: Query) -> Answer:
        layout = await self._layout_of(query)
        await _all(
            self._ask(server, Kind.TRUNCATE, query, offset=share)
            for server, share in zip(servers_of(layout, self.count), shares(layout, query.offset), strict=True)
        )
        return Answer()

    async def do_fsync(self, query: Query) -> Answer:
        servers = {0, *servers_of(await self._layout_of(query), self.count)}  # the first has the file's name
        await _all(self._ask(server, Kind.FSYNC, query) for server in sorted(servers))
        return Answer()

    async def do_unlink(self, query: Query) -> Answer:
        for file, layout in unpack_as(payloads.ForgetList, (await self._ask_names(query)).payload).forget:
            self._begin(self._remove_objects(file, read_layout(layout)))
        return Answer()

    do_rename = do_unlink

    async def do_statfs(self, query: Query) -> Answer:
        replies = await _all(self._ask(server, Kind.STATFS, query) for server in range(self.count))
        spaces = [unpack_as(payloads.Space, reply.payload) for reply in replies]
        fields = payloads.Space.__struct_fields__
        return Answer(payload=pack({name: sum(getattr(space, name) for space in spaces) for name in fields}))

    # Steps of these

    async def _layout_of(self, query: Query) -> Layout:
        known = self._layouts.get(query.file)
        if known is not None:
            return known
        reply = await self._ask_names(Query(kind=Kind.ATTACH, session=query.session, file=query.file))
        return read_layout(unpack_as(payloads.FileStatus, reply.payload).layout)

    def _ask_names(self, query: Query) -> Coroutine[Any, Any, Message]:
        return self._ask(0, Kind(query.kind), query, query.offset, query.payload)

    def _ask(
        self, server: int, kind: Kind, query: Query, offset: int = 0, payload: bytes = b""
    ) -> Coroutine[Any, Any, Message]:
        return self.links[server].ask(
            kind, file=query.file, offset=offset, session=query.session, payload=payload, within=self._patience
        )

    async def _measure(self, file: int, layout: Layout, session: int) -> payloads.ObjectSize:
        """The size of the file, the latest time of its objects, and the bytes of disk that they take."""
        query = Query(kind=Kind.SIZE, file=file, session=session)
        replies = await _all(self._ask(server, Kind.SIZE, query) for server in servers_of(layout, self.count))
        objects = [unpack_as(payloads.ObjectSize, reply.payload) for reply in replies]
        return payloads.ObjectSize(
            size=file_size(layout, [each.size for each in objects]),
            mtime=max(each.mtime for each in objects),
            allocated=sum(each.allocated for each in objects),
        )

    async def _remove_objects(self, file: int, layout: Layout) -> None:
        """Remove the objects of a file without a name; what fails now is repeated when the server is back."""
        query = Query(kind=Kind.FORGET, file=file, session=0)
        try:
            await _all(self._ask(server, Kind.FORGET, query) for server in servers_of(layout, self.count))
            await self._ask(0, Kind.FORGOTTEN, query)
        except (OSError, BadMessage):
            pass  # it stays in the list of pending files

    async def _remove_pending(self) -> None:
        try:
            reply = await self._ask(0, Kind.PENDING, Query(kind=Kind.PENDING, session=0))
            pending = unpack_as(payloads.ForgetList, reply.payload)
        except (OSError, BadMessage):
            return
        for file, layout in pending.forget:
            await self._remove_objects(file, read_layout(layout))

    def _on_change(self, server: int, up: bool) -> None:
        self.up[server] = up
        self._changed(server, up)
        if up and all(link.up for link in self.links):
            self._begin(self._remove_pending())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _all(asks: Asks) -> list[Message]:
    """All replies; if one is an error, raise it once all are there."""
    replies: list[Message] = []
    for reply in await asyncio.gather(*asks, return_exceptions=True):
        if isinstance(reply, BaseException):
            raise reply
        replies.append(reply)
    return replies
