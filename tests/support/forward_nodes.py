"""I/O nodes for tests: on a loop in a thread, with real data servers or with some that answer when a test says so."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any

from forebay.act.command import Child
from forebay.act.forward.data.server import Server
from forebay.act.forward.data.settings import ServerSettings
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.admission import Listener
from forebay.act.forward.net.auth import Credentials, Peer
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.wire import Flag, Kind, Message, answer_header, pack, split_sessions
from forebay.act.forward.node.backend import Backend
from forebay.act.forward.node.data_servers import DataServers
from forebay.act.forward.node.io_node import IoNode, NodeSettings
from forebay.model.layout import Layout
from support.forward import KEY, LoopThread, Speaker, unix
from support.processes import PATIENCE

STRIPE = 64 << 10
LONG = 60.0


class NodeThread:
    """A loop in a thread, with whatever a test starts on it; all of it ends with `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.thread = LoopThread()
        self.servers: dict[int, Server] = {}
        self.nodes: list[IoNode] = []
        self._count = 0

    def serve(self, count: int, **settings: Any) -> list[Address]:
        self._count = count
        return [self.start_server(index, **settings) for index in range(count)]

    def start_server(self, index: int, **settings: Any) -> Address:
        settings.setdefault("layout", Layout(count=self._count, size=STRIPE))
        made = ServerSettings(
            folder=self.folder / f"data{index}",
            address=unix(self.folder, f"server{index}"),
            key=KEY,
            index=index,
            servers=self._count,
            **settings,
        )
        self.servers[index] = self.thread.call(Server, made)
        return self.servers[index].address

    def stop_server(self, index: int) -> None:
        self.thread.run(self.servers.pop(index).close())

    def node(self, addresses: list[Address], name: str = "ion0", **settings: Any) -> IoNode:
        me = Peer(role="node", name=name)
        patience = settings.get("patience", LONG)
        return self.node_over(lambda: DataServers(addresses, KEY, me, patience=patience), name, **settings)

    def node_over(self, backend: Callable[[], Backend], name: str = "ion0", **settings: Any) -> IoNode:
        made = NodeSettings(name=name, address=(unix(self.folder, name),), key=KEY, **settings)

        async def start() -> IoNode:
            node = IoNode(made, backend())
            await node.start()
            return node

        node = self.thread.run(start())
        self.nodes.append(node)
        return node

    def client(self, node: IoNode, **facts: Any) -> Client:
        return Client(node.addresses[0], facts)

    def soon(self, condition: Callable[[], bool]) -> None:
        """Wait until it holds; it is looked at on the loop."""

        async def wait() -> None:
            async with asyncio.timeout(PATIENCE):
                while not condition():
                    await asyncio.sleep(0.005)

        self.thread.run(wait())

    def close(self) -> None:
        for node in self.nodes:
            self.thread.run(node.close())
        for server in self.servers.values():
            self.thread.run(server.close())
        self.thread.close()


@contextmanager
def node_thread(folder: Path) -> Iterator[NodeThread]:
    thread = NodeThread(folder)
    try:
        yield thread
    finally:
        thread.close()


class Client(Speaker):
    """A client that speaks the protocol by hand."""

    def __init__(self, address: Address, facts: dict[str, Any] | None = None, session: int = 7) -> None:
        super().__init__(address, role="client", name="a client", **(facts or {}))
        self.session = session

    def open(self, path: bytes, layout: list[int] | None = None) -> int:
        words = {"path": path, "create": True, "exclusive": False, "mode": 0o644, "layout": layout, "key": 0}
        answer = self.ask(Kind.OPEN, words=words | {"again": False}, session=self.session)
        assert answer.status == 0, answer
        return answer.file

    def write(self, file: int, offset: int, data: bytes, **more: Any) -> Message:
        return self.ask(Kind.WRITE, file=file, offset=offset, payload=data, session=self.session, **more)

    def read(self, file: int, offset: int, size: int, **more: Any) -> Message:
        return self.ask(Kind.READ, file=file, offset=offset, size=size, session=self.session, **more)

    def size(self, file: int) -> int:
        return int(self.words(Kind.STAT, file=file, session=self.session)["size"])


class PretendServer:
    """A data server that keeps every read and write until `answer`; what else is asked is answered at once."""

    def __init__(self, thread: LoopThread, address: Address, index: int = 0, of: int = 1) -> None:
        self._thread = thread
        self.waiting: list[tuple[Connection, Message]] = []
        self.sessions: dict[int, tuple[int, ...]] = {}  # of the latest read or write with each tag
        self.fenced: list[int] = []
        self._inside: list[Connection] = []
        me = Peer(role="server", name=str(index), facts={"index": index, "servers": of})
        self.of = of

        def make() -> Listener:
            return Listener(address, Credentials(KEY, me, ("node",)), self._entered, buffers=Buffers())

        self.door = thread.call(make)

    def _entered(self, connection: Connection) -> None:
        self._inside.append(connection)
        connection.redirect(self._received, lambda lost, _: self._inside.remove(lost))

    def _received(self, connection: Connection, message: Message) -> None:
        if message.kind in (Kind.READ, Kind.WRITE):
            many = message.flags & Flag.SESSIONS
            self.sessions[message.tag] = split_sessions(message) if many else (message.session,)
            self.waiting.append((connection, message))
            return
        words: Any = None
        if message.kind == Kind.OPEN:
            words = {"id": 5, "layout": [self.of, STRIPE, 0], "mode": 0o644, "mtime": 1, "stamp": 0, "created": True}
        elif message.kind == Kind.SIZE:
            words = {"size": 0, "mtime": 0}
        elif message.kind == Kind.PENDING:
            words = {"forget": []}
        elif message.kind == Kind.FENCE:
            self.fenced.append(message.file)
        payload = pack(words) if words is not None else b""
        file = words["id"] if message.kind == Kind.OPEN else 0
        connection.send([answer_header(message, file=file, length=len(payload)), payload])

    def answer(self, count: int = 1, status: int = 0) -> None:
        """Answer the first so many of those that wait: writes as done, reads with nothing."""

        def do() -> None:
            for _ in range(count):
                connection, message = self.waiting.pop(0)
                size = len(message.payload)
                message.release()
                connection.send([answer_header(message, size=size, status=status)])

        self._thread.call(do)

    def hang_up(self) -> None:
        def do() -> None:
            self.waiting.clear()
            for connection in tuple(self._inside):
                connection.close()

        self._thread.call(do)

    def close(self) -> None:
        self._thread.call(self.door.close)
        self.hang_up()


def raw(address: Address) -> Any:
    """A socket to the address, before anything was said."""
    from forebay.act.forward.net.address import open_socket

    return open_socket(address, LONG)


def started(*words: str) -> Child:
    """A part of the layer in a process of its own, once it says that it is ready."""
    child = Child((sys.executable, "-m", "forebay", "forward", *words))
    said = b""
    while b"ready" not in said:
        assert select([child.out], [], [], 2 * LONG)[0], words
        more = os.read(child.out, 4096)
        assert more, (words, said)
        said += more
    return child


__all__ = ["Client", "Flag", "NodeThread", "PretendServer", "node_thread", "raw", "started"]
