"""The back end of a mounted file system: an I/O node in front of Lustre, CephFS, or any folder.

Names and bytes go through the mount; the layout only tells which server a piece will reach, so that pieces can be
ordered by server. Everything that can wait for a disk is done by threads.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from forebay.act.forward.data.names import Owner
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.wire import Bytes, Kind, Message, packed
from forebay.act.forward.node.backend import Answer, Asked, Backend
from forebay.act.forward.node.dispatch import Batch, Opened
from forebay.act.forward.node.folder import Folder, set_attributes
from forebay.act.forward.node.file_places import Places
from forebay.act.forward.striping import Piece
from forebay.model.errors import UserError
from forebay.model.layout import Layout

THREADS = 16
Where = Callable[[Any], Places]


class Mounted:
    """An open file; its descriptor is closed when nobody has it open and nothing of it is under way."""

    __slots__ = ("handle", "is_open", "number", "places", "under_way")

    def __init__(self, handle: int, places: Places) -> None:
        self.handle, self.places = handle, places
        self.number = -1
        self.under_way, self.is_open = 0, False

    def pieces(self, offset: int, length: int) -> Sequence[Piece]:
        return self.places.pieces(offset, length)

    def settle(self) -> None:
        if not self.is_open and not self.under_way and self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


class MountedFolder(Backend):
    """`where(path)` tells the places of a file's bytes; `count` is how many servers these are on."""

    def __init__(self, folder: Folder, where: Where, servers: int, *, threads: int = THREADS) -> None:
        self.count = servers
        self.up = [True] * servers
        self._folder, self._where = folder, where
        self._threads = ThreadPoolExecutor(threads, "posix")
        self._buffers = Buffers(1 << 62, kept=64 << 20)
        self._loop = asyncio.get_running_loop()
        self._files: dict[int, Mounted] = {}
        self._answered: Callable[[int, Batch], None] = _nobody
        self._refused: Callable[[int, Batch, int, str], None] = _nobody
        self._sessions: dict[int, int] = {}  # requests under way
        self._idle: dict[int, list[asyncio.Future[None]]] = {}

    def tell(
        self,
        answered: Callable[[int, Batch], None],
        refused: Callable[[int, Batch, int, str], None],
        changed: Callable[[int, bool], None],  # noqa: ARG002
    ) -> None:
        self._answered, self._refused = answered, refused

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        await self._loop.run_in_executor(None, self._threads.shutdown)
        for file in self._files.values():
            file.is_open = False
            file.settle()
        self._folder.close()

    def away(self, server: int) -> str:
        return f"server {server} is away"

    def flush(self) -> None:
        pass

    def check(self, timeout: float) -> None:
        pass  # a thread inside of the kernel can't be called back

    # Reads and writes

    def send(self, slot: int, server: int, batch: Batch) -> None:  # noqa: ARG002
        request = batch[0][0]
        file = request.file
        assert isinstance(file, Mounted)
        file.under_way += 1
        for each, _, _ in batch:
            session = each.message.session
            self._sessions[session] = self._sessions.get(session, 0) + 1
        if request.write:
            parts = [
                (r.message.offset + r.pieces[i].at, r.message.payload[r.pieces[i].at :][: r.pieces[i].length])
                for r, i, _ in batch
            ]
            work = self._loop.run_in_executor(self._threads, _write, file.handle, parts)
            work.add_done_callback(lambda work: self._written(slot, batch, file, work))
        else:
            rooms = self._rooms(batch)
            places = [r.message.offset + r.pieces[i].at for r, i, _ in batch]
            views = [room[: r.pieces[i].length] for room, (r, i, _) in zip(rooms, batch, strict=True)]
            reading = self._loop.run_in_executor(self._threads, _read, file.handle, places, views)
            reading.add_done_callback(lambda work: self._read(slot, batch, file, rooms, work))

    def _rooms(self, batch: Batch) -> list[memoryview]:
        return [self._buffers.take(request.pieces[i].length) for request, i, _ in batch]

    def _written(self, slot: int, batch: Batch, file: Mounted, work: asyncio.Future[None]) -> None:
        self._landed(batch, file)
        self._end(slot, batch, work.exception())

    def _read(
        self, slot: int, batch: Batch, file: Mounted, rooms: list[memoryview], work: asyncio.Future[list[int]]
    ) -> None:
        self._landed(batch, file)
        error = work.exception()
        lengths = [0] * len(batch) if error else work.result()
        for (request, i, _), room, length in zip(batch, rooms, lengths, strict=True):
            given = Message(Kind.READ, payload=room[:length], buffer=room, buffers=self._buffers)
            request.parts[i] = given.payload
            request.given.append(given)
        self._end(slot, batch, error)

    def _end(self, slot: int, batch: Batch, error: BaseException | None) -> None:
        if error is None:
            self._answered(slot, batch)
        else:
            number = error.errno if isinstance(error, OSError) and error.errno else errno.EIO
            self._refused(slot, batch, number, str(error))

    def _landed(self, batch: Batch, file: Mounted) -> None:
        file.under_way -= 1
        file.settle()
        for request, _, _ in batch:
            session = request.message.session
            self._sessions[session] -= 1
            if not self._sessions[session]:
                del self._sessions[session]
                for waiting in self._idle.pop(session, ()):
                    waiting.set_result(None)

    # All else

    def opened(self, file: int, number: int, layout: Layout) -> Opened:  # noqa: ARG002
        found = self._files[file]
        found.number, found.is_open = number, True
        return found

    def closed(self, file: Opened) -> None:
        assert isinstance(file, Mounted)
        file.is_open = False
        for number in [number for number, known in self._files.items() if known is file]:
            del self._files[number]
        file.settle()

    async def file_size(self, file: Opened, session: int) -> int:  # noqa: ARG002
        assert isinstance(file, Mounted)
        size: int = (await self._in_thread(os.fstat, file.handle)).st_size
        return size

    async def fence(self, session: int) -> None:
        """What this node has under way of it is waited for; others' can't be stopped on a mounted file system."""
        if session in self._sessions:
            waiting = self._loop.create_future()
            self._idle.setdefault(session, []).append(waiting)
            await waiting

    async def ask(self, asked: Asked) -> Answer:
        do = _WAYS.get(asked.kind)
        if do is None:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        answer: Answer = await do(self, asked)
        return answer

    def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        return self._loop.run_in_executor(self._threads, work, *arguments)

    async def _open(self, asked: Asked) -> Answer:
        words = asked.words
        path = words["path"]
        handle, made, status = await self._in_thread(self._opened, path, words)
        known = self._files.get(status.st_ino)
        if known is not None:
            os.close(handle)
        else:
            places = await self._in_thread(self._places, path)
            known = self._files.setdefault(status.st_ino, Mounted(handle, places))
            if known.handle != handle:  # somebody else opened it meanwhile
                os.close(handle)
        record = _record(status, known.places.layout) | {"created": made}
        return Answer(payload=packed(record), file=status.st_ino, opened=known.places.layout, name=path)

    def _opened(self, path: bytes, words: dict[str, Any]) -> tuple[int, bool, os.stat_result]:
        while True:
            try:
                handle = self._writable(path)
                status = os.fstat(handle)
                # A request that is made again may have made the file itself before its answer was lost.
                if words.get("create") and words.get("exclusive") and not (words.get("again") and not status.st_size):
                    os.close(handle)
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
                return handle, False, status
            except FileNotFoundError:
                if not words.get("create"):
                    raise
            try:
                handle = self._folder.create(path, _mode(words, 0o644), _owner(words))
                return handle, True, os.fstat(handle)
            except FileExistsError:  # somebody else has made it meanwhile
                if words.get("exclusive"):
                    raise

    def _writable(self, path: bytes) -> int:
        try:
            return self._folder.open(path, os.O_RDWR)
        except PermissionError:
            return self._folder.open(path, os.O_RDONLY)

    def _places(self, path: bytes) -> Places:
        try:
            return self._where(self._folder.full(path))
        except UserError as error:
            raise OSError(errno.EIO, str(error)) from None

    async def _attach(self, asked: Asked) -> Answer:
        known = self._files.get(asked.file)
        if known is None:
            raise OSError(errno.ESTALE, "this I/O node does not have the file open")
        status = await self._in_thread(os.fstat, known.handle)
        layout = known.places.layout
        return Answer(payload=packed(_record(status, layout)), file=asked.file, opened=layout)

    async def _stat(self, asked: Asked) -> Answer:
        status = await self._status(asked)
        known = self._files.get(status.st_ino)
        layout = known.places.layout if known is not None else Layout(count=1)
        return Answer(payload=packed(_record(status, layout)), file=status.st_ino)

    def _status(self, asked: Asked) -> asyncio.Future[Any]:
        if "path" in asked.words:
            return self._in_thread(self._folder.stat, asked.words["path"])
        return self._in_thread(os.fstat, self._handle(asked))

    def _handle(self, asked: Asked) -> int:
        known = self._files.get(asked.file)
        if known is None:
            raise OSError(errno.ESTALE, "this I/O node does not have the file open")
        return known.handle

    async def _set(self, asked: Asked) -> Answer:
        await self._in_thread(self._set_attributes, asked, None if "path" in asked.words else self._handle(asked))
        return Answer()

    def _set_attributes(self, asked: Asked, handle: int | None) -> None:
        words = asked.words
        values = words.get("mode"), words.get("mtime"), _owner(words)
        if handle is None:
            self._folder.set_attributes(words["path"], *values)
        else:
            set_attributes(handle, *values)

    async def _truncate(self, asked: Asked) -> Answer:
        await self._in_thread(os.ftruncate, self._handle(asked), asked.offset)
        return Answer()

    async def _fsync(self, asked: Asked) -> Answer:
        await self._in_thread(os.fsync, self._handle(asked))
        return Answer()

    async def _unlink(self, asked: Asked) -> Answer:
        return await self._gone(asked, self._folder.unlink, asked.words["path"])

    async def _rmdir(self, asked: Asked) -> Answer:
        return await self._gone(asked, self._folder.rmdir, asked.words["path"])

    async def _rename(self, asked: Asked) -> Answer:
        return await self._gone(asked, self._folder.rename, asked.words["path"], asked.words["to"])

    async def _gone(self, asked: Asked, work: Callable[..., None], *paths: bytes) -> Answer:
        try:
            await self._in_thread(work, *paths)
        except FileNotFoundError:
            if not asked.words.get("again"):
                raise
        return Answer()

    async def _mkdir(self, asked: Asked) -> Answer:
        try:
            words = asked.words
            await self._in_thread(self._folder.mkdir, words["path"], _mode(words, 0o755), _owner(words))
        except FileExistsError:
            if not asked.words.get("again"):
                raise
        return Answer()

    async def _readdir(self, asked: Asked) -> Answer:
        found, more = await self._in_thread(self._folder.list, asked.words["path"], asked.words.get("after") or b"")
        return Answer(payload=packed({"entries": found, "more": more}))

    async def _layout(self, asked: Asked) -> Answer:
        if asked.words.get("layout") is not None:
            raise OSError(errno.EOPNOTSUPP, "the layout of a mounted file system is set by its own commands")
        layout = (await self._in_thread(self._places, asked.words["path"])).layout
        return Answer(payload=packed({"layout": [layout.count, layout.size, layout.start]}))

    async def _statfs(self, _asked: Asked) -> Answer:
        found = await self._in_thread(os.fstatvfs, self._folder.root)
        unit = found.f_frsize
        sizes = {"total": found.f_blocks * unit, "free": found.f_bfree * unit, "available": found.f_bavail * unit}
        return Answer(payload=packed(sizes | {"files": found.f_files, "free_files": found.f_ffree}))


