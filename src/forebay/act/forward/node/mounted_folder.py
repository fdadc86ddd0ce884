"""The back end for a mounted file system: Lustre, CephFS, or any folder.

Names and bytes go through the mount. The layout only says which server a piece will reach, so that the scheduler can
order pieces by server. Calls that may wait for a disk run in threads.
"""

import asyncio
import errno
import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from forebay.act.forward.data import system_calls
from forebay.act.forward.data.untrusted_tree import append, read_at, write_at
from forebay.act.forward.net import payloads
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.payloads import ROOT, Caller, layout_fields, space_of
from forebay.act.forward.net.wire import LAST_OFFSET, Bytes, Kind, Message, pack
from forebay.act.forward.node.backend import Answer, Backend, Batch, NodeFile
from forebay.act.forward.node.dispatch import Dispatch
from forebay.act.forward.node.file_places import FilePlaces
from forebay.act.forward.node.forwarded_folder import Folder, descriptor_path, file_status, set_attributes
from forebay.act.forward.node.watchers import Watchers
from forebay.model.errors import UserError
from forebay.model.layout import Layout

_THREADS = 16
P = ParamSpec("P")
T = TypeVar("T")
Async = asyncio.Future[T]


class MountedFile:
    """An open file; its descriptor is closed when no client has it open and no request uses it."""

    __slots__ = ("handle", "in_progress", "inode", "is_open", "number", "pieces", "places")
    reach = LAST_OFFSET

    def __init__(self, inode: int, handle: int, places: FilePlaces) -> None:
        self.inode, self.handle, self.places, self.pieces = inode, handle, places, places.pieces
        self.number = -1
        self.in_progress, self.is_open = 0, False

    def close_if_unused(self) -> None:
        if not self.is_open and not self.in_progress and self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


