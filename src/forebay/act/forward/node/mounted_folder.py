"""The back end for a mounted file system: Lustre, CephFS, or any folder.

Names and bytes go through the mount. The layout only says which server a piece will reach, so that the scheduler can
order pieces by server. Calls that may wait for a disk run in threads.
"""

import asyncio
import errno
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from time import time_ns
from typing import Any, ParamSpec, TypeVar

from forebay.act.forward.data import system_calls
from forebay.act.forward.data.paths import clean_path
from forebay.act.forward.data.permissions import without_set_ids
from forebay.act.forward.data.tree import Parent, Tree, append, list_page, read_at, write_at
from forebay.act.forward.net import payloads
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.payloads import ROOT, Caller, ListPage, layout_fields, space_of
from forebay.act.forward.net.wire import Bytes, Kind, Message, pack
from forebay.act.forward.node.backend import Answer, Backend
from forebay.act.forward.node.dispatch import Batch, Dispatch, NodeFile
from forebay.act.forward.node.file_places import FilePlaces
from forebay.act.forward.node.watchers import Watchers
from forebay.model.errors import BadInput, UserError, why
from forebay.model.layout import Layout

_ANYTHING = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
"""Open anything, readable or not, only to change its attributes."""
_PAGE = 4096
_THREADS = 16
_UNKNOWN = Layout(count=1)
P = ParamSpec("P")
T = TypeVar("T")
Async = asyncio.Future[T]


class Folder(Tree):
    """Paths are relative to `root`, with or without a leading slash; errors are OSErrors."""

    def __init__(self, root: Path) -> None:
        try:
            super().__init__(root)
        except OSError as error:
            raise BadInput(str(root), f"cannot forward to this folder: {why(error)}") from None
        self._device = os.fstat(self.base).st_dev

    def parent(self, place: bytes) -> Parent:
        return super().parent(clean_path(place.lstrip(b"/")) or b".")

    def open(self, path: bytes, flags: int) -> int:
        with self.parent(path) as (folder, name):
            handle = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
        try:
            status = os.fstat(handle)
            if status.st_dev != self._device:
                raise OSError(errno.EXDEV, "another file system is mounted there; this I/O node forwards only one")
            _check_kind(status)
            if not flags & os.O_DIRECTORY and stat.S_ISDIR(status.st_mode):
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        except OSError:
            os.close(handle)
            raise
        return handle

    def create(self, request: payloads.OpenRequest) -> int:
        """Create a file and return its descriptor."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self.parent(request.path) as (folder, name):
            handle = os.open(name, flags, request.mode & 0o7777, dir_fd=folder)
        try:
            _set_initial_mode(handle, request.mode)
        except OSError:
            os.close(handle)
            raise
        return handle

    def make_folder(self, request: payloads.MkdirRequest) -> payloads.FileStatus:
        with self.parent(request.path) as (folder, name):
            os.mkdir(name, request.mode & 0o7777, dir_fd=folder)
        with self.anything(request.path) as handle:
            _set_initial_mode(handle, request.mode)
            return file_status(handle)

    def make(self, request: payloads.MakeRequest) -> payloads.FileStatus:
        """Create a file, a symbolic link, a pipe, a socket or a device."""
        with self.parent(request.path) as (folder, name):
            if request.target is not None:
                os.symlink(request.target, name, dir_fd=folder)
            else:
                os.mknod(name, request.mode, request.device, dir_fd=folder)
        with self.anything(request.path) as handle:
            if request.target is None:
                _set_initial_mode(handle, request.mode)
            return file_status(handle)

    @contextmanager
    def anything(self, path: bytes) -> Iterator[int]:
        """A descriptor of whatever has this name, readable or not, only for its attributes."""
        with self.parent(path) as (folder, name):
            handle = os.open(name, _ANYTHING, dir_fd=folder)
        try:
            yield handle
        finally:
            os.close(handle)

    def link_to(self, path: bytes, to: bytes) -> payloads.FileStatus:
        self.link(path, to)
        with self.anything(to) as handle:
            return file_status(handle)

    def rename_to(self, request: payloads.RenameRequest) -> None:
        with self.parent(request.path) as (folder, name), self.parent(request.to) as (into, new):
            system_calls.rename(folder, name, into, new, exchange=request.exchange, keep=request.keep)

    def unlink(self, path: bytes) -> None:
        with self.parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def rmdir(self, path: bytes) -> None:
        with self.parent(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def list_page(self, path: bytes, after: bytes) -> ListPage:
        return list_page(self.open(path, os.O_RDONLY | os.O_DIRECTORY), after, _PAGE)

    def full_path(self, path: bytes) -> Path:
        """The path of a file or folder, for commands that take no descriptor; raises if the path contains a link."""
        _check_kind(self.status(path))
        return self.folder / os.fsdecode(clean_path(path.lstrip(b"/")))


def set_attributes(handle: int, request: payloads.AttributesRequest) -> payloads.FileStatus:
    """Set the attributes that are not None, through any descriptor, even an O_PATH one; return the new status."""
    place = _place_of(handle)
    uid, gid = (-1 if number is None else number for number in (request.uid, request.gid))
    if (uid, gid) != (-1, -1):
        os.chown(place, uid, gid)
    if request.mode is not None:
        os.chmod(place, request.mode & 0o7777)  # noqa: PTH101  (see _place_of)
    if request.clear:
        mode = os.fstat(handle).st_mode
        if (without := without_set_ids(mode)) != mode:
            os.chmod(place, stat.S_IMODE(without))  # noqa: PTH101
    _set_times(place, handle, request)
    return file_status(handle)


def _set_times(place: str, handle: int, request: payloads.AttributesRequest) -> None:
    if request.mtime_now and request.atime_now:
        os.utime(place)
        return
    before, now = os.fstat(handle), time_ns()
    atime = now if request.atime_now else request.atime
    mtime = now if request.mtime_now else request.mtime
    if atime is not None or mtime is not None:
        kept = before.st_atime_ns if atime is None else atime, before.st_mtime_ns if mtime is None else mtime
        os.utime(place, ns=kept)


def _place_of(handle: int) -> str:
    """A path that leads to an open file, also to a symbolic link itself."""
    return f"/proc/self/fd/{handle}"


def _set_initial_mode(handle: int, mode: int) -> None:
    """Give a new file exactly this mode, whatever this process's umask; it keeps S_ISGID from its folder."""
    has = stat.S_IMODE(os.fstat(handle).st_mode)
    wanted = stat.S_IMODE(mode) | has & stat.S_ISGID
    if wanted != has:
        with system_calls.acting_as_itself():  # others than root cannot keep S_ISGID of a group that is not theirs
            os.chmod(_place_of(handle), wanted)  # noqa: PTH101


