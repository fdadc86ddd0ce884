"""The back end of data servers: files striped over them, names kept by the first."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from forebay.act.forward.net.address import Address
from forebay.act.forward.net.auth import Peer
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.wire import BadMessage, Kind, Message, packed, unpacked
from forebay.act.forward.node.backend import Answer, Asked, Backend
from forebay.act.forward.node.dispatch import Batch, Opened
from forebay.act.forward.node.server_link import Failed, Link
from forebay.act.forward.striping import Piece, file_size, pieces, servers_of, shares
from forebay.model.layout import Layout

_KEPT_BUFFERS = 128 << 20


class Striped:
    """An open file; `pieces` is asked for every request."""

    __slots__ = ("_count", "_servers", "_size", "file", "layout", "number")

    def __init__(self, file: int, number: int, layout: Layout, servers: int) -> None:
        self.file, self.number, self.layout = file, number, layout
        self._size, self._count, self._servers = layout.size, layout.count, servers

    def pieces(self, offset: int, length: int) -> Sequence[Piece]:
        """As `striping.pieces`, which most requests that fit into one stripe need not go through."""
        stripe, within = divmod(offset, self._size)
        if not 0 < length <= self._size - within:
            return pieces(self.layout, self._servers, offset, length)
        row, place = divmod(stripe, self._count)
        return (Piece((self.layout.start + place) % self._servers, row * self._size + within, length, 0),)


class DataServers(Backend):
    """`addresses` are those of the servers in their order; `patience` is how many seconds one may be away."""

    def __init__(
        self, addresses: Sequence[Address], key: bytes, me: Peer, *, patience: float, buffers: Buffers | None = None
    ) -> None:
        self.count = len(addresses)
        self.up = [False] * self.count
        self._patience = patience
        # Answers are bounded by the requests that are let in, and must never wait for memory.
        buffers = buffers or Buffers(1 << 62, kept=_KEPT_BUFFERS)
        self.links = [
            Link(number, address, key, me, buffers, of=self.count, changed=self._changed)
            for number, address in enumerate(addresses)
        ]
        self._tell: Callable[[int, bool], None] = _nobody
        self._layouts: dict[int, Layout] = {}  # of files that are open here
        self._dirty: list[Link] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(
        self,
        answered: Callable[[int, Batch], None],
        refused: Callable[[int, Batch, int, str], None],
        changed: Callable[[int, bool], None],
    ) -> None:
        self._tell = changed
        for link in self.links:
            link.tell(answered, refused)

    async def start(self) -> None:
        for link in self.links:
            self._begin(link.keep())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def away(self, server: int) -> str:
        link = self.links[server]
        return f"{link.name} is away for more than {self._patience:g} s: {link.why}"

    def send(self, slot: int, server: int, batch: Batch) -> None:
        link = self.links[server]
        if not link.pending:
            self._dirty.append(link)
        link.put(slot, batch)

    def flush(self) -> None:
        for link in self._dirty:
            link.flush()
        self._dirty.clear()

    def check(self, timeout: float) -> None:
        for link in self.links:
            link.check(timeout)

    def opened(self, file: int, number: int, layout: Layout) -> Opened:
        if layout.start < 0 or layout.count > self.count:
            raise OSError(errno.EINVAL, f"a layout of {layout.count} servers from {layout.start} on")
        self._layouts[file] = layout
        return Striped(file, number, layout, self.count)

    def closed(self, file: Opened) -> None:
        assert isinstance(file, Striped)
        self._layouts.pop(file.file, None)

    async def file_size(self, file: Opened, session: int) -> int:
        assert isinstance(file, Striped)
        return (await self._measured(file.file, file.layout, session))[0]

    async def fence(self, session: int) -> None:
        await self._all(link.ask(Kind.FENCE, file=session, within=self._patience) for link in self.links)

    async def ask(self, asked: Asked) -> Answer:
        do = _WAYS.get(asked.kind)
        if do is None:
            return Answer(payload=bytes((await self._name(asked)).payload))
        return await do(self, asked)

    # What clients ask

    async def _open(self, asked: Asked) -> Answer:
        found = await self._name(asked)
        record = unpacked(found.payload)
        return Answer(
            payload=bytes(found.payload),
            file=found.file,
            opened=_layout(record["layout"]),
            name=asked.words.get("path", b""),
        )

    async def _stat(self, asked: Asked) -> Answer:
        record = unpacked((await self._name(asked)).payload)
        if not record.get("folder"):
            size, latest, allocated = await self._measured(record["id"], _layout(record["layout"]), asked.session)
            record |= {"size": size, "mtime": latest if latest > record["stamp"] else record["mtime"]}
            record |= {"ctime": max(record.get("ctime", 0), latest), "allocated": allocated}
        return Answer(payload=packed(record), file=record.get("id") or 0)

    async def _set(self, asked: Asked) -> Answer:
        words = dict(asked.words)
        if words.get("mtime") is not None:
            question = Asked(kind=Kind.STAT, session=asked.session, file=asked.file, words=_only_path(words))
            record = unpacked((await self._name(question)).payload)
            if not record.get("folder"):
                words["stamp"] = (await self._measured(record["id"], _layout(record["layout"]), asked.session))[1]
        await self._name(Asked(kind=asked.kind, session=asked.session, file=asked.file, payload=packed(words)))
        return Answer()

    async def _truncate(self, asked: Asked) -> Answer:
        layout = await self._layout_of(asked)
        await self._all(
            self._ask(server, Kind.TRUNCATE, asked, offset=share)
            for server, share in zip(servers_of(layout, self.count), shares(layout, asked.offset), strict=True)
        )
        return Answer()

    async def _fsync(self, asked: Asked) -> Answer:
        servers = {0, *servers_of(await self._layout_of(asked), self.count)}  # the first has the file's name
        await self._all(self._ask(server, Kind.FSYNC, asked) for server in sorted(servers))
        return Answer()

    async def _unlink(self, asked: Asked) -> Answer:
        words = unpacked((await self._name(asked)).payload)
        for file, layout in words["forget"]:
            self._begin(self._forget(file, _layout(layout)))
        return Answer()

    async def _statfs(self, asked: Asked) -> Answer:
        found = await self._all(self._ask(server, Kind.STATFS, asked) for server in range(self.count))
        each = [unpacked(answer.payload) for answer in found]
        return Answer(payload=packed({name: sum(words[name] for words in each) for name in each[0]}))

    # Steps of the above

    async def _layout_of(self, asked: Asked) -> Layout:
        known = self._layouts.get(asked.file)
        if known is not None:
            return known
        found = await self._name(Asked(kind=Kind.ATTACH, session=asked.session, file=asked.file))
        return _layout(unpacked(found.payload)["layout"])

    async def _name(self, asked: Asked) -> Message:
        payload = asked.payload or (packed(asked.words) if asked.words else b"")
        return await self.links[0].ask(
            Kind(asked.kind),
            file=asked.file,
            offset=asked.offset,
            session=asked.session,
            payload=payload,
            within=self._patience,
        )

    def _ask(self, server: int, kind: Kind, asked: Asked, offset: int = 0) -> Coroutine[Any, Any, Message]:
        return self.links[server].ask(
            kind, file=asked.file, offset=offset, session=asked.session, within=self._patience
        )

    async def _measured(self, file: int, layout: Layout, session: int) -> tuple[int, int, int]:
        """How long the file is, the latest time of its objects, and the bytes of disk that they take."""
        servers = servers_of(layout, self.count)
        answers = await self._all(
            self.links[server].ask(Kind.SIZE, file=file, session=session, within=self._patience) for server in servers
        )
        found = [unpacked(answer.payload) for answer in answers]
        size, latest = file_size(layout, [words["size"] for words in found]), max(words["mtime"] for words in found)
        return size, latest, sum(words.get("allocated", words["size"]) for words in found)

    async def _all(self, asks: Any) -> list[Message]:
        """All answers; where one is an error, that error once all are there."""
        found: list[Message] = []
        for answer in await asyncio.gather(*asks, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer
            found.append(answer)
        return found

    async def _forget(self, file: int, layout: Layout) -> None:
        """Remove the objects of a file without a name; what is not done now is done when the server is back."""
        try:
            servers = servers_of(layout, self.count)
            await self._all(self.links[s].ask(Kind.FORGET, file=file, within=self._patience) for s in servers)
            await self.links[0].ask(Kind.FORGOTTEN, file=file, within=self._patience)
        except (OSError, BadMessage):
            pass  # it stays in the list of those to be forgotten

    async def _forget_pending(self) -> None:
        try:
            words = unpacked((await self.links[0].ask(Kind.PENDING, within=self._patience)).payload)
        except (OSError, BadMessage):
            return
        for file, layout in words["forget"]:
            await self._forget(file, _layout(layout))

    def _changed(self, server: int, up: bool) -> None:
        self.up[server] = up
        self._tell(server, up)
        if up and all(link.up for link in self.links):
            self._begin(self._forget_pending())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


_WAYS: dict[int, Callable[[DataServers, Asked], Coroutine[Any, Any, Answer]]] = {
    Kind.OPEN: DataServers._open,
    Kind.ATTACH: DataServers._open,
    Kind.STAT: DataServers._stat,
    Kind.SETATTR: DataServers._set,
    Kind.TRUNCATE: DataServers._truncate,
    Kind.FSYNC: DataServers._fsync,
    Kind.UNLINK: DataServers._unlink,
    Kind.RENAME: DataServers._unlink,
    Kind.STATFS: DataServers._statfs,
}


def _only_path(words: dict[str, Any]) -> dict[str, Any]:
    return {"path": words["path"]} if "path" in words else {}


def _layout(words: Any) -> Layout:
    try:
        count, size, start = words
        return Layout(count=count, size=size, start=start)
    except (TypeError, ValueError):
        raise Failed(errno.EIO, f"a layout that is none: {words!r}") from None


def _nobody(*_: Any) -> None:
    pass