_WAYS: dict[int, Callable[[MountedFolder, Asked], Any]] = {
    Kind.OPEN: MountedFolder._open,
    Kind.ATTACH: MountedFolder._attach,
    Kind.STAT: MountedFolder._stat,
    Kind.SETATTR: MountedFolder._set,
    Kind.TRUNCATE: MountedFolder._truncate,
    Kind.FSYNC: MountedFolder._fsync,
    Kind.UNLINK: MountedFolder._unlink,
    Kind.RMDIR: MountedFolder._rmdir,
    Kind.RENAME: MountedFolder._rename,
    Kind.MKDIR: MountedFolder._mkdir,
    Kind.READDIR: MountedFolder._readdir,
    Kind.LAYOUT: MountedFolder._layout,
    Kind.STATFS: MountedFolder._statfs,
}


def _mode(words: dict[str, Any], usual: int) -> int:
    mode = words.get("mode")
    return usual if mode is None else int(mode)


def _owner(words: dict[str, Any]) -> Owner:
    uid, gid = words.get("uid"), words.get("gid")
    if not all(number is None or (type(number) is int and 0 <= number < 2**32 - 1) for number in (uid, gid)):
        raise OSError(errno.EINVAL, "no such user or group")
    return uid, gid


def _record(status: os.stat_result, layout: Layout) -> dict[str, Any]:
    return {
        "id": status.st_ino,
        "layout": [layout.count, layout.size, layout.start],
        "mode": stat.S_IMODE(status.st_mode),
        "mtime": status.st_mtime_ns,
        "ctime": status.st_ctime_ns,
        "uid": status.st_uid,
        "gid": status.st_gid,
        "stamp": 0,
        "folder": stat.S_ISDIR(status.st_mode),
        "size": status.st_size,
        "allocated": status.st_blocks * 512,
    }


def _write(handle: int, parts: Sequence[tuple[int, Bytes]]) -> None:
    for offset, data in parts:
        done = 0
        while done < len(data):
            done += os.pwrite(handle, memoryview(data)[done:], offset + done)


def _read(handle: int, places: Sequence[int], rooms: Sequence[memoryview]) -> list[int]:
    lengths = []
    for offset, room in zip(places, rooms, strict=True):
        done = 0
        while done < len(room):
            more = os.preadv(handle, [room[done:]], offset + done)
            if not more:
                break
            done += more
        lengths.append(done)
    return lengths


def _nobody(*_: Any) -> None:
    pass
