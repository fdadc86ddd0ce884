"""The back end of data servers: files are striped over them, and they keep the names."""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from forebay.act.forward.data.system_calls import check_allocation
from forebay.act.forward.net import payloads
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.auth import Credentials, Peer
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.payloads import Payload
from forebay.act.forward.net.wire import LAST_OFFSET, BadMessage, Bytes, Kind, Message, pack, unpack_as
from forebay.act.forward.node.backend import Answer, Backend, Batch, NodeFile
from forebay.act.forward.node.name_routes import NameReply, NameRoutes
from forebay.act.forward.node.open_counts import OpenCounts
from forebay.act.forward.node.removed_objects import RemovedObjects
from forebay.act.forward.node.server_link import ServerLink
from forebay.act.forward.node.server_space import ServerSpace
from forebay.act.forward.node.striped_file import StripedFile
from forebay.act.forward.node.watchers import Watchers
from forebay.act.forward.striping import file_size, servers_of, shares
from forebay.model.layout import Layout

if TYPE_CHECKING:
    from forebay.act.forward.node.dispatch import Dispatch

_KEPT_BUFFERS = 128 << 20
_SOON = 0.25
"""Seconds between reports of closed files."""
_SELDOM = 20
"""How many reports to send between checks of the servers' space."""
_RETURN = 10.0
"""Seconds for which a lost client's files stay open, so that it can continue at another I/O node."""
T = TypeVar("T")
PendingReply = Coroutine[Any, Any, Message]


