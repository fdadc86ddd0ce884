"""Parts of the forwarding layer, started for real: data servers on loops in threads or as processes, peers that speak
the protocol by hand, and an I/O node whose mishaps a test decides on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest

from forebay.act.forward.data.name_database import NameStore
from forebay.act.forward.data.name_requests import Names
from forebay.act.forward.data.objects import Objects
from forebay.act.forward.data.server import Server
from forebay.act.forward.data.settings import ServerSettings
from forebay.act.forward.net.address import Address, open_socket, parse_address
from forebay.act.forward.net.admission import Listener
from forebay.act.forward.net.auth import Asker, Credentials, Peer
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.loop import new_loop
from forebay.act.forward.net.payloads import (
    AllocateRequest,
    AttributesRequest,
    Caller,
    FileStatus,
    ForgetList,
    NodeList,
    OpenRequest,
    PathRequest,
)
from forebay.act.forward.net.request_payloads import REQUESTS
from forebay.act.forward.net.wire import Flag, Kind, Message, Receiver, answer_header, checksum, pack, unpack_as
from forebay.model.layout import Layout
from support.processes import limited, piped

T = TypeVar("T")
KEY = b"a key that all parts of the test's layer share"


class LoopThread:
    """A loop in a thread of its own; `run` does something there and waits for it."""

    def __init__(self) -> None:
        self.loop = new_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        async def calling() -> T:
            return function(*args)

        return self.run(calling())

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(60)
        self.loop.close()


@contextmanager
def loop_thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    try:
        yield thread
    finally:
        thread.close()


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards, in memory where the machine has that: for tests that make very many files."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


def unix(folder: Path, name: str) -> Address:
    return parse_address(f"unix:{folder / name}")


@contextmanager
def data_server(folder: Path, address: Address | None = None, **settings: Any) -> Iterator[tuple[LoopThread, Server]]:
    """A data server that listens (by default at a UNIX socket beside its folder), in a thread."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    where = address or parse_address(f"unix:{folder}.sock")
    with loop_thread() as thread:
        server = thread.call(Server, ServerSettings(folder=folder, address=where, key=KEY, **settings))
        try:
            yield thread, server
        finally:
            thread.run(server.close())


class Speaker:
    """A peer that speaks the protocol by hand over a blocking socket; by default an I/O node."""

    def __init__(
        self, address: Address, role: str = "node", name: str = "ion0", key: bytes = KEY, **facts: Any
    ) -> None:
        self.socket = open_socket(address, 60)
        self._tag = 0
        handshake = Asker(key, Peer(role=role, name=name, facts=facts), ("server", "node"))
        message: Message | None = handshake.first()
        try:
            while message is not None:
                self.send(message)
                message = handshake.receive(self.receive())
        except BaseException:
            self.socket.close()
            raise
        self.peer = handshake.peer

    def send(self, message: Message) -> None:
        self.socket.sendall(message.header() + bytes(message.payload))

    def receive(self) -> Message:
        """The next message; ConnectionError where the peer is gone."""
        receiver = Receiver(Buffers())
        while True:
            room = receiver.room()
            assert room is not None
            wanted = receiver._wanted - receiver.filled  # one message only: what follows stays in the socket
            count = self.socket.recv_into(room[:wanted])
            if not count:
                raise ConnectionError("the peer is gone")
            for message in complete_messages(receiver, count):
                message.payload = bytes(message.payload)
                return message

    def tell(self, kind: Kind, **fields: Any) -> int:
        """Send, and do not wait; the tag."""
        self._tag += 1
        words = fields.pop("words", None)
        if words is not None:
            fields["payload"] = pack(words)
        self.send(Message(kind, tag=self._tag, **fields))
        return self._tag

    def ask(self, kind: Kind, **fields: Any) -> Message:
        tag = self.tell(kind, **fields)
        answer = self.receive()
        assert answer.tag == tag
        assert answer.flags & Flag.REPLY
        return answer

    def words(self, kind: Kind, **fields: Any) -> Any:
        answer = self.ask(kind, **fields)
        assert answer.status == 0, answer
        return unpack_as(object, answer.payload) if answer.payload else None

    def is_gone(self) -> bool:
        """Waits until the other side has closed."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_SERVE = """
