"""The layer for programs: files by path, read and written through an I/O node. Blocking, and safe to share by threads.

    with Client([parse_address("unix:/run/ion0")], key) as layer:
        with layer.open("/runs/a", os.O_RDWR | os.O_CREAT) as file:
            file.pwrite(b"hello", 0)
            file.fsync()

Errors are OSErrors. When an I/O node is gone, the client goes on with the next one of its list and repeats its request
there (see operations.py). An error is raised only after `patience` seconds without success.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from time import sleep
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from forebay.act.forward.clients.identity import Identity, identify
from forebay.act.forward.clients.node_socket import NodeSocket
from forebay.act.forward.clients.operations import Handle, Lost, OpenFile, Operations, PathLike, Pause, Steps
from forebay.act.forward.data.names import NOBODY, Owner
from forebay.act.forward.net.address import Address, parse_address
from forebay.act.forward.net.key import read_key
from forebay.model.layout import Layout

P = ParamSpec("P")
T = TypeVar("T")
Buffer = Any
"""Anything with the buffer protocol."""


def connect(nodes: Sequence[str], key: str | Path, **options: Any) -> Client:
    """A client of the I/O nodes at these addresses, with the key in that file; `options` are those of `Client`.

    with connect(["unix:/run/fb/ion0"], "layer.key") as layer, layer.open("/a", os.O_CREAT) as file:
        file.pwrite(b"...", 0)
    """
    return Client([parse_address(node) for node in nodes], read_key(Path(key)), **options)


def _by_path(operation: Callable[Concatenate[Operations, P], Steps[T]]) -> Callable[Concatenate[Client, P], T]:
    """The operation as a blocking method of the client."""

    @wraps(operation)
    def method(client: Client, /, *args: P.args, **options: P.kwargs) -> T:
        return client._run(operation(client._operations, *args, **options))

    return method


def _of_file(operation: Callable[Concatenate[Operations, Handle, P], Steps[T]]) -> Callable[Concatenate[File, P], T]:
    """The operation as a blocking method of an open file."""

    @wraps(operation)
    def method(file: File, /, *args: P.args, **options: P.kwargs) -> T:
        return file._run(operation(file._client._operations, file.handle, *args, **options))

    return method


class Client:
    """`nodes` are the I/O nodes in the order of preference; at most `connections` requests are in progress at once.

    With `checked`, every payload carries a checksum. An I/O node that takes longer than `timeout` seconds for an answer
    counts as gone.
    """

    def __init__(
        self,
        nodes: Sequence[Address],
        key: bytes,
        *,
        who: Identity | None = None,
        patience: float = 30.0,
        timeout: float = 60.0,
        connections: int = 8,
        checked: bool = False,
    ) -> None:
        self._operations = Operations(patience)
        self._connections = connections
        self._new_socket = partial(NodeSocket, nodes, key, who or identify(), timeout=timeout, checked=checked)
        self._closed = False
        self._begin()

    stat = _by_path(Operations.stat)
    unlink = _by_path(Operations.unlink)
    readdir = _by_path(Operations.readdir)
    mkdir = _by_path(Operations.mkdir)
    rmdir = _by_path(Operations.rmdir)
    rename = _by_path(Operations.rename)
    layout = _by_path(Operations.layout)
    set_layout = _by_path(Operations.set_layout)
    chmod = _by_path(Operations.chmod)
    chown = _by_path(Operations.chown)
    utime = _by_path(Operations.utime)
    statfs = _by_path(Operations.statfs)

    def open(
        self, path: PathLike, flags: int = 0, mode: int = 0o644, *, layout: Layout | None = None, owner: Owner = NOBODY
    ) -> File:
        """Open a file; see `Operations.open`."""
        return File(self, self._run(self._operations.open(path, flags, mode, layout=layout, owner=owner)))

    def truncate(self, path: PathLike, size: int) -> None:
        """Cut or extend a file to exactly `size` bytes."""
        with self.open(path) as file:
            file.truncate(size)

    def close(self) -> None:
        """End the connections; requests that other threads have in progress fail."""
        self._closed = True
        for sock in self._sockets:
            sock.interrupt()
            if self._pop(sock):  # else the thread that has it closes it
                self._put_back(sock)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        self.close()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._sockets = [self._new_socket() for _ in range(self._connections)]
        self._idle = self._sockets.copy()
        self._returned, self._waiting = threading.Condition(), 0

    def _run(self, steps: Steps[T]) -> T:
        """Carry out an operation, on one connection from its beginning to its end."""
        if self._closed:
            raise OSError(errno.EBADF, "the client is closed")
        if os.getpid() != self._process:  # after a fork: the connections are the parent's
            inherited = self._sockets
            self._begin()
            for sock in inherited:
                sock.close()
        sock = self._take()
        try:
            if self._closed:
                raise OSError(errno.EBADF, "the client is closed")
            return self._carry_out(sock, steps)
        finally:
            self._put_back(sock)

    def _take(self) -> NodeSocket:
        """An idle connection: the one used last, whose I/O node is likely to be there."""
        sock = self._pop()
        if sock is not None:
            return sock
        with self._returned:
            self._waiting += 1  # before the next look: whoever puts one back after that sees it
            try:
                while (sock := self._pop()) is None:
                    self._returned.wait()
                return sock
            finally:
                self._waiting -= 1

    def _pop(self, sock: NodeSocket | None = None) -> NodeSocket | None:
        """An idle connection, or this one if it is idle. It is one step, so that threads can't interfere."""
        try:
            if sock is None:
                return self._idle.pop()
            self._idle.remove(sock)
            return sock
        except (IndexError, ValueError):
            return None

    def _put_back(self, sock: NodeSocket) -> None:
        try:
            if self._closed:
                sock.close()
            elif sock.leaving:
                sock.close_left_files()
        finally:
            self._idle.append(sock)
            if self._waiting:
                with self._returned:
                    self._returned.notify()

    def _leave(self, file: int) -> None:
        """No I/O node needs the file any more: tell those whose connections are idle now, the others soon."""
        for sock in self._sockets:
            if file in sock.attached:
                sock.leaving.add(file)
                if self._pop(sock):  # else the thread that has it does it
                    self._put_back(sock)

    def _carry_out(self, sock: NodeSocket, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    sleep(step.seconds)
                    step = next(steps)
                    continue
                try:
                    answer = sock.exchange(step)
                except Lost as lost:
                    if self._closed:
                        raise OSError(errno.EBADF, "the client is closed") from None
                    step = steps.throw(lost)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result


class File(OpenFile):
    """An open file. Offsets and sizes are bytes; it has no position, so that threads can share it."""

    def __init__(self, client: Client, handle: Handle) -> None:
        super().__init__(handle)
        self._client = client

    fsync = _of_file(Operations.fsync)
    truncate = _of_file(Operations.truncate)
    stat = _of_file(Operations.stat)
    chmod = _of_file(Operations.chmod)
    chown = _of_file(Operations.chown)
    utime = _of_file(Operations.utime)

    def pread(self, size: int, offset: int) -> bytes:
        """The bytes; fewer only at the end of the file."""
        if size < 0:
            raise OSError(errno.EINVAL, "a size must not be negative")
        room = bytearray(size)
        count = self.preadinto(room, offset)
        return bytes(memoryview(room)[:count])

    def preadinto(self, room: Buffer, offset: int) -> int:
        """Fill `room`, straight from the socket; the number of bytes is smaller only at the end of the file."""
        return self._run(self._client._operations.read(self.handle, memoryview(room).cast("B"), offset))

    def pwrite(self, data: Buffer, offset: int) -> int:
        """When it returns, the data servers have all of it (on their disks only after `fsync`)."""
        return self._run(self._client._operations.write(self.handle, memoryview(data).cast("B"), offset))

    def close(self) -> None:
        """A second call does nothing."""
        if not self._closed:
            self._closed = True
            if self._client._operations.close(self.handle) and not self._client._closed:
                self._client._leave(self.handle.file)

    def __enter__(self) -> File:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        self.close()

    def _run(self, steps: Steps[T]) -> T:
        if self._closed:
            raise OSError(errno.EBADF, "the file is closed")
        return self._client._run(steps)
