"""The back end of data servers: files are striped over them, and the first one keeps the names."""

import asyncio
import errno
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

from forebay.act.forward.net import payloads
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.auth import Credentials, Peer
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.payloads import Payload, read_layout
from forebay.act.forward.net.wire import BadMessage, Bytes, Kind, Message, pack, unpack_as
from forebay.act.forward.node.backend import Answer, Backend
from forebay.act.forward.node.dispatch import Batch, Dispatch, NodeFile
from forebay.act.forward.node.server_link import ServerLink
from forebay.act.forward.striping import Piece, file_size, pieces, servers_of, shares
from forebay.model.layout import Layout

_KEPT_BUFFERS = 128 << 20
PendingReply = Coroutine[Any, Any, Message]


class StripedFile:
    """An open file; every request calls `pieces`."""

    __slots__ = ("_count", "_servers", "_size", "file", "layout", "number")

    def __init__(self, file: int, number: int, layout: Layout, servers: int) -> None:
        self.file, self.number, self.layout = file, number, layout
        self._size, self._count, self._servers = layout.size, layout.count, servers

    def pieces(self, offset: int, length: int) -> Sequence[Piece]:
        """Cut a request as `striping.pieces` does, with a shortcut for requests within one stripe."""
        stripe, within = divmod(offset, self._size)
        if not 0 < length <= self._size - within:
            return pieces(self.layout, self._servers, offset, length)
        row, place = divmod(stripe, self._count)
        return (Piece((self.layout.start + place) % self._servers, row * self._size + within, length, 0),)


