"""The operations of clients, and how they repeat requests. No code here uses a socket or waits.

Each operation is a coroutine over a `Channel`. The channel of sync.py blocks, so its coroutines end without ever
suspending; that of aio.py waits in an event loop.

An operation repeats a request for `patience` seconds if it was lost, or if a process of the layer answers AGAIN. Reads,
and writes of the same bytes to the same place, may be carried out twice. Requests that create, remove or rename must
not; payloads.py says how servers recognise repeated ones.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from time import monotonic
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, overload

from forebay.act.forward.net import payloads
from forebay.act.forward.net.payloads import layout_fields, read_layout
from forebay.act.forward.net.wire import AGAIN, LAST_OFFSET, LONGEST, BadMessage, Bytes, Kind, Message, pack, unpack_as
from forebay.model.errors import ForebayError
from forebay.model.layout import Layout

if TYPE_CHECKING:
    from forebay.act.forward.clients.aio import AsyncClient, AsyncFile
    from forebay.act.forward.clients.sync import Client, File

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", covariant=True)
C = TypeVar("C", bound="Client | AsyncClient")
Async = Coroutine[Any, Any, T]
Buffer = Any
"""Anything with the buffer protocol."""
PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Owner = tuple[int | None, int | None]
"""A user and a group; None stands for the user who mounts the layer."""
NOBODY: Owner = None, None
_SOONEST, _LATEST = 0.05, 1.0
_MOST_ATTACHES = 8


class Lost(ForebayError):
    """The connection was lost or could not be opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """An open file as the layer knows it."""

    file: int
    layout: Layout


class Request:
    """One request; the bytes of a read go to `into`, and `payload` is `content` in packed form.

    If it has a `handle`, the connection must attach to its file first.
    """

    __slots__ = ("content", "file", "handle", "into", "kind", "offset", "payload", "size")

    def __init__(
        self,
        kind: int,
        handle: Handle | None = None,
        *,
        file: int = 0,
        offset: int = 0,
        size: int = 0,
        payload: Bytes = b"",
        into: memoryview | None = None,
        content: payloads.Payload | None = None,
    ) -> None:
        self.kind, self.handle, self.offset, self.size = kind, handle, offset, size
        self.file = file if handle is None else handle.file
        self.payload, self.into, self.content = payload, into, content
        if isinstance(content, payloads.OnceRequest):
            content.key = secrets.randbits(63) | 1
        if content is not None:
            self.payload = pack(content)

    def mark_repeated(self) -> None:
        """Mark the request as one that may have been carried out before."""
        if isinstance(self.content, payloads.OnceRequest):
            self.content.again = True
            self.payload = pack(self.content)


class Channel(Protocol):
    """Sends requests to an I/O node."""

    async def exchange(self, request: Request) -> Message:
        """Return the answer; raises `Lost` if it is unknown whether the request was carried out."""

    async def pause(self, seconds: float) -> None: ...


class Entry(NamedTuple):
    """A name in a folder."""

    name: str
    is_folder: bool


