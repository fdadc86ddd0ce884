"""The names of a layer on several servers, as I/O nodes reach them; any server can be killed after any step."""

from __future__ import annotations

import asyncio
import shutil
import stat
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

from forebay.act.forward.data.name_database import NameStore, Node, walk
from forebay.act.forward.data.name_requests import Names
from forebay.act.forward.net.payloads import FileStatus, ListPage, OnceRequest, Payload
from forebay.act.forward.net.request_payloads import REQUESTS, read_request
from forebay.act.forward.net.wire import AGAIN, Bytes, Kind, Message, pack, unpack_as
from forebay.act.forward.node.name_routes import NameReply, NameRoutes
from forebay.act.forward.node.server_link import ServerLink
from forebay.model.layout import GRAIN, Layout
from support.forward_names import SteppedStore

_MOST_ATTEMPTS = 50


class Killed(Exception):
    """As by kill -9, after a step."""


class NameServer:
    """One server's names. `ask` is that of a link to it."""

    sharded = True

    def __init__(self, folder: Path, index: int, servers: int, dies_now: Callable[[], bool]) -> None:
        folder.mkdir()
        self.folder, self._index, self._servers, self._dies_now = folder, index, servers, dies_now
        self._lives, self._clock = count(1), count(1)
        self._open()

    def _open(self) -> None:
        self.store = SteppedStore(self.folder, self._step)
        self.names = Names(
            self.store, self._servers, Layout(count=self._servers, size=GRAIN),
            index=self._index, sharded=True, clock=lambda: next(self._clock),
        )  # fmt: skip

    def _step(self) -> None:
        if self._dies_now():
            left = self.folder.with_name(f"{self._index}-{next(self._lives)}")
            shutil.copytree(self.folder, left)
            self.folder = left
            raise Killed

    async def ask(self, request: Message, _within: float) -> Message:
        await asyncio.sleep(0)  # other requests come in between
        try:
            return Message(request.kind, payload=self._answer(request))
        except Killed:
            self.names.close()
            self._open()
            raise OSError(AGAIN, "the server was killed") from None

    def _answer(self, request: Message) -> Bytes:
        answer: Payload | None = None
        if request.kind == Kind.IMPORT:
            self.names.import_page(request)
        elif request.kind != Kind.FSYNC:
            answer = self.names.answer(request, "node")
        return pack(answer) if answer is not None else b""


class NameCluster:
    """Servers, and I/O nodes that know nothing of each other."""

    def __init__(self, folder: Path, servers: int = 3, nodes: int = 2) -> None:
        self.steps, self.dies_after = 0, -1
        self.servers = [NameServer(folder / f"{i}", i, servers, self._dies_now) for i in range(servers)]
        links = cast("list[ServerLink]", self.servers)
        self.nodes = [NameRoutes(links, patience=1.0) for _ in range(nodes)]
        self._keys = count(1)

    def _dies_now(self) -> bool:
        self.steps += 1
        return self.steps == self.dies_after

    def close(self) -> None:
        for server in self.servers:
            server.names.close()

    async def ask(self, kind: Kind, *, node: int = 0, file: int = 0, **fields: Any) -> NameReply:
        """Make a request as a client does: again and again, if it is unknown whether it was carried out."""
        if issubclass(REQUESTS[kind], OnceRequest):
            fields["key"] = next(self._keys)
        for attempt in range(_MOST_ATTEMPTS):
            if attempt and "key" in fields:
                fields["again"] = True
            payload = pack(REQUESTS[kind](**fields))
            try:
                message = Message(kind, file=file, payload=payload)
                return await self.nodes[node].ask(message, read_request(kind, payload))
            except OSError as error:
                if error.errno != AGAIN:
                    raise
        raise AssertionError("the servers do not agree on where the names are")

    async def status(self, path: bytes, node: int = 0) -> FileStatus:
        return (await self.ask(Kind.STAT, node=node, path=path)).read_status()

    async def names(self, path: bytes = b"", node: int = 0) -> list[tuple[bytes, int, int]]:
        """The names in a folder, each with its mode and its id."""
        names: list[tuple[bytes, int, int]] = []
        more = True
        while more:
            after = names[-1][0] if names else b""
            reply = await self.ask(Kind.READDIR, node=node, path=path, after=after)
            page = unpack_as(ListPage, reply.payload)
            names += page.entries
            more = page.more
        return names

    async def list_all(self, path: bytes = b"", node: int = 0) -> dict[bytes, FileStatus]:
        """The status of everything below a folder, by path; by name and by id it is the same."""
        listing = {}
        for name, mode, id_ in await self.names(path, node):
            whole = path + b"/" + name if path else name
            listing[whole] = status = await self.status(whole, node)
            assert (status.file, stat.S_IFMT(status.mode)) == (id_, stat.S_IFMT(mode))
            assert (await self.ask(Kind.STAT, node=node, file=id_)).read_status() == status
            if status.is_folder:
                listing |= await self.list_all(whole, node)
        return listing

    def check(self) -> None:
        """What must hold once no folder is on its way any more: everything is at one place, and has its names there."""
        places: dict[int, int] = {}
        for index, server in enumerate(self.servers):
            for node in _nodes(server.store):
                if node.away <= 0:
                    assert node.id not in places, (node, places[node.id], index)
                    places[node.id] = index
                if index and node.is_folder:
                    stub = self.servers[0].store.read(node.id)
                    assert stub is not None
                    assert stub.away == index
        named = set[int]()
        for index, server in enumerate(self.servers):
            folders = [node.id for node in _nodes(server.store) if index and node.is_folder]
            for folder in folders or [1]:
                named.update(id_ for _, _, id_ in walk(server.store, folder))
        unnamed = {node.id for server in self.servers for node in _nodes(server.store) if node.links < 1}
        assert set(places) - unnamed - {1} == named


def _nodes(store: NameStore) -> Iterator[Node]:
    return map(Node._make, store._run("SELECT * FROM nodes").fetchall())