def _check_kind(status: os.stat_result) -> None:
    """Raise OSError unless this is the status of a file or a folder."""
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        number = errno.ELOOP if stat.S_ISLNK(status.st_mode) else errno.EINVAL
        raise OSError(number, os.strerror(number))


class MountedFile:
    """An open file; its descriptor is closed when no client has it open and no request uses it."""

    __slots__ = ("handle", "in_progress", "inode", "is_open", "number", "pieces", "places")

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
            self._dispatch.complete(slot, batch)
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
            with self._folder.anything(request.path) as handle:
                return work(handle)

        return self._as_caller(request.caller, find_and_work)

    async def do_getxattr(self, message: Message, request: payloads.AttributeRequest) -> Answer:
        name = request.name

        def read(handle: int) -> payloads.AttributeValues:
            if name is None:
                names = map(os.fsencode, os.listxattr(_place_of(handle)))
                return payloads.AttributeValues(names=[name for name in names if name.startswith(b"user.")])
            _check_attribute(name)
            return payloads.AttributeValues(value=os.getxattr(_place_of(handle), name))

        return Answer(pack(await self._with(message, request, read)))

    async def do_setxattr(self, message: Message, request: payloads.SetAttributeRequest) -> None:
        def write(handle: int) -> None:
            _check_attribute(request.name)
            if request.value is None:
                os.removexattr(_place_of(handle), request.name)
            else:
                flags = (os.XATTR_CREATE if request.create else 0) | (os.XATTR_REPLACE if request.replace else 0)
                os.setxattr(_place_of(handle), request.name, request.value, flags)

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
        return os.open(_place_of(handle), os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return os.dup(handle)


def _check_attribute(name: bytes) -> None:
    """Raise EOPNOTSUPP unless this is an extended attribute of users: others have a meaning for this node's kernel."""
    if not name.startswith(b"user."):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def _answer_status(status: payloads.FileStatus) -> Answer:
    return Answer(pack(status), status.file or 0)


def file_status(handle: int, layout: Layout = _UNKNOWN, *, created: bool = False) -> payloads.FileStatus:
    """The status of an open file, or of anything that a descriptor stands for."""
    status = os.fstat(handle)
    return payloads.FileStatus(
        file=status.st_ino,
        layout_fields=layout_fields(layout),
        mode=status.st_mode,
        mtime=status.st_mtime_ns,
        atime=status.st_atime_ns,
        ctime=status.st_ctime_ns,
        uid=status.st_uid,
        gid=status.st_gid,
        links=status.st_nlink,
        device=status.st_rdev,
        target=os.readlink(b"", dir_fd=handle) if stat.S_ISLNK(status.st_mode) else None,
        created=created,
        size=status.st_size,
        allocated=status.st_blocks * 512,
        by_path=True,
    )


def _write(handle: int, places: Sequence[int], parts: Sequence[Bytes]) -> None:
    for offset, data in zip(places, parts, strict=True):
        write_at(handle, data, offset)


def _read(handle: int, places: Sequence[int], rooms: Sequence[memoryview]) -> list[int]:
    return [read_at(handle, room, offset) for offset, room in zip(places, rooms, strict=True)]