class Operations:
    """The operations; `patience` is in seconds, and `now` is a monotonic clock in seconds."""

    def __init__(self, channel: Channel, patience: float, now: Callable[[], float] = monotonic) -> None:
        self._channel, self._patience, self._now = channel, patience, now

    # Open files

    async def open_handle(
        self, path: PathLike, flags: int = 0, mode: int = 0o644, *, layout: Layout | None = None, owner: Owner = NOBODY
    ) -> Handle:
        """Open a file; of the `flags` of os.open, O_CREAT, O_EXCL and O_TRUNC count. A new file gets `layout`, or its
        folder's."""
        content = payloads.OpenRequest(
            path=wire_path(path),
            create=bool(flags & os.O_CREAT),
            exclusive=bool(flags & os.O_CREAT and flags & os.O_EXCL),
            mode=mode,
            layout=None if layout is None else layout_fields(layout),
            uid=owner[0],
            gid=owner[1],
        )
        answer = await self._ask(Kind.OPEN, content=content)
        status = _read(payloads.FileStatus, answer)
        handle = Handle(file=answer.file, layout=status.layout)
        if flags & os.O_TRUNC and not status.created:
            await self.truncate(handle, 0)
        return handle

    async def pread(self, handle: Handle, size: int, offset: int) -> bytes:
        """Read `size` bytes; fewer only at the end of the file."""
        if size < 0:
            raise OSError(errno.EINVAL, "the size must not be negative")
        room = bytearray(size)
        count = await self.preadinto(handle, room, offset)
        return bytes(memoryview(room)[:count])

    async def preadinto(self, handle: Handle, room: Buffer, offset: int) -> int:
        """Fill `room` straight from the socket; return the number of bytes, smaller only at the end of the file."""
        view = memoryview(room).cast("B")
        size, done = len(view), 0
        _check(offset, size, errno.EINVAL)
        while done < size:
            part = view[done : done + LONGEST]
            count = (await self._ask(Kind.READ, handle, offset=offset + done, size=len(part), into=part)).size
            done += count
            if count < len(part):
                break
        return done

    async def pwrite(self, handle: Handle, data: Buffer, offset: int) -> int:
        """Write all of `data` to the data servers; `fsync` puts it on their disks."""
        view = memoryview(data).cast("B")
        size, done = len(view), 0
        _check(offset, size, errno.EFBIG)
        while done < size:
            part = view[done : done + LONGEST]
            answer = await self._ask(Kind.WRITE, handle, offset=offset + done, payload=part)
            if answer.size != len(part):
                raise OSError(errno.EIO, f"only {answer.size} of {len(part)} bytes were written")
            done += len(part)
        return size

    async def truncate(self, handle: Handle, size: int) -> None:
        """Cut or extend the file to exactly `size` bytes."""
        _check(size, 0, errno.EFBIG)
        await self._ask(Kind.TRUNCATE, handle, offset=size)

    async def fsync(self, handle: Handle) -> None:
        """Put everything written before, and the name of the file, on the disks of the servers."""
        await self._ask(Kind.FSYNC, handle)

    # Open files, or paths

    async def stat(self, where: PathLike | Handle) -> payloads.FileStatus:
        """The status of a file or folder; its mode includes its type."""
        if isinstance(where, Handle):
            answer = await self._ask(Kind.STAT, where)
        else:
            answer = await self._ask(Kind.STAT, content=payloads.PathRequest(path=wire_path(where)))
        status = _read(payloads.FileStatus, answer)
        status.mode |= stat.S_IFDIR if status.is_folder else stat.S_IFREG
        return status

    async def chmod(self, where: PathLike | Handle, mode: int) -> None:
        await self._set_attributes(where, payloads.AttributesRequest(mode=mode))

    async def chown(self, where: PathLike | Handle, uid: int | None, gid: int | None) -> None:
        """Change the owner; None keeps the user or the group."""
        await self._set_attributes(where, payloads.AttributesRequest(uid=uid, gid=gid))

    async def utime(self, where: PathLike | Handle, mtime: int) -> None:
        """Set the time of the last change, in nanoseconds since 1970."""
        await self._set_attributes(where, payloads.AttributesRequest(mtime=mtime))

    async def _set_attributes(self, where: PathLike | Handle, content: payloads.AttributesRequest) -> None:
        handle = where if isinstance(where, Handle) else None
        content.path = None if isinstance(where, Handle) else wire_path(where)
        await self._ask(Kind.SETATTR, handle, content=content)

    # Names

    async def unlink(self, path: PathLike) -> None:
        await self._ask(Kind.UNLINK, content=payloads.OnceRequest(path=wire_path(path)))

    async def rename(self, path: PathLike, to: PathLike) -> None:
        """Rename a file or folder; a file with the new name is unlinked."""
        content = payloads.RenameRequest(path=wire_path(path), to=wire_path(to))
        await self._ask(Kind.RENAME, content=content)

    async def mkdir(
        self, path: PathLike, mode: int = 0o755, *, layout: Layout | None = None, owner: Owner = NOBODY
    ) -> None:
        """Create a folder, whose new files get `layout`, or else the layout of its parent."""
        content = payloads.MkdirRequest(
            path=wire_path(path),
            mode=mode,
            layout=None if layout is None else layout_fields(layout),
            uid=owner[0],
            gid=owner[1],
        )
        await self._ask(Kind.MKDIR, content=content)

    async def rmdir(self, path: PathLike) -> None:
        await self._ask(Kind.RMDIR, content=payloads.OnceRequest(path=wire_path(path)))

    async def readdir(self, path: PathLike = "/") -> list[Entry]:
        """List a folder by the bytes of the names, without '.' and '..'."""
        entries: list[Entry] = []
        after, more = b"", True
        while more:
            content = payloads.ListRequest(path=wire_path(path), after=after)
            page = _read(payloads.ListPage, await self._ask(Kind.READDIR, content=content))
            entries += (Entry(os.fsdecode(name), folder) for name, folder in page.entries)
            after, more = page.entries[-1][0] if page.entries else b"", page.more
        return entries

    async def layout(self, path: PathLike) -> Layout:
        """The layout of a file, or the one that new files in a folder get."""
        answer = await self._ask(Kind.LAYOUT, content=payloads.LayoutRequest(path=wire_path(path)))
        return read_layout(_read(payloads.LayoutAnswer, answer).layout)

    async def set_layout(self, path: PathLike, layout: Layout) -> None:
        """Set the layout that new files and folders in this folder get."""
        content = payloads.LayoutRequest(path=wire_path(path), layout=layout_fields(layout))
        await self._ask(Kind.LAYOUT, content=content)

    async def statfs(self) -> payloads.Space:
        """The total space of all data servers."""
        return _read(payloads.Space, await self._ask(Kind.STATFS))

    async def _ask(self, kind: Kind, handle: Handle | None = None, **fields: Any) -> Message:
        """Repeat a request until it has an answer; `fields` are those of `Request`. Raises errors as OSError."""
        request = Request(kind, handle, **fields)
        until, pause, attaches = None, 0.0, 0
        while True:
            try:
                answer = await self._channel.exchange(request)
                if not answer.status:
                    return answer
                if answer.status == errno.ESTALE and request.handle is not None and attaches < _MOST_ATTACHES:
                    attaches += 1  # the node seems to have forgotten the file
                    answer = await self._channel.exchange(Request(Kind.ATTACH, file=request.handle.file))
                    if not answer.status:
                        continue
                problem = OSError(answer.status, answer.error_text())
                if answer.status != AGAIN:
                    raise problem
            except Lost as lost:
                problem = OSError(errno.EIO, str(lost))
            now = self._now()
            until = now + self._patience if until is None else until
            if now >= until:
                raise OSError(errno.EIO, f"{problem.strerror} (gave up after {self._patience:g} s)") from None
            if pause:
                await self._channel.pause(min(pause, until - now))
            pause = min(2 * pause or _SOONEST, _LATEST)
            request.mark_repeated()


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
    fsync = _of_file(Operations.fsync)
    truncate = _of_file(Operations.truncate)
    stat = _of_file(Operations.stat)
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


def wire_path(path: PathLike) -> bytes:
    """Encode a path for the wire: bytes without a leading slash.

    >>> wire_path("/runs/a"), wire_path("/")
    (b'runs/a', b'')
    """
    return os.fsencode(path).lstrip(b"/")


def _check(offset: int, size: int, beyond: int) -> None:
    if offset < 0:
        raise OSError(errno.EINVAL, "the offset must not be negative")
    if offset + size > LAST_OFFSET:
        raise OSError(beyond, "the offset is beyond 2^63")


def _read(shape: type[T], answer: Message) -> T:
    try:
        return unpack_as(shape, answer.payload)
    except BadMessage as error:
        raise OSError(errno.EPROTO, f"the I/O node's answer is malformed: {error}") from None
