"""The blocking client: opens, reads and writes files through an I/O node. Threads can share it.

    with Client([parse_address("unix:/run/ion0")], key) as layer:
        with layer.open("/runs/a", os.O_RDWR | os.O_CREAT) as file:
            file.pwrite(b"hello", 0)
            file.fsync()

Errors are OSErrors. When it loses an I/O node, the client repeats its request at the next node of its list (see
operations.py). It raises an error only after `patience` seconds without success.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial, wraps
from pathlib import Path
from time import monotonic
from typing import Any, Concatenate

from forebay.act.forward.clients.aio import AsyncClient
from forebay.act.forward.clients.channel import Identity, identify
from forebay.act.forward.clients.lock_lease import LockKeeper
from forebay.act.forward.clients.node_socket import NodeSocket
from forebay.act.forward.clients.open_file import OpenFile
from forebay.act.forward.clients.operations import Async, Operations, P, T
from forebay.act.forward.clients.requests import Handle, Where
from forebay.act.forward.net.address import Address, parse_address
from forebay.act.forward.net.key import read_key
from forebay.act.forward.net.payloads import APPEND, EXCLUSIVE, Caller, FileStatus, LockRequest
from forebay.act.forward.net.wire import Bytes
from forebay.model.layout import Layout

_TURN = 5.0
"""Seconds for which a request waits at the server for a turn to append."""


def connect(nodes: Sequence[str], key: str | Path, **options: Any) -> Client:
    """Create a client of the I/O nodes at these addresses, with the key in this file; `options` are those of `Client`.

    with connect(["unix:/run/fb/ion0"], "layer.key") as layer, layer.open("/a", os.O_CREAT) as file:
        file.pwrite(b"...", 0)
    """
    return Client([parse_address(node) for node in nodes], read_key(Path(key)), **options)


def _by_path(operation: Callable[Concatenate[Operations, P], Async[T]]) -> Callable[Concatenate[Client, P], T]:
    """Turn the operation into a blocking method of the client."""

    @wraps(operation)
    def method(client: Client, /, *args: P.args, **options: P.kwargs) -> T:
        return client._run(operation, *args, **options)

    return method


class Client(AbstractContextManager["Client"]):
    """A client of the I/O nodes `nodes`, in order of preference, with at most `connections` requests in progress.

    With `checked`, every payload carries a checksum. An I/O node that does not answer within `timeout` seconds counts
    as lost. With `closes_later`, I/O nodes hear of closed files only from `close_left_files`, many at a time.
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
        closes_later: bool = False,
    ) -> None:
        self._patience, self._connections, self._closes_later = patience, connections, closes_later
        who = who or identify()
        self._new_socket = partial(NodeSocket, nodes, key, who, timeout=timeout, checked=checked)
        self.asynchronous = partial(
            AsyncClient, nodes, key, who=who, patience=patience, timeout=timeout, checked=checked
        )
        """Creates a client of the same I/O nodes for a loop."""
        self.before_wait: Callable[[], None] = lambda: None
        """Called by each thread before it waits for the layer."""
        self._users: Counter[int] = Counter()  # of each open file
        self._lock = threading.Lock()
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
    set_attributes = _by_path(Operations.set_attributes)
    getxattr = _by_path(Operations.getxattr)
    setxattr = _by_path(Operations.setxattr)
    listxattr = _by_path(Operations.listxattr)
    link = _by_path(Operations.link)
    symlink = _by_path(Operations.symlink)
    readlink = _by_path(Operations.readlink)
    mknod = _by_path(Operations.mknod)
    attach = _by_path(Operations.attach)
    sync_names = _by_path(Operations.sync_names)
    attach_and_read = _by_path(Operations.attach_and_read)
    note_reads = _by_path(Operations.note_reads)
    hold_alone = _by_path(Operations.hold_alone)
    remove_names = _by_path(Operations.remove_names)
    add_files = _by_path(Operations.add_files)
    _open_status = _by_path(Operations.open_status)

    def open(self, path: Where, flags: int = 0, mode: int = 0o644, *, layout: Layout | None = None) -> File:
        """Open a file; see `Operations.open_handle`."""
        return self.open_status(path, flags, mode, layout=layout)[0]

    def open_status(
        self,
        path: Where,
        flags: int = 0,
        mode: int = 0o644,
        *,
        layout: Layout | None = None,
        caller: Caller | None = None,
    ) -> tuple[File, FileStatus]:
        """Open a file, and return also its status; see `Operations.open_status`."""
        handle, status = self._open_status(path, flags, mode, layout=layout, caller=caller)
        return File(self, handle), status

    def use_handle(self, handle: Handle) -> File:
        """A file whose identity is known. I/O nodes open it when it is used first."""
        return File(self, handle)

    def truncate(self, path: Where, size: int) -> None:
        """Cut or extend a file to exactly `size` bytes."""
        with self.open(path, os.O_WRONLY) as file:
            file.truncate(size)

    def append(self, file: File, data: Bytes) -> int:
        """Write `data` at the end of a file, whoever else appends to it at the same time; return its place.

        Each client that appends takes its turn.
        """
        keeper, turn = self.locks, LockRequest(client=self.locks.client, space=APPEND, kind=EXCLUSIVE)
        turn.owner, turn.wait = secrets.randbits(63), _TURN
        token = file.id, APPEND, turn.owner
        keeper.hold(token)
        try:
            place = self._take_turn(file, turn)
            keeper.check()
            if not keeper.holds(token):
                raise OSError(errno.EIO, "the turn to append was lost")
            file.pwrite(data, place)
            return place
        finally:
            self.release_lock(file, turn)
            keeper.drop(token)

    def _take_turn(self, file: File, turn: LockRequest) -> int:
        until = monotonic() + self._patience
        while True:
            asked = monotonic()
            answer = file.lock(turn)
            self.locks.note(answer.epoch, asked)
            if answer.granted:
                return answer.size
            if asked > until:
                raise OSError(errno.EIO, f"another client has appended for {self._patience:g} s")

    def release_lock(self, file: File, held: LockRequest) -> None:
        """Release a lock; if the server is away, as soon as it is back."""
        request = held.make_release()
        try:
            file.lock(request)
        except OSError as error:
            if error.errno == errno.ESTALE:  # nobody can ask for the file any more
                return
            self.locks.release_later(lambda: self._run(Operations.lock, file.handle, request))

    def close(self) -> None:
        """Close all connections; requests in progress in other threads fail."""
        self._closed = True
        self._lease_socket.interrupt()
        for sock in self._sockets:
            sock.interrupt()
            if self._pop(sock):  # else the thread that uses it closes it
                self._put_back(sock)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._sockets = [self._new_socket() for _ in range(self._connections)]
        self._idle = self._sockets.copy()
        self._returned, self._waiting = threading.Condition(), 0
        self._lease_socket = self._new_socket()  # a lease must not end because all connections are in use
        self.locks = LockKeeper(self._renew_lease)

    def _renew_lease(self, client: int) -> int:
        self.before_wait()
        return _complete(Operations(self._lease_socket, self._patience).renew_lease(client))

    def _run(self, operation: Callable[Concatenate[Operations, P], Async[T]], *args: P.args, **options: P.kwargs) -> T:
        """Carry out an operation on one connection."""
        self.before_wait()
        if os.getpid() != self._process:  # after a fork: the connections belong to the parent
            inherited = self._sockets
            self._begin()
            for sock in inherited:
                sock.close()
        sock = self._take()
        try:
            return _complete(operation(Operations(sock, self._patience), *args, **options))
        finally:
            self._put_back(sock)

    def _take(self) -> NodeSocket:
        """Wait for an idle connection; take the one used last, whose I/O node is likely to be up."""
        sock = self._pop()
        if sock is not None:
            return sock
        with self._returned:
            self._waiting += 1  # before the next attempt, so that a thread that returns a connection sees it
            try:
                while (sock := self._pop()) is None:
                    self._returned.wait()
                return sock
            finally:
                self._waiting -= 1

    def _pop(self, sock: NodeSocket | None = None) -> NodeSocket | None:
        """Take any idle connection, or this one if it is idle, in one atomic step; None if there is none."""
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
            elif sock.leaving and not self._closes_later:
                self.before_wait()
                with suppress(StopIteration):
                    sock.close_left_files().send(None)
        finally:
            self._idle.append(sock)
            if self._waiting:
                with self._returned:
                    self._returned.notify()

    def close_left_files(self) -> None:
        """Close the files at the I/O nodes that this client does not need any more."""
        for sock in self._sockets:
            if sock.leaving and self._pop(sock):  # a connection in use has its turn at the next call
                try:
                    with self._lock:
                        sock.leaving.difference_update([file for file in tuple(sock.leaving) if self._users[file]])
                    with suppress(StopIteration):
                        sock.close_left_files().send(None)
                finally:
                    self._put_back(sock)

    def _leave(self, file: int) -> None:
        """Close the file at the I/O nodes: now on idle connections, on the others after their operation."""
        for sock in self._sockets:
            if file in sock.attached:
                sock.leaving.add(file)
                if not self._closes_later and self._pop(sock):  # else the thread that uses it does this
                    self._put_back(sock)


def _complete(work: Async[T]) -> T:
    """Run an operation over a blocking channel, which never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("an operation over a blocking channel must not wait")


class File(OpenFile[Client], AbstractContextManager["File"]):
    def append(self, data: Bytes) -> int:
        """Write `data` at the end of the file; see `Client.append`."""
        return self._client.append(self, data)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._end() and not self._client._closed:
            self._client._leave(self.id)

    def __exit__(self, *_: object) -> None:
        self.close()
