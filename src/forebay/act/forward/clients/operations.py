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
import stat
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from forebay.act.forward.clients.requests import Channel, Entry, Handle, Lost, Place, Request, Where, place_of
from forebay.act.forward.net import payloads
from forebay.act.forward.net.payloads import ROOT, Caller, layout_fields, read_layout
from forebay.act.forward.net.sole_payloads import (
    AddAnswer,
    AddedFile,
    AddRequest,
    AloneAnswer,
    AloneRequest,
    RemoveRequest,
)
from forebay.act.forward.net.wire import (
    AGAIN,
    LAST_OFFSET,
    LONGEST,
    OBJECT_STATUS,
    BadMessage,
    Kind,
    Message,
    unpack_as,
)
from forebay.model.layout import Layout

P = ParamSpec("P")
T = TypeVar("T")
Async = Coroutine[Any, Any, T]
Buffer = Any
"""Anything with the buffer protocol."""
_SOONEST, _LATEST = 0.05, 1.0
_MOST_ATTACHES = 8
_EXECUTE, _SEARCH = 0x20, 1
"""The flag with which the kernel opens a program: it needs no permission to read."""
_ACCESS = {os.O_RDONLY: 4, os.O_WRONLY: 2, os.O_RDWR: 6, os.O_ACCMODE: 6}


