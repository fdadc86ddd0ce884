"""The layer for asyncio programs: as forward/clients/sync.py, with many requests under way on one connection.

async with AsyncClient([parse_address("unix:/run/ion0")], key) as layer:
    async with await layer.open("/runs/a", os.O_RDWR | os.O_CREAT) as file:
        await asyncio.gather(*(file.pwrite(block, i * len(block)) for i, block in enumerate(blocks)))
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from typing import TypeVar

from forebay.act.forward.clients.operations import Asking, Entry, Handle, Lost, OpenFile, PathLike, Pause, Space, Stat, Talk
from forebay.act.forward.clients.node_channel import Bundle
from forebay.act.forward.clients.identity import Identity, identity
from forebay.act.forward.clients.sync import Buffer
from forebay.act.forward.data.names import NOBODY, Owner
from forebay.act.forward.net.address import Address
from forebay.model.layout import Layout

T = TypeVar("T")


class AsyncClient:
    """As `Client`; at most `most` requests are under way at once, the others wait. For one loop only."""

    def __init__(
        self,
        nodes: Sequence[Address],
        key: bytes,
        *,
        who: Identity | None = None,
        patience: float = 30.0,
        timeout: float = 60.0,
        most: int = 64,
        checked: bool = False,
    ) -> None:
        if not nodes:
            raise ValueError("a client needs at least one I/O node")
        self._asking = Asking(patience)
        self._bundle = Bundle(tuple(nodes), key, who or identity(), timeout=timeout, checked=checked)
        self._free = asyncio.Semaphore(most)
        self._closed = False

    async def open(
        self, path: PathLike, flags: int = 0, mode: int = 0o644, *, layout: Layout | None = None, owner: Owner = NOBODY
    ) -> AsyncFile:
        return AsyncFile(self, await self._run(self._asking.open(path, flags, mode, layout, owner)))

    async def stat(self, path: PathLike) -> Stat:
        return await self._run(self._asking.stat(path))

    async def truncate(self, path: PathLike, size: int) -> None:
        async with await self.open(path) as file:
            await file.truncate(size)

    async def unlink(self, path: PathLike) -> None:
        await self._run(self._asking.unlink(path))

    async def readdir(self, path: PathLike = "/") -> list[Entry]:
        return await self._run(self._asking.readdir(path))

    async def mkdir(
        self, path: PathLike, mode: int = 0o755, *, layout: Layout | None = None, owner: Owner = NOBODY
    ) -> None:
        await self._run(self._asking.mkdir(path, mode, layout, owner))

    async def rmdir(self, path: PathLike) -> None:
        await self._run(self._asking.rmdir(path))

    async def rename(self, path: PathLike, to: PathLike) -> None:
        await self._run(self._asking.rename(path, to))

    async def layout(self, path: PathLike) -> Layout:
        return await self._run(self._asking.layout(path))

    async def set_layout(self, path: PathLike, layout: Layout) -> None:
        await self._run(self._asking.set_layout(path, layout))

    async def chmod(self, path: PathLike, mode: int) -> None:
        await self._run(self._asking.set_attributes(path, mode=mode))

    async def chown(self, path: PathLike, uid: int | None, gid: int | None) -> None:
        await self._run(self._asking.set_attributes(path, uid=uid, gid=gid))

    async def utime(self, path: PathLike, mtime: int) -> None:
        await self._run(self._asking.set_attributes(path, mtime=mtime))

    async def statfs(self) -> Space:
        return await self._run(self._asking.statfs())

    async def close(self) -> None:
        self._closed = True
        await self._bundle.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, talk: Talk[T]) -> T:
        if self._closed:
            raise OSError(errno.EBADF, "the client is closed")
        async with self._free:
            return await self._carry_out(talk)

    async def _carry_out(self, talk: Talk[T]) -> T:
        try:
            step = next(talk)
            while True:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    step = next(talk)
                    continue
                try:
                    answer = await self._bundle.exchange(step)
                except Lost as lost:
                    if self._closed:
                        raise OSError(errno.EBADF, "the client is closed") from None
                    step = talk.throw(lost)
                else:
                    step = talk.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result


class AsyncFile(OpenFile):
    """As `File`."""

    def __init__(self, client: AsyncClient, handle: Handle) -> None:
        super().__init__(handle)
        self._client = client

    async def pread(self, size: int, offset: int) -> bytes:
        if size < 0:
            raise OSError(errno.EINVAL, "a size must not be negative")
        room = bytearray(size)
        count = await self.preadinto(room, offset)
        return bytes(memoryview(room)[:count])

    async def preadinto(self, room: Buffer, offset: int) -> int:
        return await self._run(self._asking.read(self._handle, memoryview(room).cast("B"), offset))

    async def pwrite(self, data: Buffer, offset: int) -> int:
        """Do not change `data` before this returns."""
        return await self._run(self._asking.write(self._handle, memoryview(data).cast("B"), offset))

    async def fsync(self) -> None:
        await self._run(self._asking.fsync(self._handle))

    async def truncate(self, size: int) -> None:
        await self._run(self._asking.truncate(self._handle, size))

    async def stat(self) -> Stat:
        return await self._run(self._asking.fstat(self._handle))

    async def chmod(self, mode: int) -> None:
        await self._run(self._asking.set_handle(self._handle, mode=mode))

    async def chown(self, uid: int | None, gid: int | None) -> None:
        await self._run(self._asking.set_handle(self._handle, uid=uid, gid=gid))

    async def utime(self, mtime: int) -> None:
        await self._run(self._asking.set_handle(self._handle, mtime=mtime))

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._asking.closed(self._handle) and not self._client._closed:
                await self._client._bundle.leave(self._handle.file)

    async def __aenter__(self) -> AsyncFile:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _asking(self) -> Asking:
        return self._client._asking

    async def _run(self, talk: Talk[T]) -> T:
        if self._closed:
            raise OSError(errno.EBADF, "the file is closed")
        return await self._client._run(talk)