import sys
from pathlib import Path
from forebay.act.forward.net.address import parse_address
from forebay.act.forward.data.server import run_server
from forebay.act.forward.data.settings import ServerSettings
folder, address, key, index, servers = sys.argv[1:]
settings = ServerSettings(folder=Path(folder), address=parse_address(address), key=key.encode(), index=int(index),
                          servers=int(servers))
run_server(settings, None, lambda addresses, _metrics: print(addresses[0], flush=True))
"""


class ServerProcess:
    """A data server in a process of its own, that can be killed and started again."""

    def __init__(self, folder: Path, address: Address, index: int = 0, servers: int = 1) -> None:
        words = (str(folder), str(address), KEY.decode(), str(index), str(servers))
        self._argv = (sys.executable, "-c", _SERVE, *words)
        self.address = address
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._argv, stdout=subprocess.PIPE, text=True)
        assert limited(piped(self.process.stdout).readline).strip() == str(self.address)

    def kill(self) -> None:
        self.process.kill()
        self._wait()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def _wait(self) -> int:
        piped(self.process.stdout).close()
        return self.process.wait(60)


class PretendNode:
    """An I/O node that does everything itself, on one folder, and goes wrong when a test says so.

    `mishap(kind, count)` is asked before each request, with how many of its kind there were: it returns "" or
    "drop before", "drop after" (its doing), "again", "again after", "silent". Ids are known only once they were
    opened or attached here, as at a real one.
    """

    def __init__(self, address: Address, objects: Objects, names: Names, fenced: set[int]) -> None:
        self.mishap: Callable[[Kind, int], str] = lambda _kind, _count: ""
        self.seen: list[Kind] = []
        self.peers: list[Peer] = []
        self.attached: set[int] = set()
        self._objects, self._names, self._fenced = objects, names, fenced
        self._buffers = Buffers()
        self._inside: set[Connection] = set()
        me = Peer(role="node", name="pretended")
        self.door = Listener(address, Credentials(KEY, me, ("client",)), self._entered, buffers=self._buffers)

    def close(self) -> None:
        self.door.close()
        self.drop_all()

    def drop_all(self) -> None:
        for connection in tuple(self._inside):
            connection.close()

    def _entered(self, connection: Connection) -> None:
        assert connection.peer is not None
        self.peers.append(connection.peer)
        self._inside.add(connection)
        connection.redirect(self._received, lambda lost, _: self._inside.discard(lost))

    def _received(self, connection: Connection, message: Message) -> None:
        kind = Kind(message.kind)
        self.seen.append(kind)
        mishap = self.mishap(kind, self.seen.count(kind))
        if mishap == "drop before":
            connection.close()
            return
        if mishap == "again":
            connection.send([answer_header(message, status=11)])
            return
        status, payload, file, size = self._done(message)
        message.release()
        if mishap == "drop after":
            connection.close()
        elif mishap == "again after":
            connection.send([answer_header(message, status=11)])
        elif mishap != "silent":
            crc = checksum((payload,)) if message.flags & Flag.CHECKED else 0
            header = answer_header(message, status=status, file=file, size=size, length=len(payload), crc=crc)
            connection.send([header, payload])

    def _done(self, message: Message) -> tuple[int, bytes, int, int]:
        try:
            return self._do(message)
        except OSError as error:
            return error.errno or 5, b"", 0, 0

    def _do(self, message: Message) -> tuple[int, bytes, int, int]:
        kind, file = message.kind, message.file
        if message.session in self._fenced:
            raise OSError(116, "fenced")
        if kind == Kind.FENCE:
            self._fenced.add(file)
            return 0, b"", 0, 0
        if kind in (Kind.READ, Kind.WRITE, Kind.TRUNCATE, Kind.FSYNC) and file not in self.attached:
            raise OSError(116, "not attached")
        if kind == Kind.READ:
            room = memoryview(bytearray(message.size))
            count = self._objects.read(file, message.offset, room)
            return 0, bytes(room[:count]), 0, count
        if kind == Kind.WRITE:
            return 0, b"", 0, self._objects.write(file, message.offset, message.payload)
        if kind == Kind.TRUNCATE:
            self._objects.truncate(file, message.offset)
            change = AttributesRequest(at=file, mtime_now=True, clear=bool(message.size))
            self._names.answer(Message(Kind.SETATTR, payload=pack(change)))
        elif kind == Kind.ALLOCATE:
            self._objects.allocate(file, unpack_as(AllocateRequest, message.payload))
        elif kind == Kind.CLOSE:
            self.attached.difference_update(unpack_as(NodeList, message.payload).nodes)
        elif kind == Kind.STATFS:
            return 0, pack({"total": 5, "free": 4, "available": 3, "files": 2, "free_files": 1}), 0, 0
        elif kind != Kind.FSYNC:
            answer = self._named(message)
            if kind == Kind.OPEN and unpack_as(OpenRequest, message.payload).truncate:
                self._objects.truncate(answer[2], 0)
            return answer
        return 0, b"", 0, 0

    def _named(self, message: Message) -> tuple[int, bytes, int, int]:
        if kind_needs_caller(message.kind):
            shape = REQUESTS[message.kind]
            request = unpack_as(shape, message.payload) if message.payload else shape()
            assert isinstance(request, PathRequest)
            request.caller = request.caller or Caller(0, 0)
            message.payload = pack(request)
        answer = self._names.answer(message)
        if isinstance(answer, ForgetList):
            for gone, _ in answer.forget:
                self._objects.forget(gone)
                self._names.forget(gone)
            return 0, b"", 0, 0
        if not isinstance(answer, FileStatus):
            return 0, pack(answer) if answer is not None else b"", 0, 0
        file = answer.file or 0
        if message.kind in (Kind.OPEN, Kind.ATTACH):
            self.attached.add(file)
        if message.kind in (Kind.STAT, Kind.SETATTR, Kind.LINK) and answer.has_bytes:
            found = self._objects.size(file)
            answer.size, answer.allocated = found.size, found.allocated
            answer.mtime = answer.time_of_change(found.mtime)
            answer.atime = answer.time_of_access(found.atime)
            answer.ctime = max(answer.ctime, found.mtime)
        return 0, pack(answer), file, 0


def kind_needs_caller(kind: int) -> bool:
    return kind in REQUESTS and issubclass(REQUESTS[kind], PathRequest)


class PretendLayer:
    """Two `PretendNode`s over the same files, as two I/O nodes of one layer."""

    def __init__(self, folder: Path) -> None:
        self.thread = LoopThread()
        (folder / "layer").mkdir()
        self.objects = Objects(folder / "layer" / "objects")
        self.names = Names(NameStore(folder / "layer"), 1, Layout(count=1))
        self.fenced: set[int] = set()
        self.addresses = [unix(folder, "ion0"), unix(folder, "ion1")]
        self.nodes = [
            self.thread.call(PretendNode, address, self.objects, self.names, self.fenced) for address in self.addresses
        ]

    def remove_unnamed(self) -> None:
        """Remove the files without a name, as if nobody had them open."""

        def remove() -> None:
            for node in self.nodes:
                node.attached.clear()
            for file, _ in self.names.replace_files("", ()).forget:
                self.objects.forget(file)
                self.names.forget(file)

        self.thread.call(remove)

    def close(self) -> None:
        for node in self.nodes:
            self.thread.call(node.close)
        self.thread.call(lambda: None)
        self.thread.close()
        self.objects.close()
        self.names.close()


@pytest.fixture
def pretend_layer(tmp_path: Path) -> Iterator[PretendLayer]:
    layer = PretendLayer(tmp_path)
    try:
        yield layer
    finally:
        layer.close()


def complete_messages(receiver: Receiver, count: int) -> Iterator[Message]:
    """All messages that are complete now that `count` bytes were put into the receiver's room."""
    message = receiver.receive(count)
    while message is not None:
        yield message
        message = receiver.next()


def fed(receiver: Receiver, chunks: list[bytes]) -> list[Message]:
    """All messages of bytes that come in such chunks; stops where the receiver has no room."""
    found: list[Message] = []
    for chunk in chunks:
        rest = memoryview(chunk)
        while rest:
            room = receiver.room()
            if room is None:
                return found
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            rest = rest[count:]
            found += complete_messages(receiver, count)
    return found
