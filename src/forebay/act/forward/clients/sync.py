"""The layer for programs: files by path, read and written through an I/O node. Blocking, and safe to share by threads.

    with Client([parse_address("unix:/run/ion0")], key) as layer:
        with layer.open("/runs/a", os.O_RDWR | os.O_CREAT) as file:
            file.pwrite(b"hello", 0)
            file.fsync()

Errors are OSErrors. When an I/O node is gone, the client goes on with the next one of its list, and what it had asked
is asked there again (see forward/clients/operations.py); only after `patience` seconds without success there is an error.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import sleep
from types import TracebackType
from typing import Any, TypeVar

from forebay.act.forward.clients.operations import (
    Asking,
    Entry,
    Handle,
    Lost,
    OpenFile,
    PathLike,
    Pause,
    Space,
    Stat,
    Talk,
)
from forebay.act.forward.clients.identity import Identity, identity
from forebay.act.forward.clients.node_socket import Tie
from forebay.act.forward.data.names import NOBODY, Owner
from forebay.act.forward.net.address import Address, parse_address
from forebay.act.forward.net.key import read_key
from forebay.model.layout import Layout

T = TypeVar("T")
Buffer = Any
"""Anything with the buffer protocol."""


def connect(nodes: Sequence[str], key: str | Path, **options: Any) -> Client:
    """A client of the I/O nodes at these addresses, with the key in that file; `options` are those of `Client`.

    with connect(["unix:/run/fb/ion0"], "layer.key") as layer, layer.open("/a", os.O_CREAT) as file:
        file.pwrite(b"...", 0)
    """
    return Client([parse_address(node) for node in nodes], read_key(Path(key)), **options)


class Client:
    """`nodes` are the I/O nodes in the order of preference; at most `connections` requests are under way at once.

    With `checked`, every payload has a checksum on its way. `timeout` is how many seconds an I/O node may take for
    an answer before it counts as gone.
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
        if not nodes:
            raise ValueError("a client needs at least one I/O node")
        self._asking = Asking(patience)
        self._connections = connections
        self._tie = partial(Tie, tuple(nodes), key, who or identity(), timeout=timeout, checked=checked)
        self._closed = False
        self._begin()

    def open(
        self, path: PathLike, flags: int = 0, mode: int = 0o644, *, layout: Layout | None = None, owner: Owner = NOBODY
    ) -> File:
        """The file; `flags` are those of os.open (O_CREAT, O_EXCL and O_TRUNC count). A new file gets `layout`, or its
        folder's."""
        return File(self, self._run(self._asking.open(path, flags, mode, layout, owner)))

    def stat(self, path: PathLike) -> Stat:
        return self._run(self._asking.stat(path))

    def truncate(self, path: PathLike, size: int) -> None:
        """Cut or extend to exactly so many bytes."""
        with self.open(path) as file:
            file.truncate(size)

    def unlink(self, path: PathLike) -> None:
        self._run(self._asking.unlink(path))

    def readdir(self, path: PathLike = "/") -> list[Entry]:
        """Names and kinds, in the order of the names' bytes; without '.' and '..'."""
        return self._run(self._asking.readdir(path))

    def mkdir(self, path: PathLike, mode: int = 0o755, *, layout: Layout | None = None, owner: Owner = NOBODY) -> None:
        """A new folder, whose new files get `layout`, or what its parent's get."""
        self._run(self._asking.mkdir(path, mode, layout, owner))

    def rmdir(self, path: PathLike) -> None:
        self._run(self._asking.rmdir(path))

    def rename(self, path: PathLike, to: PathLike) -> None:
        """Whatever file had the new name is unlinked."""
        self._run(self._asking.rename(path, to))

    def layout(self, path: PathLike) -> Layout:
        """Of a file; of a folder, what new files in it get."""
        return self._run(self._asking.layout(path))

    def set_layout(self, path: PathLike, layout: Layout) -> None:
        """What new files and folders in this folder get."""
        self._run(self._asking.set_layout(path, layout))

    def chmod(self, path: PathLike, mode: int) -> None:
        self._run(self._asking.set_attributes(path, mode=mode))

    def chown(self, path: PathLike, uid: int | None, gid: int | None) -> None:
        """Say whose it is; None leaves the user or the group."""
        self._run(self._asking.set_attributes(path, uid=uid, gid=gid))

    def utime(self, path: PathLike, mtime: int) -> None:
        """Set when it last changed, in nanoseconds since 1970."""
        self._run(self._asking.set_attributes(path, mtime=mtime))

    def statfs(self) -> Space:
        return self._run(self._asking.statfs())

    def close(self) -> None:
        """Ends the connections; requests that other threads have under way fail."""
        self._closed = True
        for tie in self._ties:
            tie.interrupt()
            if self._pop(tie):  # else whoever has it closes it
                self._back(tie)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        self.close()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._ties = [self._tie() for _ in range(self._connections)]
        self._idle = self._ties.copy()
        self._came_back, self._waiting = threading.Condition(), 0

    def _run(self, talk: Talk[T]) -> T:
        """Carry an operation out, on one connection from its beginning to its end."""
        if self._closed:
            raise OSError(errno.EBADF, "the client is closed")
        if os.getpid() != self._process:  # after a fork: the connections are the parent's
            inherited = self._ties
            self._begin()
            for tie in inherited:
                tie.close()
        tie = self._take()
        try:
            if self._closed:
                raise OSError(errno.EBADF, "the client is closed")
            return self._carry_out(tie, talk)
        finally:
            self._back(tie)

    def _take(self) -> Tie:
        """An idle connection: the one used last, whose I/O node is likely to be there."""
        tie = self._pop()
        if tie is not None:
            return tie
        with self._came_back:
            self._waiting += 1  # before the next look: whoever gives one back after that sees it
            try:
                while (tie := self._pop()) is None:
                    self._came_back.wait()
                return tie
            finally:
                self._waiting -= 1

    def _pop(self, tie: Tie | None = None) -> Tie | None:
        """An idle connection, or that one; None where there is none. One step, so that threads can't meet in it."""
        try:
            if tie is None:
                return self._idle.pop()
            self._idle.remove(tie)
            return tie
        except (IndexError, ValueError):
            return None

    def _back(self, tie: Tie) -> None:
        """Its user is done with it."""
        try:
            if self._closed:
                tie.close()
            elif tie.leaving:
                tie.tidy()
        finally:
            self._idle.append(tie)
            if self._waiting:
                with self._came_back:
                    self._came_back.notify()

    def _leave(self, file: int) -> None:
        """No I/O node needs to know the file any more: those that nobody talks to are told now, others soon."""
        for tie in self._ties:
            if file in tie.attached:
                tie.leaving.add(file)
                if self._pop(tie):  # else somebody has it just now, and will see to it
                    self._back(tie)

    def _carry_out(self, tie: Tie, talk: Talk[T]) -> T:
        try:
            step = next(talk)
            while True:
                if isinstance(step, Pause):
                    sleep(step.seconds)
                    step = next(talk)
                    continue
                try:
                    answer = tie.exchange(step)
                except Lost as lost:
                    if self._closed:
                        raise OSError(errno.EBADF, "the client is closed") from None
                    step = talk.throw(lost)
                else:
                    step = talk.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result


