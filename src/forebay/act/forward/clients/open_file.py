"""Open files of both clients: the operations on an open file as methods."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Protocol, TypeVar, overload

from forebay.act.forward.clients.operations import Async, Operations, P, T
from forebay.act.forward.clients.requests import Handle

if TYPE_CHECKING:
    from forebay.act.forward.clients.aio import AsyncClient, AsyncFile
    from forebay.act.forward.clients.sync import Client, File

R = TypeVar("R", covariant=True)
C = TypeVar("C", bound="Client | AsyncClient")


class FileMethod(Protocol[P, R]):
    """An operation as a method of open files: a coroutine of `AsyncFile`, a blocking method of `File`."""

    @overload
    def __get__(self, file: AsyncFile, kind: type) -> Callable[P, Async[R]]: ...
    @overload
    def __get__(self, file: File, kind: type) -> Callable[P, R]: ...


def _of_file(operation: Callable[Concatenate[Operations, Handle, P], Async[T]]) -> FileMethod[P, T]:
    @wraps(operation)
    def method(file: OpenFile[Any], /, *args: P.args, **options: P.kwargs) -> Any:
        if file._closed:
            raise OSError(errno.EBADF, "the file is closed")
        return file._client._run(operation, file.handle, *args, **options)

    return method  # type: ignore[return-value]


class OpenFile(Generic[C]):
    """An open file of a client. Offsets and sizes are in bytes. It has no position, so threads can share it."""

    def __init__(self, client: C, handle: Handle) -> None:
        self._client, self.handle = client, handle
        self.id, self.layout = handle.file, handle.layout
        self._closed = False
        with client._lock:
            client._users[self.id] += 1

    pread = _of_file(Operations.pread)
    preadinto = _of_file(Operations.preadinto)
    pwrite = _of_file(Operations.pwrite)
    write_small = _of_file(Operations.write_small)
    attach = _of_file(Operations.attach)
    fsync = _of_file(Operations.fsync)
    truncate = _of_file(Operations.truncate)
    allocate = _of_file(Operations.allocate)
    append_at_end = _of_file(Operations.append_at_end)
    lock = _of_file(Operations.lock)
    stat = _of_file(Operations.stat)
    set_attributes = _of_file(Operations.set_attributes)
    chmod = _of_file(Operations.chmod)
    chown = _of_file(Operations.chown)
    utime = _of_file(Operations.utime)

    def _end(self) -> bool:
        """Close this object; return whether it was the client's last one for the file."""
        users = self._client._users
        with self._client._lock:
            if self._closed:
                return False
            self._closed = True
            users[self.id] -= 1
            is_last = not users[self.id]
            if is_last:
                del users[self.id]
            return is_last