class DataServers(Backend):
    """The servers at `addresses`, in order; a request waits `patience` seconds for a missing one."""

    def __init__(
        self, addresses: Sequence[Address], key: bytes, me: Peer, *, patience: float, buffers: Buffers | None = None
    ) -> None:
        self.count, self.watchers = len(addresses), Watchers()
        self.up = [False] * self.count
        self._patience = patience
        # Answers must never wait for memory; the limit on admitted requests bounds them.
        buffers = buffers or Buffers(1 << 62, kept=_KEPT_BUFFERS)
        credentials = Credentials(key, me, ("server",))
        self.links = [
            ServerLink(number, address, credentials, buffers, self.count) for number, address in enumerate(addresses)
        ]
        self._routes = NameRoutes(self.links, patience)
        self._opens = OpenCounts(self._routes)
        self._removed = RemovedObjects(self.links, self._routes, patience)
        self._files: dict[int, StripedFile] = {}  # that are open here
        self._spread: set[int] = set()  # files of which that is known
        self._extending: dict[int, asyncio.Task[NameReply]] = {}  # by file
        self.space = ServerSpace()
        self._dirty: list[ServerLink] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, dispatch: Dispatch | None) -> None:
        """Without a dispatch, there are neither reads nor writes."""

        def on_change(server: int, up: bool) -> None:
            self.up[server] = up
            if dispatch is not None:
                (dispatch.unpark if up else dispatch.park)(server)
            if not up and server in self._routes.servers:
                self.watchers.end_all()
            if up:
                self._start_task(self._report_open_files(server))
                self._start_task(self._renew_watches(server))
            if up and all(self.up):
                self._start_task(self._removed.remove_pending())

        for link in self.links:
            if dispatch is not None:
                link.dispatch = dispatch
            link.changed, link.recall, link.arrive = on_change, self.watchers.recall, self._note_arrivals
            self._start_task(link.keep_connected())
        self._start_task(self._keep_house())

    async def close(self) -> None:
        self._removed.close()
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

    def send_alone(self, slot: int, server: int, batch: Batch) -> None:
        link = self.links[server]
        link.put(slot, batch)
        link.flush()

    def drop_overdue(self, timeout: float) -> None:
        for link in self.links:
            link.drop_overdue(timeout)

    def open_file(self, file: int, number: int, layout: Layout) -> NodeFile:
        if layout.start < 0 or layout.count > self.count:
            raise OSError(errno.EINVAL, f"layout does not fit {self.count} servers: {layout}")
        self._files[file] = opened = StripedFile(file, number, layout, self.count, spread=file in self._spread)
        return opened

    def close_file(self, file: NodeFile) -> None:
        assert isinstance(file, StripedFile)
        self._files.pop(file.file, None)
        self._note_closed(file.file)

    def end_watch(self, holder: int) -> None:
        self._start_task(self._tell_watch(holder, payloads.ENDED, self._routes.servers))

    def keep_for_return(self, file: int) -> None:
        self._opens.keep(file, monotonic() + _RETURN)

    async def file_size(self, file: NodeFile, session: int) -> int:
        assert isinstance(file, StripedFile)
        return await self._find_size(file, session)

    async def extend_reach(self, file: NodeFile) -> None:
        assert isinstance(file, StripedFile)
        if file.file not in self._extending:  # many writes may wait for it
            work = self._routes.ask(Message(Kind.SPREAD, file=file.file))
            self._extending[file.file] = asyncio.get_running_loop().create_task(work)
        try:
            await asyncio.shield(self._extending[file.file])
            file.reach = LAST_OFFSET
        finally:
            self._extending.pop(file.file, None)

    async def fence(self, session: int) -> None:
        await _gather(link.ask(Message(Kind.FENCE, file=session), self._patience) for link in self.links)

    # Requests of clients

    async def do_other(self, message: Message, request: Payload | None) -> Answer:
        self.space.name_unusable(message, request, self.up)
        return Answer(bytes((await self._routes.ask(message, request)).payload))

    async def do_open(self, message: Message, request: payloads.OpenRequest) -> Answer:
        self.space.name_unusable(message, request, self.up)
        status = await self._open(message, request)
        file, layout = status.file or 0, status.layout
        if request.truncate and not status.created:
            try:
                clear = bool(request.caller and request.caller.uid)
                await self._truncate(message, file, status.object_layout, 0, clear=clear)
            except BaseException:
                self._note_closed(file)
                raise
        return Answer(pack(status), file, layout, status.access)

    async def do_attach(self, message: Message, request: payloads.StatusRequest) -> Answer:
        status = await self._open(message, request)
        if request.content and status.access & payloads.READ_ACCESS:
            with suppress(OSError, BadMessage):  # a read reports the error
                await self._add_sizes(status, message.session, request.content)
        return Answer(pack(status), status.file or 0, status.layout, status.access)

    async def do_stat(self, message: Message, request: Payload | None) -> Answer:
        self.space.name_unusable(message, request, self.up)
        status = (await self._routes.ask(message, request)).read_status()
        may_keep = status.leased & payloads.LEASED_STATUS and status.access & payloads.READ_ACCESS
        content = request.content if may_keep and isinstance(request, payloads.StatusRequest) else 0
        await self._add_sizes(status, message.session, content, counts=False)
        return Answer(pack(status), status.file or 0)

    do_make = do_link = do_stat

    async def do_touch(self, message: Message, _: Payload) -> None:
        await _gather(self._ask(server, Kind.TOUCH, message, payload=message.payload) for server in range(self.count))

    async def do_watch(self, message: Message, _: Payload | None) -> None:
        """Ask all servers that are there for leases; the others hear of the mount when they are back."""
        await self._ask(0, Kind.WATCH, message)
        others = [server for server in self._routes.servers[1:] if self.up[server]]
        await self._tell_watch(message.file, payloads.STILL, others)

    async def do_recalled(self, message: Message, _: payloads.NodeList) -> None:
        """Tell all servers of names: folders may have moved since the leases were granted."""
        servers = [server for server in self._routes.servers if self.up[server] or not server]
        await _gather(self._ask(server, Kind.RECALLED, message, payload=message.payload) for server in servers)

    async def do_mkdir(self, message: Message, request: Payload | None) -> Answer:
        status = (await self._routes.ask(message, request)).read_status()
        return Answer(pack(status), status.file or 0)

    async def do_setattr(self, message: Message, request: payloads.AttributesRequest) -> Answer:
        if request.mtime is not None or request.atime is not None or request.mtime_now or request.atime_now:
            place = payloads.PathRequest(at=request.at, path=request.path, caller=request.caller)
            of = Message(Kind.STAT, file=message.file, session=message.session, payload=pack(place))
            status = (await self._routes.ask(of, place)).read_status()
            if status.has_bytes:
                objects = await self._measure(status.file or 0, status.object_layout, message.session)
                request.stamp, request.read_stamp = objects.mtime, objects.atime
        message.payload = pack(request)
        status = (await self._routes.ask(message, request)).read_status()
        await self._add_sizes(status, message.session)
        return Answer(pack(status), status.file or 0)

    async def do_truncate(self, message: Message, _: None) -> None:
        file = await self._find_file(message)
        if message.offset > file.reach:
            await self.extend_reach(file)
        await self._truncate(message, message.file, file.layout, message.offset, clear=bool(message.size))

    async def do_allocate(self, message: Message, request: payloads.AllocateRequest) -> None:
        file, begin, end = await self._find_file(message), request.offset, request.offset + request.length
        layout = file.layout
        check_allocation(request.mode)
        if end > file.reach:
            await self.extend_reach(file)
        ranges = zip(servers_of(layout, self.count), shares(layout, begin), shares(layout, end), strict=True)
        await _gather(
            self._ask(
                server,
                Kind.ALLOCATE,
                message,
                payload=pack(payloads.AllocateRequest(offset=first, length=last - first, mode=request.mode)),
            )
            for server, first, last in ranges
            if last > first
        )

    async def do_fsync(self, message: Message, _: None) -> None:
        servers = {0}  # it has the names of all folders
        if message.file == payloads.ROOT:
            servers.update(self._routes.servers)
        else:
            servers.add(self._routes.server_of(message.file))
            servers.update(servers_of((await self._find_file(message)).layout, self.count))
        await _gather(self._ask(server, Kind.FSYNC, message) for server in sorted(servers))

    async def do_lock(self, message: Message, request: payloads.LockRequest) -> Answer:
        reply = await self._ask(0, Kind.LOCK, message, payload=message.payload)
        if request.space != payloads.APPEND or request.kind == payloads.UNLOCKED:
            return Answer(bytes(reply.payload))
        answer = unpack_as(payloads.LockAnswer, reply.payload)
        if answer.granted:
            answer.size = await self._find_size(await self._find_file(message), message.session)
        return Answer(pack(answer))

    async def do_lease(self, message: Message, _: payloads.LeaseRequest) -> Answer:
        return Answer(bytes((await self._ask(0, Kind.LEASE, message, payload=message.payload)).payload))

    async def do_unlink(self, message: Message, request: Payload) -> Answer:
        reply = await self._routes.ask(message, request)
        answer = self._removed.remove_soon(reply.server, reply.payload)
        return Answer(pack(payloads.ForgetList(forget=[], folder=answer.folder)))

    do_rename = do_place = do_remove = do_unlink

    async def do_statfs(self, message: Message, _: None) -> Answer:
        spaces = await self._measure_space(message)
        fields = payloads.Space.__struct_fields__
        return Answer(pack({name: sum(getattr(space, name) for space in spaces) for name in fields}))

    # Steps of these requests

    async def _find_file(self, message: Message) -> StripedFile:
        """The file of a message, whether it is open here or not."""
        known = self._files.get(message.file)
        if known is None:
            of = Message(Kind.STAT, file=message.file, session=message.session)
            status = (await self._routes.ask(of)).read_status()
            known = StripedFile(message.file, -1, status.layout, self.count, spread=status.spread)
        return known

    async def _open(self, message: Message, request: Payload) -> payloads.FileStatus:
        reply = await self._routes.ask(message, request)
        status = reply.read_status()
        file = status.file or 0
        if not self._opens.add(file, reply.server):
            self._start_task(self._report_held([(file, 1)]))
        if status.spread:
            self._spread.add(file)
        return status

    def _note_closed(self, file: int) -> None:
        """Tell the server of the names soon that one open of a file that is not open here has ended."""
        if file not in self._files:
            self._spread.discard(file)
            self._opens.close(file)

    async def _truncate(self, message: Message, file: int, layout: Layout, size: int, *, clear: bool) -> None:
        """Cut or extend a file to `size` bytes, and note that it has changed, even if no object has."""
        of = Message(Kind.TRUNCATE, file=file, session=message.session)
        change = payloads.AttributesRequest(at=file, mtime_now=True, clear=clear)
        noted = Message(Kind.SETATTR, session=message.session, payload=pack(change))
        shorter = _gather(
            self._ask(server, Kind.TRUNCATE, of, offset=share)
            for server, share in zip(servers_of(layout, self.count), shares(layout, size), strict=True)
        )
        await _gather((shorter, self._routes.ask(noted, change)))

    async def _add_sizes(
        self, status: payloads.FileStatus, session: int, content: int = 0, *, counts: bool = True
    ) -> None:
        """Complete the status of a file by what the servers know that have its bytes."""
        if status.has_bytes and not status.created and not status.measured:
            of = status.file or 0, status.object_layout, session, content
            status.add_objects(await self._measure(*of, counts=counts))

    async def _measure_space(self, of: Message) -> list[payloads.Space]:
        """Ask all servers for their free space, and note which are full."""
        replies = await _gather(self._ask(server, Kind.STATFS, of) for server in range(self.count))
        spaces = [unpack_as(payloads.Space, reply.payload) for reply in replies]
        self.space.note(spaces)
        return spaces

    def _ask(
        self, server: int, kind: int, of: Message, offset: int = 0, payload: Bytes = b"", size: int = 0
    ) -> PendingReply:
        """Ask a server about the file of a message, under its session."""
        request = Message(kind, size=size, file=of.file, offset=offset, session=of.session, payload=payload)
        return self.links[server].ask(request, self._patience)

    async def _find_size(self, file: StripedFile, session: int) -> int:
        if file.reach == LAST_OFFSET:
            return (await self._measure(file.file, file.layout, session)).size
        status = (await self._routes.ask(Message(Kind.STAT, file=file.file, session=session))).read_status()
        await self._add_sizes(status, session)
        return status.size

    async def _measure(
        self, file: int, layout: Layout, session: int, content: int = 0, *, counts: bool = True
    ) -> payloads.ObjectSize:
        """Ask the servers for the size of a file, the latest mtime of its objects, and the disk space they take.

        Of a file with one object, also for its bytes, if there are at most `content`; this `counts` as a read, or not.
        """
        of, wish = Message(Kind.SIZE, file=file, session=session), content if layout.count == 1 else 0
        replies = await _gather(
            self._ask(server, Kind.SIZE, of, int(not counts), size=wish) for server in servers_of(layout, self.count)
        )
        objects = [unpack_as(payloads.ObjectSize, reply.payload) for reply in replies]
        if len(objects) == 1:
            return objects[0]
        return payloads.ObjectSize(
            size=file_size(layout, [each.size for each in objects]),
            mtime=max(each.mtime for each in objects),
            atime=max(each.atime for each in objects),
            allocated=sum(each.allocated for each in objects),
        )

    # Open files, and who watches

    async def _tell_watch(self, holder: int, offset: int, servers: Iterable[int]) -> None:
        for server in servers:
            with suppress(OSError, BadMessage):  # else its leases end by themselves, or it grants none
                await self._ask(server, Kind.WATCH, Message(Kind.WATCH, file=holder), offset=offset)

    async def _renew_watches(self, server: int) -> None:
        """Make mounts known to a server that was not there when they began to watch."""
        if server and server in self._routes.servers:
            for holder in self.watchers.holders:
                await self._tell_watch(holder, payloads.STILL, [server])

    async def _report_open_files(self, server: int) -> None:
        """Tell a server of names what is open here: it has restarted, or does not know this connection."""
        if server in self._routes.servers:
            files = payloads.OpenFiles(files=self._opens.report_all(server))
            with suppress(OSError, BadMessage):
                reply = await self._ask(server, Kind.OPENED, Message(Kind.OPENED), payload=pack(files))
                self._removed.remove_soon(server, reply.payload)

    async def _report_closed_files(self) -> None:
        for server, closed in self._opens.report_closed().items():
            if self.up[server]:  # a lost server learns what is open when it is back
                of, files = Message(Kind.CLOSED), payloads.OpenFiles(files=closed)
                with suppress(OSError, BadMessage):
                    reply = await self._ask(server, Kind.CLOSED, of, payload=pack(files))
                    self._removed.remove_soon(server, reply.payload)

    def _note_arrivals(self, message: Message) -> None:
        """Server 0 has taken over files, and asks what is open of them here."""
        held = self._opens.move_to_first(unpack_as(payloads.NodeList, message.payload).nodes)
        if held:
            self._start_task(self._report_held(held))

    async def _report_held(self, files: list[tuple[int, int]]) -> None:
        with suppress(OSError, BadMessage):  # a lost server learns what is open when it is back
            await self._ask(0, Kind.HELD, Message(Kind.HELD), payload=pack(payloads.OpenFiles(files=files)))

    async def finish_removals(self) -> None:
        """Say which files were closed here, and remove the objects of those that have no names."""
        await self._report_closed_files()
        await self._removed.remove_pending()

    async def _keep_house(self) -> None:
        """Report closed files, find full servers, and remove objects that others left behind."""
        for turn in itertools.count(1):
            await asyncio.sleep(_SOON)
            await self._report_closed_files()
            if turn % _SELDOM == 0 and all(self.up):
                with suppress(OSError, BadMessage):
                    await self._measure_space(Message(Kind.STATFS))
                await self._removed.remove_pending()

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _gather(asks: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all replies; then raise the first error, if any."""
    replies: list[T] = []
    for reply in await asyncio.gather(*asks, return_exceptions=True):
        if isinstance(reply, BaseException):
            raise reply
        replies.append(reply)
    return replies
