"""The back end for a mounted file system: Lustre, CephFS, or any folder.

Names and bytes go through the mount. The layout only says which server a piece will reach, so that the scheduler can
order pieces by server. Calls that may wait for a disk run in threads.
"""

import asyncio
import errno
import os
import stat
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from forebay.act.forward.data.records import clean_path
from forebay.act.forward.data.tree import Parent, Tree, list_page, read_at, write_at
from forebay.act.forward.net import payloads
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.payloads import ListPage, layout_fields, space_of
from forebay.act.forward.net.wire import Bytes, Kind, Message, pack
from forebay.act.forward.node.backend import Answer, Backend
from forebay.act.forward.node.dispatch import Batch, Dispatch, NodeFile
from forebay.act.forward.node.file_places import FilePlaces
from forebay.model.errors import BadInput, UserError, why
from forebay.model.layout import Layout

_ANYTHING = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
"""Open anything, readable or not, only to change its attributes."""
_PAGE = 4096
_THREADS = 16
P = ParamSpec("P")
T = TypeVar("T")


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

    def create(self, request: payloads.CreateRequest) -> int:
        """Create a file or a folder and return its descriptor, which is an O_PATH one for a folder."""
        with self.parent(request.path) as (folder, name):
            if isinstance(request, payloads.MkdirRequest):
                os.mkdir(name, request.mode, dir_fd=folder)
                handle = os.open(name, _ANYTHING, dir_fd=folder)
            else:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                handle = os.open(name, flags, request.mode, dir_fd=folder)
            try:
                _set_initial(handle, folder, request)
            except OSError:
                os.close(handle)
                raise
            return handle

    def make_folder(self, request: payloads.MkdirRequest) -> None:
        os.close(self.create(request))

    def set_attributes(self, request: payloads.AttributesRequest) -> None:
        """Set the attributes of a file or folder, readable or not."""
        with self.parent(request.path or b"") as (folder, name):
            handle = os.open(name, _ANYTHING, dir_fd=folder)
        try:
            _check_kind(os.fstat(handle))
            set_attributes(handle, request)
        finally:
            os.close(handle)

    def unlink(self, path: bytes) -> None:
        with self.parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def rmdir(self, path: bytes) -> None:
        with self.parent(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def list_page(self, path: bytes, after: bytes) -> ListPage:
        handle = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        return list_page(handle, after, _PAGE, lambda entry: entry.is_dir(follow_symlinks=False))

    def full_path(self, path: bytes) -> Path:
        """The path of a file or folder, for commands that take no descriptor; raises if the path contains a link."""
        _check_kind(self.status(path))
        return self.folder / os.fsdecode(clean_path(path.lstrip(b"/")))


def set_attributes(handle: int, request: payloads.AttributesRequest) -> None:
    """Set the attributes that are not None, through any descriptor, even an O_PATH one."""
    place = Path(f"/proc/self/fd/{handle}")
    uid, gid = (-1 if number is None else number for number in (request.uid, request.gid))
    if (uid, gid) != (-1, -1):
        os.chown(place, uid, gid)
    if request.mode is not None:
        place.chmod(request.mode & 0o7777)
    if request.mtime is not None:
        os.utime(place, ns=(place.stat().st_atime_ns, request.mtime))


def _check_kind(status: os.stat_result) -> None:
    """Raise OSError unless this is the status of a file or a folder."""
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        number = errno.ELOOP if stat.S_ISLNK(status.st_mode) else errno.EINVAL
        raise OSError(number, os.strerror(number))


def _set_initial(handle: int, folder: int, request: payloads.CreateRequest) -> None:
    """Set the owner and the mode of a new file or folder; with S_ISGID, the group is that of the folder above."""
    inherits = os.fstat(folder).st_mode & stat.S_ISGID
    with suppress(PermissionError):  # only root can give files away; otherwise they stay with this process's user
        set_attributes(handle, payloads.AttributesRequest(uid=request.uid, gid=None if inherits else request.gid))
    kept = os.fstat(handle).st_mode & stat.S_ISGID if inherits else 0
    set_attributes(handle, payloads.AttributesRequest(mode=request.mode | kept))


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
        self.count = servers
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

    def _in_thread(self, work: Callable[P, T], *args: P.args, **_: P.kwargs) -> asyncio.Future[T]:
        return self._loop.run_in_executor(self._threads, work, *args)

    async def do_open(self, _: Message, request: payloads.OpenRequest) -> Answer:
        handle, created, status = await self._in_thread(self._open_or_create, request)
        known = self._files.get(status.st_ino)
        if known is not None:
            os.close(handle)
        else:
            places = await self._in_thread(self._places, request.path)
            known = self._files.setdefault(status.st_ino, MountedFile(status.st_ino, handle, places))
            if known.handle != handle:  # another request opened it in the meantime
                os.close(handle)
        layout = known.places.layout
        return Answer(pack(_file_status(status, layout, created=created)), status.st_ino, layout)

    def _open_or_create(self, request: payloads.OpenRequest) -> tuple[int, bool, os.stat_result]:
        while True:
            try:
                try:
                    handle = self._folder.open(request.path, os.O_RDWR)
                except PermissionError:
                    handle = self._folder.open(request.path, os.O_RDONLY)
                status = os.fstat(handle)
                # A repeated request may have created the file itself before its answer was lost.
                if request.create and request.exclusive and not (request.again and not status.st_size):
                    os.close(handle)
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
                return handle, False, status
            except FileNotFoundError:
                if not request.create:
                    raise
            try:
                handle = self._folder.create(request)
                return handle, True, os.fstat(handle)
            except FileExistsError:  # another process created it in the meantime
                if request.exclusive:
                    raise

    def _places(self, path: bytes) -> FilePlaces:
        try:
            return self._find_places(self._folder.full_path(path))
        except UserError as error:
            raise OSError(errno.EIO, str(error)) from None

    def _open_here(self, message: Message) -> MountedFile:
        known = self._files.get(message.file)
        if known is None:
            raise OSError(errno.ESTALE, "the file is not open at this I/O node; open it again")
        return known

    async def do_attach(self, message: Message, _: None) -> Answer:
        known = self._open_here(message)
        status = await self._in_thread(os.fstat, known.handle)
        layout = known.places.layout
        return Answer(pack(_file_status(status, layout)), message.file, layout)

    async def do_stat(self, message: Message, request: payloads.PathRequest) -> Answer:
        if request.path is not None:
            status = await self._in_thread(self._folder.status, request.path)
        else:
            status = await self._in_thread(os.fstat, self._open_here(message).handle)
        known = self._files.get(status.st_ino)
        layout = known.places.layout if known is not None else Layout(count=1)
        return Answer(pack(_file_status(status, layout)), status.st_ino)

    async def do_setattr(self, message: Message, request: payloads.AttributesRequest) -> None:
        if request.path is not None:
            await self._in_thread(self._folder.set_attributes, request)
        else:
            await self._in_thread(set_attributes, self._open_here(message).handle, request)

    async def do_truncate(self, message: Message, _: None) -> None:
        await self._in_thread(os.ftruncate, self._open_here(message).handle, message.offset)

    async def do_fsync(self, message: Message, _: None) -> None:
        await self._in_thread(os.fsync, self._open_here(message).handle)

    async def do_unlink(self, _: Message, request: payloads.OnceRequest) -> None:
        await self._change_name(request, FileNotFoundError, partial(self._folder.unlink, request.path))

    async def do_rmdir(self, _: Message, request: payloads.OnceRequest) -> None:
        await self._change_name(request, FileNotFoundError, partial(self._folder.rmdir, request.path))

    async def do_rename(self, _: Message, request: payloads.RenameRequest) -> None:
        await self._change_name(request, FileNotFoundError, partial(self._folder.rename, request.path, request.to))

    async def do_mkdir(self, _: Message, request: payloads.MkdirRequest) -> None:
        await self._change_name(request, FileExistsError, partial(self._folder.make_folder, request))

    async def _change_name(self, request: payloads.OnceRequest, done: type[OSError], work: Callable[[], None]) -> None:
        """Carry out `work`; for a repeated request, the error `done` means that the first attempt succeeded."""
        with suppress(done) if request.again else nullcontext():
            await self._in_thread(work)

    async def do_readdir(self, _: Message, request: payloads.ListRequest) -> Answer:
        return Answer(pack(await self._in_thread(self._folder.list_page, request.path, request.after)))

    async def do_layout(self, _: Message, request: payloads.LayoutRequest) -> Answer:
        if request.layout is not None:
            raise OSError(errno.EOPNOTSUPP, "cannot set a layout here; use the file system's own commands")
        layout = (await self._in_thread(self._places, request.path)).layout
        return Answer(pack(payloads.LayoutAnswer(layout=layout_fields(layout))))

    async def do_statfs(self, _: Message, __: None) -> Answer:
        return Answer(pack(space_of(await self._in_thread(os.fstatvfs, self._folder.base))))


def _file_status(status: os.stat_result, layout: Layout, *, created: bool = False) -> payloads.FileStatus:
    return payloads.FileStatus(
        file=status.st_ino,
        layout_fields=layout_fields(layout),
        mode=stat.S_IMODE(status.st_mode),
        mtime=status.st_mtime_ns,
        ctime=status.st_ctime_ns,
        uid=status.st_uid,
        gid=status.st_gid,
        is_folder=stat.S_ISDIR(status.st_mode),
        created=created,
        size=status.st_size,
        allocated=status.st_blocks * 512,
    )


def _write(handle: int, places: Sequence[int], parts: Sequence[Bytes]) -> None:
    for offset, data in zip(places, parts, strict=True):
        write_at(handle, data, offset)


def _read(handle: int, places: Sequence[int], rooms: Sequence[memoryview]) -> list[int]:
    return [read_at(handle, room, offset) for offset, room in zip(places, rooms, strict=True)]