class Operations:
    """The operations; `patience` is in seconds, and `now` is a monotonic clock in seconds.

    The `caller` is the user for whom a mount makes a request; by default, the client's own user. An I/O node believes
    it only if the client may speak for others.
    """

    def __init__(self, channel: Channel, patience: float, now: Callable[[], float] = monotonic) -> None:
        self._channel, self._patience, self._now = channel, patience, now

    # Open files

    async def open_handle(
        self,
        path: Where,
        flags: int = 0,
        mode: int = 0o644,
        *,
        layout: Layout | None = None,
        caller: Caller | None = None,
    ) -> Handle:
        """Open a file; of the `flags` of os.open, the access mode, O_CREAT, O_EXCL and O_TRUNC count. A new file gets
        `layout`, or its folder's. A file that is opened to read can also be written if its mode allows it."""
        return (await self.open_status(path, flags, mode, layout=layout, caller=caller))[0]

    async def open_status(
        self,
        path: Where,
        flags: int = 0,
        mode: int = 0o644,
        *,
        layout: Layout | None = None,
        caller: Caller | None = None,
    ) -> tuple[Handle, payloads.FileStatus]:
        """Open a file as `open_handle` does, and return also its status; its size is known only if it is new."""
        at, name = place_of(path)
        content = payloads.OpenRequest(
            at=at, path=name, caller=caller, mode=mode, create=bool(flags & os.O_CREAT),
            exclusive=bool(flags & os.O_CREAT and flags & os.O_EXCL), truncate=bool(flags & os.O_TRUNC),
            access=_SEARCH if flags & _EXECUTE else _ACCESS[flags & os.O_ACCMODE],
            layout=None if layout is None else layout_fields(layout),
        )  # fmt: skip
        answer = await self._ask(Kind.OPEN, content=content)
        status = _read(payloads.FileStatus, answer)
        writes = content.access & 2 or content.truncate
        return Handle(file=answer.file, layout=status.layout, reads=0 if writes else 1), status

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

    async def write_small(self, handle: Handle, data: Buffer, offset: int) -> payloads.ObjectSize | None:
        """Write as `pwrite` does, with one message; return the object's status if all bytes are in one object."""
        view = memoryview(data).cast("B")
        _check(offset, len(view), errno.EFBIG)
        answer = await self._ask(Kind.WRITE, handle, offset=offset, payload=view, size=1)
        if answer.size != len(view):
            raise OSError(errno.EIO, f"only {answer.size} of {len(view)} bytes were written")
        if len(answer.payload) != OBJECT_STATUS.size:
            return None
        size, mtime, allocated = OBJECT_STATUS.unpack(answer.payload)
        return payloads.ObjectSize(size=size, mtime=mtime, allocated=allocated)

    async def attach(self, handle: Handle) -> None:
        """Open a file at the I/O node that this client has open."""
        await self._ask(Kind.ATTACH, file=handle.file, offset=handle.reads)

    async def attach_and_read(self, handle: Handle, most: int) -> bytes | None:
        """Open a file as `attach` does; return all of its bytes, if there are at most `most`."""
        content = payloads.StatusRequest(content=most)
        answer = await self._ask(Kind.ATTACH, file=handle.file, offset=handle.reads, content=content)
        return _read(payloads.FileStatus, answer).content

    async def note_reads(self, files: list[int]) -> None:
        """Count files as read whose bytes came with their status."""
        await self._ask(Kind.TOUCH, content=payloads.NodeList(nodes=files))

    async def truncate(self, handle: Handle, size: int, *, clear: bool = False) -> None:
        """Cut or extend the file to exactly `size` bytes; `clear` also clears its set-id bits."""
        _check(size, 0, errno.EFBIG)
        await self._ask(Kind.TRUNCATE, handle, offset=size, size=int(clear))

    async def allocate(self, handle: Handle, offset: int, length: int, mode: int = 0) -> None:
        """Allocate a range of bytes, or make a hole; `mode` is that of fallocate(2)."""
        if offset < 0 or length <= 0:
            raise OSError(errno.EINVAL, "the range must not be empty")
        _check(offset, length, errno.EFBIG)
        content = payloads.AllocateRequest(offset=offset, length=length, mode=mode)
        await self._ask(Kind.ALLOCATE, handle, content=content)

    async def fsync(self, handle: Handle) -> None:
        """Put everything written before, and the name of the file, on the disks of the servers."""
        await self._ask(Kind.FSYNC, handle)

    async def sync_names(self) -> None:
        """Put all names on the disk of the server that keeps them."""
        await self._ask(Kind.FSYNC, file=ROOT)

    async def append_at_end(self, handle: Handle, data: Buffer) -> None:
        """Append to a file of another file system, which knows its end (after a lost answer, perhaps twice)."""
        await self._ask(Kind.APPEND, handle, payload=memoryview(data).cast("B"))

    async def lock(self, handle: Handle, request: payloads.LockRequest) -> payloads.LockAnswer:
        """Get or release an advisory lock, or a turn to append; see `LockRequest`."""
        return _read(payloads.LockAnswer, await self._ask(Kind.LOCK, handle, content=request))

    async def renew_lease(self, client: int, *, ended: bool = False) -> int:
        """Renew the lease of a client's locks; return its epoch, or 0 if it holds nothing."""
        content = payloads.LeaseRequest(client=client, ended=ended)
        return _read(payloads.LeaseAnswer, await self._ask(Kind.LEASE, content=content)).epoch

    # Open files, or paths

    async def stat(
        self, where: Where | Handle, *, content: int = 0, caller: Caller | None = None
    ) -> payloads.FileStatus:
        """The status of a file or folder; of a symbolic link, that of the link itself.

        With it come the bytes of a file that has at most `content`, if the caller may read it and has a lease on it.
        """
        return await self._ask_status(Kind.STAT, where, payloads.StatusRequest(content=content, caller=caller))

    async def set_attributes(self, where: Where | Handle, content: payloads.AttributesRequest) -> payloads.FileStatus:
        """Change what `content` says, except where; return the new status."""
        return await self._ask_status(Kind.SETATTR, where, content)

    async def chmod(self, where: Where | Handle, mode: int) -> None:
        await self.set_attributes(where, payloads.AttributesRequest(mode=mode))

    async def chown(self, where: Where | Handle, uid: int | None, gid: int | None) -> None:
        """Change the owner; None keeps the user or the group."""
        await self.set_attributes(where, payloads.AttributesRequest(uid=uid, gid=gid))

    async def utime(self, where: Where | Handle, mtime: int | None, atime: int | None = None) -> None:
        """Set the times of the last change and the last read, in nanoseconds since 1970; None keeps a time."""
        await self.set_attributes(where, payloads.AttributesRequest(mtime=mtime, atime=atime))

    async def getxattr(self, where: Where, name: bytes, *, caller: Caller | None = None) -> bytes:
        content = payloads.AttributeRequest(name=name, caller=caller)
        return _read(payloads.AttributeValues, await self._ask_about(Kind.GETXATTR, where, content)).value

    async def listxattr(self, where: Where, *, caller: Caller | None = None) -> list[bytes]:
        content = payloads.AttributeRequest(caller=caller)
        return _read(payloads.AttributeValues, await self._ask_about(Kind.GETXATTR, where, content)).names

    async def setxattr(
        self, where: Where, name: bytes, value: bytes | None, flags: int = 0, *, caller: Caller | None = None
    ) -> None:
        """Set an extended attribute, or remove it if there is no value; `flags` are those of os.setxattr."""
        content = payloads.SetAttributeRequest(
            path=b"", name=name, value=value, create=bool(flags & os.XATTR_CREATE),
            replace=bool(flags & os.XATTR_REPLACE), caller=caller,
        )  # fmt: skip
        await self._ask_about(Kind.SETXATTR, where, content)

    # Names

    async def unlink(self, path: Where, *, caller: Caller | None = None) -> payloads.FileStatus | None:
        """Remove a name; return the status of its folder, if this client may keep it."""
        return _folder_in(await self._ask_about(Kind.UNLINK, path, payloads.OnceRequest(caller=caller)))

    async def hold_alone(self, folder: Place, begin: bytes, *, caller: Caller) -> AloneAnswer:
        """Ask to have a folder alone, with the files in it from the name `begin` on; only for mounts."""
        content = AloneRequest(begin=begin, caller=caller)
        return _read(AloneAnswer, await self._ask_about(Kind.ALONE, folder, content))

    async def remove_names(
        self, folder: Place, names: list[tuple[bytes, int]], at: int, *, caller: Caller
    ) -> payloads.FileStatus | None:
        """Remove names that stand for these files, as of a time at the server; return as `unlink`. Only for mounts."""
        content = RemoveRequest(names=names, time=at, caller=caller)
        return _folder_in(await self._ask_about(Kind.REMOVE, folder, content))

    async def add_files(
        self, folder: Place, files: list[AddedFile], layout: Layout, at: int, *, caller: Caller
    ) -> AddAnswer:
        """Add files that exist at the caller already to a folder, as of a time at the server. Only for mounts."""
        content = AddRequest(files=files, layout=layout_fields(layout), time=at, caller=caller)
        answer = _read(AddAnswer, await self._ask_about(Kind.ADD, folder, content))
        if len(answer.files) != len(files):
            raise OSError(errno.EPROTO, "the server's answer is about other files")
        return answer

    async def rename(
        self, path: Where, to: Where, *, exchange: bool = False, keep: bool = False, caller: Caller | None = None
    ) -> None:
        """Rename a file or folder; a file with the new name is unlinked, unless `keep` forbids it or `exchange` swaps
        both."""
        to_at, name = place_of(to)
        content = payloads.RenameRequest(to_at=to_at, to=name, exchange=exchange, keep=keep, caller=caller)
        await self._ask_about(Kind.RENAME, path, content)

    async def link(self, where: Where, to: Where, *, caller: Caller | None = None) -> payloads.FileStatus:
        """Give a file another name."""
        to_at, name = place_of(to)
        return await self._ask_status(Kind.LINK, where, payloads.LinkRequest(to_at=to_at, to=name, caller=caller))

    async def symlink(self, target: str | bytes, path: Where, *, caller: Caller | None = None) -> payloads.FileStatus:
        """Create a symbolic link. The layer does not follow it; a program's kernel does."""
        content = payloads.MakeRequest(mode=stat.S_IFLNK | 0o777, target=os.fsencode(target), caller=caller)
        return await self._ask_status(Kind.MAKE, path, content)

    async def mknod(
        self, path: Where, mode: int, device: int = 0, *, caller: Caller | None = None
    ) -> payloads.FileStatus:
        """Create a file, a pipe, a socket or a device, as the type in the mode says."""
        content = payloads.MakeRequest(mode=mode, device=device, caller=caller)
        return await self._ask_status(Kind.MAKE, path, content)

    async def readlink(self, path: Where) -> bytes:
        target = (await self.stat(path)).target
        if target is None:
            raise OSError(errno.EINVAL, "not a symbolic link")
        return target

    async def mkdir(
        self, path: Where, mode: int = 0o755, *, layout: Layout | None = None, caller: Caller | None = None
    ) -> payloads.FileStatus:
        """Create a folder, whose new files get `layout`, or else the layout of its parent."""
        fields = None if layout is None else layout_fields(layout)
        return await self._ask_status(Kind.MKDIR, path, payloads.MkdirRequest(mode=mode, layout=fields, caller=caller))

    async def rmdir(self, path: Where, *, caller: Caller | None = None) -> payloads.FileStatus | None:
        """Remove an empty folder; return the status of the folder above it, if this client may keep it."""
        return _folder_in(await self._ask_about(Kind.RMDIR, path, payloads.OnceRequest(caller=caller)))

    async def reserve(self, folder: int, number: int) -> list[int]:
        """Reserve ids for new files in a folder; only for the layer's own programs."""
        return _read(payloads.NodeList, await self._ask(Kind.RESERVE, file=folder, offset=number)).nodes

    async def place(self, folder: int, files: list[payloads.PlacedFile]) -> None:
        """Give new files their names in a folder, all or none; only for the layer's own programs."""
        await self._ask_about(Kind.PLACE, Place(folder), payloads.PlaceRequest(files=files))

    async def readdir(self, path: Where = "/", *, caller: Caller | None = None) -> list[Entry]:
        """List a folder by the bytes of the names, without '.' and '..'."""
        entries: list[Entry] = []
        after, more = b"", True
        while more:
            content = payloads.ListRequest(after=after, caller=caller)
            page = _read(payloads.ListPage, await self._ask_about(Kind.READDIR, path, content))
            entries += (Entry(os.fsdecode(name), mode, file) for name, mode, file in page.entries)
            after, more = page.entries[-1][0] if page.entries else b"", page.more
        return entries

    async def layout(self, path: Where) -> Layout:
        """The layout of a file, or the one that new files in a folder get."""
        answer = await self._ask_about(Kind.LAYOUT, path, payloads.LayoutRequest())
        return read_layout(_read(payloads.LayoutAnswer, answer).layout)

    async def set_layout(self, path: Where, layout: Layout, *, caller: Caller | None = None) -> None:
        """Set the layout that new files and folders in this folder get."""
        content = payloads.LayoutRequest(layout=layout_fields(layout), caller=caller)
        await self._ask_about(Kind.LAYOUT, path, content)

    async def statfs(self) -> payloads.Space:
        """The total space of all data servers."""
        return _read(payloads.Space, await self._ask(Kind.STATFS))

    async def _ask_status(
        self, kind: Kind, where: Where | Handle, content: payloads.PathRequest
    ) -> payloads.FileStatus:
        return _read(payloads.FileStatus, await self._ask_about(kind, where, content))

    async def _ask_about(self, kind: Kind, where: Where | Handle, content: payloads.PathRequest) -> Message:
        content.at, content.path = (where.file, b"") if isinstance(where, Handle) else place_of(where)
        return await self._ask(kind, where if isinstance(where, Handle) else None, content=content)

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
                    answer = await self._channel.exchange(
                        Request(Kind.ATTACH, file=request.handle.file, offset=request.handle.reads)
                    )
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


def _check(offset: int, size: int, beyond: int) -> None:
    if offset < 0:
        raise OSError(errno.EINVAL, "the offset must not be negative")
    if offset + size > LAST_OFFSET:
        raise OSError(beyond, "the offset is beyond 2^63")


def _folder_in(answer: Message) -> payloads.FileStatus | None:
    return _read(payloads.ForgetList, answer).folder if answer.payload else None


def _read(shape: type[T], answer: Message) -> T:
    try:
        return unpack_as(shape, answer.payload)
    except BadMessage as error:
        raise OSError(errno.EPROTO, f"the I/O node's answer is malformed: {error}") from None
