"""Finds the server that has the names that a request is about, and moves folders between servers (folder_moves.py).

Server 0 has all folders, except for those that it has left to another server. The id of a file shows which server has
created it: that one knows it, or else server 0. An I/O node remembers what it has learned; where this is not true any
more, a server says so.
"""

import asyncio
import errno
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from forebay.act.forward.data.folder_records import Detour, Elsewhere, ExportRequest, ImportRoom, PageEnd
from forebay.act.forward.net.payloads import (
    MOST_SERVERS,
    ROOT,
    SERVER_BITS,
    FileStatus,
    PathRequest,
    Payload,
    TwoNamesRequest,
)
from forebay.act.forward.net.wire import AGAIN, Bytes, Kind, Message, pack, unpack_as
from forebay.act.forward.node.server_link import ServerLink

_MOST_KNOWN = 1 << 16
_MOST_DETOURS = 16


class NameReply(NamedTuple):
    """The answer of a server; `leased` is what the mount of the caller may keep, besides what the answer says."""

    server: int
    payload: Bytes
    leased: int = 0

    def read_status(self) -> FileStatus:
        status = unpack_as(FileStatus, self.payload)
        status.leased |= self.leased
        return status


class NameRoutes:
    """Asks the servers of these links; a request waits `patience` seconds for a missing one."""

    def __init__(self, links: Sequence[ServerLink], patience: float) -> None:
        self._links, self._patience = links, patience
        self._known: OrderedDict[int, int] = OrderedDict()  # the server that has a folder or a file
        self._pulls: dict[int, asyncio.Task[None]] = {}  # by folder

    @property
    def servers(self) -> range:
        """The servers that have names."""
        return range(len(self._links) if self._links[0].sharded else 1)

    def server_of(self, node: int) -> int:
        """The server that most likely knows a file or folder."""
        server = self._known.get(node)
        if server is None:
            server = node >> SERVER_BITS & (MOST_SERVERS - 1) if len(self.servers) > 1 else 0
        return server if server < len(self._links) else 0

    def note(self, node: int, server: int) -> None:
        """Remember that this server has a file or folder."""
        self._known[node] = server
        self._known.move_to_end(node)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    async def ask(self, message: Message, request: Payload | None = None) -> NameReply:
        """Have the right server carry out a request for names, and return its answer."""
        if self._links[0].sharded is None:
            await self._links[0].wait_connected(self._patience)
        referral: Detour | None = None
        subject, payload = _subject(message, request), message.payload
        server, leased, unsynced = self.server_of(subject), 0, set[int]()
        for _ in range(_MOST_DETOURS):
            try:
                return NameReply(server, await self._send(server, message, payload), leased)
            except Elsewhere as elsewhere:
                detour = elsewhere.detour
            except OSError as error:
                for source in unsynced:
                    await self._tell(source, Kind.FSYNC, file=ROOT)
                if error.errno != errno.ENOSPC or not server or message.kind == Kind.ADD:
                    raise
                detour = Detour(pull=((subject, server),))  # server 0 may have space
            if detour.pull:
                caller = request.caller if isinstance(request, PathRequest) else None
                holder = caller.holder if caller is not None else 0
                for folder, source in detour.pull:
                    await self._pull(folder, source, only_empty=detour.only_empty, holder=holder)
                    unsynced.update([source] if detour.only_empty else [])
                server = 0
            elif detour.folder:
                referral, server, leased = detour, detour.server, detour.leased
                self.note(detour.folder, server)
                if isinstance(request, PathRequest) and not message.file:
                    request.at, request.path, subject = detour.folder, detour.path, detour.folder
                    if isinstance(request, TwoNamesRequest) and detour.to:
                        request.to_at, request.to = detour.folder, detour.to
                    payload = pack(request)
            elif referral is not None and referral.folder == subject:
                server = await self._settle(referral)
                referral = None
            else:
                self.note(subject, 0)
                server = 0
        raise OSError(AGAIN, "the folder moves from server to server; try again")

    async def _send(self, server: int, of: Message, payload: Bytes) -> Bytes:
        request = Message(of.kind, size=of.size, file=of.file, offset=of.offset, session=of.session, payload=payload)
        return (await self._links[server].ask(request, self._patience)).payload

    async def _tell(self, server: int, kind: Kind, file: int = 0, payload: Bytes = b"") -> Bytes:
        return await self._send(server, Message(kind, file=file), payload)

    async def _settle(self, referral: Detour) -> int:
        """Have a server take over a folder that it does not have yet; return the server that has it then."""
        assert referral.empty is not None
        try:
            await self._tell(referral.server, Kind.SETTLE, payload=pack(referral.empty))
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            await self._tell(0, Kind.ADOPT, file=referral.folder)
            self.note(referral.folder, 0)
            return 0
        return referral.server

    async def _pull(self, folder: int, source: int, *, only_empty: bool, holder: int) -> None:
        """Have server 0 take over a folder for a mount; requests that need this at the same time share it."""
        task = self._pulls.get(folder)
        if task is None:
            work = self._move_folder(folder, source, only_empty=only_empty, holder=holder)
            task = self._pulls[folder] = asyncio.get_running_loop().create_task(work)
            task.add_done_callback(lambda _: self._pulls.pop(folder, None))
        try:
            await asyncio.shield(task)
        except OSError as error:
            if only_empty or error.errno != errno.ENOTEMPTY:
                raise
            await self._pull(folder, source, only_empty=False, holder=holder)

    async def _move_folder(self, folder: int, source: int, *, only_empty: bool, holder: int) -> None:
        room = unpack_as(ImportRoom, await self._tell(0, Kind.PREPARE)).bytes
        request = ExportRequest(folder=folder, only_empty=only_empty, room=room, holder=holder)
        is_empty = True
        with suppress(Elsewhere):  # another I/O node has moved it meanwhile
            while True:
                payload = await self._tell(source, Kind.EXPORT, payload=pack(request))
                page = unpack_as(PageEnd, payload)
                is_empty = is_empty and not page.last
                if not page.more and not only_empty:
                    # Else a power failure could leave the folder in two places.
                    await self._tell(source, Kind.FSYNC, file=ROOT)
                await self._tell(0, Kind.IMPORT, payload=payload)
                if not page.more:
                    break
                request.after = page.last
            if not is_empty:
                await self._tell(0, Kind.FSYNC, file=ROOT)  # else a power failure could lose it
            with suppress(OSError):  # a full server keeps it, but out of use
                await self._tell(source, Kind.DROP, file=page.folder)
        self.note(folder, 0)


def _subject(message: Message, request: Payload | None) -> int:
    """The file or folder that a request names."""
    return message.file or (request.at if isinstance(request, PathRequest) else ROOT)