class DataServers(Backend):
    """The servers at `addresses`, in order; a request waits `patience` seconds for a missing one."""

    def __init__(
        self, addresses: Sequence[Address], key: bytes, me: Peer, *, patience: float, buffers: Buffers | None = None
    ) -> None:
        self.count = len(addresses)
        self.up = [False] * self.count
        self._patience = patience
        # Answers must never wait for memory; the limit on admitted requests bounds them.
        buffers = buffers or Buffers(1 << 62, kept=_KEPT_BUFFERS)
        credentials = Credentials(key, me, ("server",))
        self.links = [
            ServerLink(number, address, credentials, buffers, self.count) for number, address in enumerate(addresses)
        ]
        self._layouts: dict[int, Layout] = {}  # of files that are open here
        self._dirty: list[ServerLink] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, dispatch: Dispatch) -> None:
        def on_change(server: int, up: bool) -> None:
            self.up[server] = up
            (dispatch.unpark if up else dispatch.park)(server)
            if up and all(self.up):
                self._start_task(self._remove_pending())

        for link in self.links:
            link.dispatch, link.changed = dispatch, on_change
            self._start_task(link.keep_connected())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def absence(self, server: int) -> str:
        link = self.links[server]
        return f"{link.name} was not reachable for {self._patience:g} s: {link.problem}"

    def send(self, slot: int, server: int, batch: Batch) -> None:
        link = self.links[server]
        if not link.out:
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
            raise OSError(errno.EINVAL, f"layout does not fit {self.count} servers: {layout}")
        self._layouts[file] = layout
        return StripedFile(file, number, layout, self.count)

    def close_file(self, file: NodeFile) -> None:
        assert isinstance(file, StripedFile)
        self._layouts.pop(file.file, None)

    async def file_size(self, file: NodeFile, session: int) -> int:
        assert isinstance(file, StripedFile)
        return (await self._measure(file.file, file.layout, session)).size

    async def fence(self, session: int) -> None:
        await _gather(link.ask(Message(Kind.FENCE, file=session), self._patience) for link in self.links)

    # Requests of clients

    async def do_other(self, message: Message, _: Payload | None) -> Answer:
        return Answer(bytes((await self._ask_names(message)).payload))

    async def do_open(self, message: Message, _: Payload | None) -> Answer:
        reply = await self._ask_names(message)
        return Answer(bytes(reply.payload), reply.file, _read_status(reply).layout)

    do_attach = do_open

    async def do_stat(self, message: Message, _: Payload | None) -> Answer:
        status = _read_status(await self._ask_names(message))
        if not status.is_folder:
            objects = await self._measure(status.file or 0, status.layout, message.session)
            status.size, status.allocated = objects.size, objects.allocated
            status.mtime = status.time_of_change(objects.mtime)
            status.ctime = max(status.ctime, objects.mtime)
        return Answer(pack(status), status.file or 0)

    async def do_setattr(self, message: Message, request: payloads.AttributesRequest) -> None:
        if request.mtime is not None:
            path = b"" if request.path is None else pack(payloads.PathRequest(path=request.path))
            status = _read_status(await self._ask(0, Kind.STAT, message, payload=path))
            if not status.is_folder:
                request.stamp = (await self._measure(status.file or 0, status.layout, message.session)).mtime
        await self._ask(0, Kind.SETATTR, message, payload=pack(request))

    async def do_truncate(self, message: Message, _: None) -> None:
        layout = await self._layout_of(message)
        await _gather(
            self._ask(server, Kind.TRUNCATE, message, offset=share)
            for server, share in zip(servers_of(layout, self.count), shares(layout, message.offset), strict=True)
        )

    async def do_fsync(self, message: Message, _: None) -> None:
        servers = {0, *servers_of(await self._layout_of(message), self.count)}  # the first has the file's name
        await _gather(self._ask(server, Kind.FSYNC, message) for server in sorted(servers))

    async def do_unlink(self, message: Message, _: Payload) -> None:
        for file, layout in unpack_as(payloads.ForgetList, (await self._ask_names(message)).payload).forget:
            self._start_task(self._remove_objects(file, read_layout(layout)))

    do_rename = do_unlink

    async def do_statfs(self, message: Message, _: None) -> Answer:
        replies = await _gather(self._ask(server, Kind.STATFS, message) for server in range(self.count))
        spaces = [unpack_as(payloads.Space, reply.payload) for reply in replies]
        fields = payloads.Space.__struct_fields__
        return Answer(pack({name: sum(getattr(space, name) for space in spaces) for name in fields}))

    # Steps of these requests

    async def _layout_of(self, message: Message) -> Layout:
        known = self._layouts.get(message.file)
        return known or _read_status(await self._ask(0, Kind.ATTACH, message)).layout

    def _ask_names(self, message: Message) -> PendingReply:
        return self._ask(0, message.kind, message, message.offset, message.payload)

    def _ask(self, server: int, kind: int, of: Message, offset: int = 0, payload: Bytes = b"") -> PendingReply:
        """Ask a server about the file of a message, under its session."""
        request = Message(kind, file=of.file, offset=offset, session=of.session, payload=payload)
        return self.links[server].ask(request, self._patience)

    async def _measure(self, file: int, layout: Layout, session: int) -> payloads.ObjectSize:
        """Ask the servers for the size of a file, the latest mtime of its objects, and the disk space they take."""
        of = Message(Kind.SIZE, file=file, session=session)
        replies = await _gather(self._ask(server, Kind.SIZE, of) for server in servers_of(layout, self.count))
        objects = [unpack_as(payloads.ObjectSize, reply.payload) for reply in replies]
        return payloads.ObjectSize(
            size=file_size(layout, [each.size for each in objects]),
            mtime=max(each.mtime for each in objects),
            allocated=sum(each.allocated for each in objects),
        )

    async def _remove_objects(self, file: int, layout: Layout) -> None:
        """Remove the objects of an unlinked file; a server that fails does so when it is back."""
        of = Message(Kind.FORGET, file=file)
        with suppress(OSError, BadMessage):  # the file stays in the list of pending ones
            await _gather(self._ask(server, Kind.FORGET, of) for server in servers_of(layout, self.count))
            await self._ask(0, Kind.FORGOTTEN, of)

    async def _remove_pending(self) -> None:
        with suppress(OSError, BadMessage):
            reply = await self._ask(0, Kind.PENDING, Message(Kind.PENDING))
            for file, layout in unpack_as(payloads.ForgetList, reply.payload).forget:
                await self._remove_objects(file, read_layout(layout))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _read_status(reply: Message) -> payloads.FileStatus:
    return unpack_as(payloads.FileStatus, reply.payload)


async def _gather(asks: Iterable[PendingReply]) -> list[Message]:
    """Wait for all replies; then raise the first error, if any."""
    replies: list[Message] = []
    for reply in await asyncio.gather(*asks, return_exceptions=True):
        if isinstance(reply, BaseException):
            raise reply
        replies.append(reply)
    return replies