class MountedFolder(Backend):
    """`find_places(path)` says which of the `servers` servers hold which bytes of a file.

    It never drops overdue requests, since a thread inside the kernel can't be interrupted.
    """

    def __init__(self, folder: Folder, find_places: Callable[[Path], FilePlaces], servers: int) -> None:
        self.count, self.watchers = servers, Watchers()
        self.up = [True] * servers
        self._folder, self._find_places = folder, find_places
        self._threads = ThreadPoolExecutor(_THREADS, "posix")
        self._buffers = Buffers(1 << 62, kept=64 << 20)
        self._loop = asyncio.get_running_loop()
        self._files: dict[int, MountedFile] = {}
        self._in_progress: Counter[int] = Counter()  # requests of each session
        self._fences: dict[int, list[asyncio.Future[None]]] = {}

    async def start(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch

    async def close(self) -> None:
        await self._loop.run_in_executor(None, self._threads.shutdown)
        for file in self._files.values():
            file.is_open = False
            file.close_if_unused()
        self._folder.close()

    # Reads and writes

    def send(self, slot: int, server: int, batch: Batch) -> None:  # noqa: ARG002
        file = batch[0][0].file
        assert isinstance(file, MountedFile)
        file.in_progress += 1
        self._in_progress.update(request.message.session for request, _, _ in batch)
        places = [request.message.offset + request.pieces[i].at for request, i, _ in batch]
        if batch[0][0].write:
            data = [r.message.payload[r.pieces[i].at :][: r.pieces[i].length] for r, i, _ in batch]
            writing = self._loop.run_in_executor(self._threads, _write, file.handle, places, data)
            writing.add_done_callback(lambda work: self._finish(slot, batch, file, work.exception()))
        else:
            rooms = [self._buffers.take(request.pieces[i].length) for request, i, _ in batch]
            views = [room[: r.pieces[i].length] for room, (r, i, _) in zip(rooms, batch, strict=True)]
            reading = self._loop.run_in_executor(self._threads, _read, file.handle, places, views)
            reading.add_done_callback(lambda work: self._take_read(slot, batch, file, rooms, work))

    def _take_read(
        self, slot: int, batch: Batch, file: MountedFile, rooms: list[memoryview], work: asyncio.Future[list[int]]
    ) -> None:
        error = work.exception()
        lengths = [0] * len(batch) if error else work.result()
        for (request, i, _), room, length in zip(batch, rooms, lengths, strict=True):
            reply = Message(Kind.READ, payload=room[:length])
            reply.buffer, reply.buffers = room, self._buffers
            request.parts[i] = reply.payload
            request.replies.append(reply)
        self._finish(slot, batch, file, error)

    def _finish(self, slot: int, batch: Batch, file: MountedFile, error: BaseException | None) -> None:
        file.in_progress -= 1
        file.close_if_unused()
        for request, _, _ in batch:
            session = request.message.session
            self._in_progress[session] -= 1
            if not self._in_progress[session]:
                del self._in_progress[session]
                for fence in self._fences.pop(session, ()):
                    fence.set_result(None)
        if error is None:
            self._dispatch.complete([(slot, batch)])
        else:
            number = error.errno if isinstance(error, OSError) and error.errno else errno.EIO
            self._dispatch.refuse(slot, batch, number, str(error))

    # Everything else

    def open_file(self, file: int, number: int, layout: Layout) -> NodeFile:  # noqa: ARG002
        opened = self._files[file]
        opened.number, opened.is_open = number, True
        return opened

    def close_file(self, file: NodeFile) -> None:
        assert isinstance(file, MountedFile)
        file.is_open = False
        self._files.pop(file.inode, None)
        file.close_if_unused()

    async def file_size(self, file: NodeFile, session: int) -> int:  # noqa: ARG002
        assert isinstance(file, MountedFile)
        return (await self._in_thread(os.fstat, file.handle)).st_size

    async def fence(self, session: int) -> None:
        """Wait for what this node has in progress; a mounted file system cannot refuse writes of other nodes."""
        if session in self._in_progress:
            fence = self._loop.create_future()
            self._fences.setdefault(session, []).append(fence)
            await fence

    def _in_thread(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> asyncio.Future[T]:
        return self._loop.run_in_executor(self._threads, partial(work, *args, **options))

    def _as_caller(self, caller: Caller | None, work: Callable[..., T], *args: Any) -> Async[T]:
        """Do `work` in a thread with the rights of the caller; the kernel checks them."""

        def act() -> T:
            with system_calls.acting_as(caller):
                return work(*args)

        return self._loop.run_in_executor(self._threads, act)

    async def do_open(self, _: Message, request: payloads.OpenRequest) -> Answer:
        handle, created, access = await self._as_caller(request.caller, self._open_or_create, request)
        try:
            status = os.fstat(handle)
            known = self._files.get(status.st_ino)
            if known is None:
                shared = await self._in_thread(_open_shared, handle)
                places = await self._in_thread(self._places, request.path)
                known = self._files.setdefault(status.st_ino, MountedFile(status.st_ino, shared, places))
                if known.handle != shared:  # another request opened it in the meantime
                    os.close(shared)
        finally:
            os.close(handle)
        layout = known.places.layout
        status_now = file_status(known.handle, layout, created=created)
        status_now.access = access
        return Answer(pack(status_now), status.st_ino, layout, access)

    def _open_or_create(self, request: payloads.OpenRequest) -> tuple[int, bool, int]:
        """Return a descriptor, whether the file is new, and the access that the caller has."""
        while True:
            try:
                handle, access = self._open_existing(request)
                # A repeated request may have created the file itself before its answer was lost.
                repeated = request.again and not os.fstat(handle).st_size
                if request.create and request.exclusive and not repeated:
                    os.close(handle)
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
                if request.truncate:
                    os.ftruncate(handle, 0)
                return handle, False, access
            except FileNotFoundError:
                if not request.create:
                    raise
            try:
                return self._folder.create(request), True, 6
            except FileExistsError:  # another process created it in the meantime
                if request.exclusive:
                    raise

    def _open_existing(self, request: payloads.OpenRequest) -> tuple[int, int]:
        wanted = 2 if request.truncate else 0
        for flags, access in ((os.O_RDWR, 6), (os.O_RDONLY, 4), (os.O_WRONLY, 2)):
            if not (request.access | wanted) & ~access:
                try:
                    return self._folder.open(request.path, flags), access
                except PermissionError:
                    continue
                except OSError as error:
                    if error.errno not in (errno.EROFS, errno.ETXTBSY):
                        raise
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _places(self, path: bytes) -> FilePlaces:
        try:
            return self._find_places(self._folder.full_path(path))
        except UserError as error:
            raise OSError(errno.EIO, str(error)) from None

    def _open_here(self, file: int) -> MountedFile:
        known = self._files.get(file)
        if known is None:
            raise OSError(errno.ESTALE, "the file is not open at this I/O node; open it again")
        return known

    async def do_attach(self, message: Message, _: payloads.PathRequest) -> Answer:
        known = self._open_here(message.file)
        layout = known.places.layout
        return Answer(pack(file_status(known.handle, layout)), message.file, layout)

    async def do_stat(self, message: Message, request: payloads.PathRequest) -> Answer:
        status = await self._with(message, request, file_status)
        known = self._files.get(status.file or 0)
        if known is not None:
            status.layout_fields = layout_fields(known.places.layout)
        return _answer_status(status)

    async def do_setattr(self, message: Message, request: payloads.AttributesRequest) -> Answer:
        if request.clear:  # the file's own kernel would do this for a write, whoever writes
            request.caller = None
        return _answer_status(await self._with(message, request, lambda handle: set_attributes(handle, request)))

    def _with(self, message: Message, request: payloads.PathRequest, work: Callable[[int], T]) -> Async[T]:
        """Do `work` with the file of a request, which is open here or has a path."""
        file = message.file or (request.at if request.at != ROOT else 0)
        if file:
            return self._as_caller(request.caller, work, self._open_here(file).handle)

        def find_and_work() -> T:
            with self._folder.open_path(request.path) as handle:
                return work(handle)

        return self._as_caller(request.caller, find_and_work)

    async def do_getxattr(self, message: Message, request: payloads.AttributeRequest) -> Answer:
        name = request.name

        def read(handle: int) -> payloads.AttributeValues:
            if name is None:
                names = map(os.fsencode, os.listxattr(descriptor_path(handle)))
                return payloads.AttributeValues(names=[name for name in names if name.startswith(b"user.")])
            _check_attribute(name)
            return payloads.AttributeValues(value=os.getxattr(descriptor_path(handle), name))

        return Answer(pack(await self._with(message, request, read)))

    async def do_setxattr(self, message: Message, request: payloads.SetAttributeRequest) -> None:
        def write(handle: int) -> None:
            _check_attribute(request.name)
            if request.value is None:
                os.removexattr(descriptor_path(handle), request.name)
            else:
                flags = (os.XATTR_CREATE if request.create else 0) | (os.XATTR_REPLACE if request.replace else 0)
                os.setxattr(descriptor_path(handle), request.name, request.value, flags)

        await self._with(message, request, write)

    async def do_allocate(self, message: Message, request: payloads.AllocateRequest) -> None:
        handle = self._open_here(message.file).handle
        await self._in_thread(system_calls.allocate, handle, request.mode, request.offset, request.length)

    async def do_append(self, message: Message, _: None) -> None:
        await self._in_thread(append, self._open_here(message.file).handle, message.payload)

    async def do_truncate(self, message: Message, _: None) -> None:
        handle = self._open_here(message.file).handle
        await self._in_thread(os.ftruncate, handle, message.offset)
        if message.size:
            await self._in_thread(set_attributes, handle, payloads.AttributesRequest(clear=True))

    async def do_fsync(self, message: Message, _: None) -> None:
        await self._in_thread(
            os.fsync, self._folder.base if message.file == ROOT else self._open_here(message.file).handle
        )

    async def do_unlink(self, _: Message, request: payloads.OnceRequest) -> None:
        await self._change_name(request, FileNotFoundError, partial(self._folder.unlink, request.path))

    async def do_rmdir(self, _: Message, request: payloads.OnceRequest) -> None:
        await self._change_name(request, FileNotFoundError, partial(self._folder.rmdir, request.path))

    async def do_rename(self, _: Message, request: payloads.RenameRequest) -> None:
        await self._change_name(request, FileNotFoundError, partial(self._folder.rename_to, request))

    async def do_mkdir(self, message: Message, request: payloads.MkdirRequest) -> Answer:
        return await self._make(message, request, partial(self._folder.make_folder, request))

    async def do_make(self, message: Message, request: payloads.MakeRequest) -> Answer:
        return await self._make(message, request, partial(self._folder.make, request))

    async def do_link(self, message: Message, request: payloads.LinkRequest) -> Answer:
        if request.at != ROOT:
            raise OSError(errno.EINVAL, "an I/O node in front of another file system needs a path")
        return await self._make(message, request, partial(self._folder.link_to, request.path, request.to), request.to)

    async def _make(
        self,
        message: Message,
        request: payloads.OnceRequest,
        work: Callable[[], payloads.FileStatus],
        path: bytes | None = None,
    ) -> Answer:
        try:
            return _answer_status(await self._as_caller(request.caller, work))
        except FileExistsError:
            if not request.again:
                raise
            made = payloads.PathRequest(path=request.path if path is None else path, caller=request.caller)
            return _answer_status(await self._with(message, made, file_status))

    async def _change_name(self, request: payloads.OnceRequest, done: type[OSError], work: Callable[[], None]) -> None:
        """Carry out `work`; for a repeated request, the error `done` means that the first attempt succeeded."""
        with suppress(done) if request.again else nullcontext():
            await self._as_caller(request.caller, work)

    async def do_readdir(self, _: Message, request: payloads.ListRequest) -> Answer:
        page = await self._as_caller(request.caller, self._folder.list_page, request.path, request.after)
        return Answer(pack(page))

    async def do_layout(self, _: Message, request: payloads.LayoutRequest) -> Answer:
        if request.layout is not None:
            raise OSError(errno.EOPNOTSUPP, "cannot set a layout here; use the file system's own commands")
        layout = (await self._in_thread(self._places, request.path)).layout
        return Answer(pack(payloads.LayoutAnswer(layout=layout_fields(layout))))

    async def do_statfs(self, _: Message, __: None) -> Answer:
        return Answer(pack(space_of(await self._in_thread(os.fstatvfs, self._folder.base))))


def _open_shared(handle: int) -> int:
    """Open a file again for all sessions, to read and to write if this process may."""
    try:
        return os.open(descriptor_path(handle), os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return os.dup(handle)


def _check_attribute(name: bytes) -> None:
    """Raise EOPNOTSUPP unless this is an extended attribute of users: others have a meaning for this node's kernel."""
    if not name.startswith(b"user."):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def _answer_status(status: payloads.FileStatus) -> Answer:
    return Answer(pack(status), status.file or 0)


def _write(handle: int, places: Sequence[int], parts: Sequence[Bytes]) -> None:
    for offset, data in zip(places, parts, strict=True):
        write_at(handle, data, offset)


def _read(handle: int, places: Sequence[int], rooms: Sequence[memoryview]) -> list[int]:
    return [read_at(handle, room, offset) for offset, room in zip(places, rooms, strict=True)]
