"""Removes the objects of files that have been unlinked, many at a time."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from forebay.act.forward.net.payloads import ForgetList, LayoutFields, NodeList, read_layout
from forebay.act.forward.net.wire import BadMessage, Bytes, Kind, Message, pack, unpack_as
from forebay.act.forward.node.name_routes import NameRoutes
from forebay.act.forward.node.server_link import ServerLink
from forebay.act.forward.striping import servers_of

_A_MOMENT = 0.02
_MOST_AT_ONCE = 1024
"""Unlinked files in one message."""


class RemovedObjects:
    """The objects that are to be removed from the servers at these links."""

    def __init__(self, links: Sequence[ServerLink], routes: NameRoutes, patience: float) -> None:
        self._links, self._routes, self._patience = links, routes, patience
        self._unlinked: dict[int, list[tuple[int, LayoutFields]]] = {}  # by the server of the names
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _remove_objects(self, names: int, files: Sequence[tuple[int, LayoutFields]]) -> None:
        """Remove the objects of files that server `names` has unlinked; a server that fails does so when it is back."""
        by_server: dict[int, list[int]] = {}
        for file, layout in files:
            for server in servers_of(read_layout(layout), len(self._links)):
                by_server.setdefault(server, []).append(file)
        forgets = (self._ask(server, Kind.FORGET, pack(NodeList(nodes=nodes))) for server, nodes in by_server.items())
        answers = await asyncio.gather(*forgets, return_exceptions=True)
        left: set[int] = set()  # these stay in the list of pending ones
        for nodes, answer in zip(by_server.values(), answers, strict=True):
            if isinstance(answer, BaseException):
                left.update(nodes)
        forgotten = NodeList(nodes=[file for file, _ in files if file not in left])
        if forgotten.nodes:
            with suppress(OSError, BadMessage):
                await self._ask(names, Kind.FORGOTTEN, pack(forgotten))

    async def remove_pending(self) -> None:
        with suppress(OSError, BadMessage):
            for server in self._routes.servers:
                reply = await self._ask(server, Kind.PENDING)
                files = unpack_as(ForgetList, reply.payload).forget
                for first in range(0, len(files), _MOST_AT_ONCE):
                    await self._remove_objects(server, files[first : first + _MOST_AT_ONCE])

    def remove_soon(self, server: int, payload: Bytes) -> ForgetList:
        """Remove soon the objects of the files that a server of names has listed, many at a time."""
        answer = unpack_as(ForgetList, payload)
        if answer.forget and not self._unlinked:
            task = asyncio.get_running_loop().create_task(self._remove_unlinked())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if answer.forget:
            self._unlinked.setdefault(server, []).extend(answer.forget)
        return answer

    async def _remove_unlinked(self) -> None:
        await asyncio.sleep(_A_MOMENT)
        while self._unlinked:
            server, files = self._unlinked.popitem()
            for first in range(0, len(files), _MOST_AT_ONCE):
                await self._remove_objects(server, files[first : first + _MOST_AT_ONCE])

    async def _ask(self, server: int, kind: Kind, payload: Bytes = b"") -> Message:
        return await self._links[server].ask(Message(kind, payload=payload), self._patience)