class File(OpenFile):
    """An open file. Offsets and sizes are bytes; there is no position, so that threads can share it."""

    def __init__(self, client: Client, handle: Handle) -> None:
        super().__init__(handle)
        self._client = client

    def pread(self, size: int, offset: int) -> bytes:
        """The bytes; fewer only at the end of the file."""
        if size < 0:
            raise OSError(errno.EINVAL, "a size must not be negative")
        room = bytearray(size)
        count = self.preadinto(room, offset)
        return bytes(memoryview(room)[:count])

    def preadinto(self, room: Buffer, offset: int) -> int:
        """Fill `room`, straight from the socket; how many bytes there were: fewer only at the end of the file."""
        return self._run(self._asking.read(self._handle, memoryview(room).cast("B"), offset))

    def pwrite(self, data: Buffer, offset: int) -> int:
        """Once it returns, the data servers have all of it (on their disks only after `fsync`)."""
        return self._run(self._asking.write(self._handle, memoryview(data).cast("B"), offset))

    def fsync(self) -> None:
        """Everything that was written before is on the servers' disks, and the file's name too."""
        self._run(self._asking.fsync(self._handle))

    def truncate(self, size: int) -> None:
        self._run(self._asking.truncate(self._handle, size))

    def stat(self) -> Stat:
        return self._run(self._asking.fstat(self._handle))

    def chmod(self, mode: int) -> None:
        self._run(self._asking.set_handle(self._handle, mode=mode))

    def chown(self, uid: int | None, gid: int | None) -> None:
        self._run(self._asking.set_handle(self._handle, uid=uid, gid=gid))

    def utime(self, mtime: int) -> None:
        self._run(self._asking.set_handle(self._handle, mtime=mtime))

    def close(self) -> None:
        """Done with it; a second call does nothing."""
        if not self._closed:
            self._closed = True
            if self._asking.closed(self._handle) and not self._client._closed:
                self._client._leave(self._handle.file)

    def __enter__(self) -> File:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        self.close()

    @property
    def _asking(self) -> Asking:
        return self._client._asking

    def _run(self, talk: Talk[T]) -> T:
        if self._closed:
            raise OSError(errno.EBADF, "the file is closed")
        return self._client._run(talk)
