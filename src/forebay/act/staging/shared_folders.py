"""Folders and files of a shared file system, of which this node has some servers' volumes.

The server of the names keeps the names, and checks the user's rights. The bytes of a file are in objects: those on
volumes of this node are read and written here, by the same user as the data servers; those on others by messages.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401  (asyncio imports this and the next one only when it connects)
import encodings.idna  # noqa: F401
import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Concatenate

from forebay.act.forward.clients.operations import Async, Operations, P, T
from forebay.act.forward.clients.requests import Handle, Place, Request
from forebay.act.forward.data.objects import FOLDER
from forebay.act.forward.data.untrusted_tree import Tree
from forebay.act.forward.net.address import parse_address
from forebay.act.forward.net.auth import Peer
from forebay.act.forward.net.payloads import ROOT, AttributesRequest, Caller, FileStatus, PathRequest, PlacedFile, Space
from forebay.act.forward.net.wire import BadMessage, Kind, Message, pack, unpack_as
from forebay.act.forward.node.data_servers import DataServers
from forebay.act.forward.node.striped_file import StripedFile
from forebay.act.forward.striping import Piece, servers_of, shares
from forebay.act.staging.folders import Differs, NewFile, Status
from forebay.act.staging.journal import Journal
from forebay.act.staging.links import refuse_link
from forebay.act.staging.local_folders import LocalFolder
from forebay.act.staging.stored_objects import LocalObject, RemoteObject, StoredObject
from forebay.model.errors import name_errors
from forebay.model.file_times import clamp_time
from forebay.model.layout import ANY, Layout

_SPARE = 2 << 20  # bytes that a server should have left after a new file
_SMALL = 1 << 20
_END = 2.0  # seconds to remove the objects of files that were replaced or removed


class Layer:
    """The servers of a shared file system; `volumes` are the data folders of those on this node, by their numbers.

    A loop in a thread has the connections; other threads call `run`. A process that connects with the same name as an
    earlier one ends that one's connections, so that nothing which the earlier one has sent can still take effect.
    """

    def __init__(
        self, servers: Sequence[str], secret: str, name: str, caller: Caller, volumes: Mapping[int, Path],
        journal: Journal, *, patience: float,
    ) -> None:  # fmt: skip
        self._caller, self._patience, self.journal = caller, patience, journal
        self.trees = {number: Tree(folder / FOLDER, may_be_link=False) for number, folder in volumes.items()}
        self._volumes = [LocalFolder.open_path(str(folder), is_link_allowed=False) for folder in volumes.values()]
        self._remote: set[tuple[int, int]] = set()  # what was written to other servers and must be synced
        self._turn = count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="servers", daemon=True)
        self._thread.start()
        me = Peer(role="node", name=name, facts={"index": 0})
        addresses = [parse_address(server) for server in servers]

        async def start() -> DataServers:
            backend = DataServers(addresses, secret.encode(), me, patience=patience)
            await backend.start(None)
            return backend

        self.backend = self.wait_for(start())

    def close(self) -> None:
        async def end() -> None:
            with suppress(TimeoutError):  # else the next I/O node does it
                async with asyncio.timeout(_END):
                    await self.backend.finish_removals()
            await self.backend.close()

        self.wait_for(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for tree in self.trees.values():
            tree.close()

    def wait_for(self, work: Async[T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def run(self, operation: Callable[Concatenate[Operations, P], Async[T]], *args: P.args, **options: P.kwargs) -> T:
        return self.wait_for(operation(Operations(self, self._patience), *args, **options))

    async def exchange(self, request: Request) -> Message:
        """Carry out a request that is neither a read nor a write, as an I/O node does for a client."""
        content = request.content
        message = Message(request.kind, file=request.file, offset=request.offset, payload=request.payload)
        if isinstance(content, PathRequest):
            content.caller = self._caller
            message.payload = pack(content)
        try:
            answer = await self.backend.answer(message, content)
        except (OSError, BadMessage) as error:
            reason = getattr(error, "strerror", None) or str(error)
            return Message(request.kind, status=getattr(error, "errno", None) or errno.EIO, payload=reason.encode())
        return Message(request.kind, file=answer.file, payload=answer.payload)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # Objects

    def open_object(self, server: int, file: int, *, make: bool = False) -> StoredObject:
        tree = self.trees.get(server)
        if tree is not None:
            return LocalObject(tree, file, make=make)
        if make:
            self._remote.add((server, file))
        return RemoteObject(self.wait_for, self.backend.links[server], file, self._patience)

    def choose_server(self, layout: Layout, size: int) -> int:
        """A server for a new file in one object: if the layout allows it, one of this node, with space."""
        if layout.start != ANY:
            return layout.start % self.backend.count
        turn = next(self._turn)
        for servers in (sorted(self.trees), range(self.backend.count)):
            for i in range(len(servers)):
                server = servers[(turn + i) % len(servers)]
                if self._measure_space(server) > size + _SPARE:
                    return server
        return turn % self.backend.count  # its error says what is wrong

    def _measure_space(self, server: int) -> int:
        tree = self.trees.get(server)
        if tree is not None:
            status = os.fstatvfs(tree.base)
            return status.f_bavail * status.f_frsize
        ask = self.backend.links[server].ask(Message(Kind.STATFS), self._patience)
        return unpack_as(Space, self.wait_for(ask).payload).available

    def open_striped(self, file: int, status: FileStatus) -> StripedFile:
        return StripedFile(file, -1, status.layout, self.backend.count, spread=status.spread)

    def close_file(self, file: StripedFile) -> None:
        self._loop.call_soon_threadsafe(self.backend.close_file, file)

    def remove_objects(self, objects: Sequence[tuple[int, int]]) -> None:
        """Remove objects of files that never got a name."""
        for server, file in objects:
            with suppress(OSError, BadMessage):
                self.open_object(server, file).remove()

    def remove_orphans(self) -> None:
        """Remove the objects that an earlier process has written for files that did not get their names."""
        placed = set(self.journal.done.values())
        for server, file in self.journal.objects:
            if file not in placed:
                try:
                    self.run(Operations.stat, Place(file))
                except OSError as error:
                    if error.errno == errno.ESTALE:
                        self.remove_objects([(server, file)])

    def sync(self) -> None:
        """Put all that was written here, and all names, onto the disks."""
        for volume in self._volumes:
            volume.sync()
        written, self._remote = self._remote, set()
        for server, file in written:
            self.wait_for(self.backend.links[server].ask(Message(Kind.FSYNC, file=file), self._patience))
        self.run(Operations.sync_names)


class SharedFile:
    """A file; with `own_parts`, only the parts of it on servers of this node are written.

    If the server of the names knows that it `is_open`, it learns also when it is closed.
    """

    def __init__(
        self, layer: Layer, striped: StripedFile, status: FileStatus, *, own_parts: bool = False, is_open: bool = False
    ) -> None:
        self._layer, self._striped, self._size, self._is_open = layer, striped, status.size, is_open
        layout, count = striped.layout, layer.backend.count
        self._servers = [server for server in servers_of(layout, count) if not own_parts or server in layer.trees]
        self._own_parts = own_parts
        self._objects: dict[int, StoredObject] = {}
        self._lock = threading.Lock()

    @property
    def number(self) -> int:
        return self._striped.file

    def status(self) -> Status:
        status = _status_of(self._layer.run(Operations.stat, Place(self.number)))
        self._size = status.size
        return status

    def ranges(self, size: int, offset: int) -> Iterator[tuple[int, int]]:
        end = offset + size
        if not self._own_parts:
            yield size, offset
            return
        unit = self._striped.layout.size
        while offset < end:
            part = min(unit - offset % unit, end - offset)
            if self._striped.pieces(offset, part)[0].server in self._servers:
                yield part, offset
            offset += part

    def read(self, size: int, offset: int) -> bytes:
        """Read bytes; what no object has is a hole."""
        size = max(0, min(size, self._size - offset))
        pieces = self._striped.pieces(offset, size)
        if len(pieces) == 1:
            return self._read_piece(pieces[0])
        room = bytearray(size)
        for piece in pieces:
            data, begin = self._read_piece(piece), 0
            for at, length in piece.cuts or ((piece.at, piece.length),):
                room[at : at + length] = data[begin : begin + length]
                begin += length
        return bytes(room)

    def write(self, data: bytes, offset: int) -> None:
        for piece in self._striped.pieces(offset, len(data)):
            parts = [data[at : at + length] for at, length in piece.cuts or ((piece.at, piece.length),)]
            self._object(piece.server, make=True).write(parts[0] if len(parts) == 1 else b"".join(parts), piece.offset)

    def truncate(self, size: int) -> None:
        self._size = size
        layout = self._striped.layout
        for server, share in zip(servers_of(layout, self._layer.backend.count), shares(layout, size), strict=True):
            if server in self._servers and share:
                self._object(server, make=True).truncate(share)

    def close(self) -> None:
        with self._lock:
            objects, self._objects = self._objects, {}
        for each in objects.values():
            each.close()
        if self._is_open:
            self._layer.close_file(self._striped)

    def _read_piece(self, piece: Piece) -> bytes:
        data = self._object(piece.server).read(piece.length, piece.offset)
        return data + bytes(piece.length - len(data))

    def _object(self, server: int, *, make: bool = False) -> StoredObject:
        with self._lock:
            if server not in self._objects:
                self._objects[server] = self._layer.open_object(server, self.number, make=make)
            return self._objects[server]


class SharedFolder:
    """A folder by its id: nobody can lead its names elsewhere."""

    def __init__(self, layer: Layer, number: int, layout: Layout, path: str) -> None:
        self._layer, self._number, self._layout, self.path = layer, number, layout, path
        self.small = min(_SMALL, layout.size)
        self.is_striped = min(layout.count, layer.backend.count) > 1

    def list_names(self) -> list[tuple[str, int]]:
        entries = self._layer.run(Operations.readdir, Place(self._number))
        return [(entry.name, stat.S_IFMT(entry.mode)) for entry in entries]

    def status(self, name: str) -> Status:
        return _status_of(self._layer.run(Operations.stat, self._place(name)))

    def enter(self, name: str, *, make: bool = False) -> SharedFolder:
        path = f"{self.path.rstrip('/')}/{name}"
        if make:
            with suppress(FileExistsError):
                self._layer.run(Operations.mkdir, self._place(name), 0o700)
        status = self._layer.run(Operations.stat, self._place(name))
        if stat.S_ISLNK(status.mode):
            raise refuse_link(path)
        if not status.is_folder:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return SharedFolder(self._layer, status.file or 0, status.layout, path)

    def open(self, name: str) -> SharedFile:
        handle, status = self._layer.run(Operations.open_status, self._place(name), os.O_RDONLY)
        return SharedFile(self._layer, self._layer.open_striped(handle.file, status), status, is_open=True)

    def create(self, name: str, size: int, *, afresh: bool, own_parts: bool = False) -> SharedFile:
        """The file does not count as open: if it is removed, its objects go at once."""
        layer, is_new = self._layer, True
        try:
            status = layer.run(Operations.mknod, self._place(name), stat.S_IFREG | 0o600)
        except FileExistsError:
            status, is_new = layer.run(Operations.stat, self._place(name)), False
            if not status.has_bytes or status.uid != os.getuid():
                raise
        striped = layer.open_striped(status.file or 0, status)
        if afresh and not is_new and not own_parts:
            layer.run(Operations.truncate, Handle(file=striped.file, layout=striped.layout), 0)
        if size > striped.reach:
            layer.wait_for(layer.backend.extend_reach(striped))
        file = SharedFile(layer, striped, status, own_parts=own_parts)
        file.truncate(size)
        return file

    def put_files(self, files: Sequence[NewFile], tag: str) -> list[int]:  # noqa: ARG002
        """Write the bytes of new files, and then give all of them their names with one message."""
        layer = self._layer
        numbers = layer.run(Operations.reserve, self._number, len(files))
        servers = [layer.choose_server(self._layout, len(file.data)) for file in files]
        objects = [each for each, file in zip(zip(servers, numbers, strict=True), files, strict=True) if file.data]
        layer.journal.note_objects(objects)
        try:
            placed = []
            for file, number, server in zip(files, numbers, servers, strict=True):
                with name_errors(f"{self.path}/{file.name}"):
                    placed.append(self._write_file(file, number, server))
            with name_errors(self.path or "/"):
                layer.run(Operations.place, self._number, placed)
        except BaseException:
            layer.remove_objects(objects)
            raise
        return numbers

    def _write_file(self, file: NewFile, number: int, server: int) -> PlacedFile:
        stamp = read_stamp = 0
        if file.data:
            stored = self._layer.open_object(server, number, make=True)
            try:
                stored.write(file.data, 0)
                if stored.read(len(file.data), 0) != file.data:
                    raise Differs(file.name)
                stamp, read_stamp = stored.read_times()
            finally:
                stored.close()
        layout = min(self._layout.count, self._layer.backend.count), self._layout.size, server
        return PlacedFile(
            os.fsencode(file.name), number, layout, file.mode, clamp_time(file.mtime), clamp_time(file.atime),
            stamp, read_stamp,
        )  # fmt: skip

    def read_link(self, name: str) -> str:
        return os.fsdecode(self._layer.run(Operations.readlink, self._place(name)))

    def make_link(self, name: str, destination: str) -> None:
        self._layer.run(Operations.symlink, destination, self._place(name))

    def rename(self, name: str, new: str) -> None:
        self._layer.run(Operations.rename, self._place(name), self._place(new))

    def remove(self, name: str) -> None:
        self._layer.run(Operations.unlink, self._place(name))

    def set_status(self, mode: int, mtime: int, atime: int, name: str = "") -> None:
        request = AttributesRequest(mode=mode, mtime=mtime, atime=atime)
        self._layer.run(Operations.set_attributes, self._place(name), request)

    def sync(self) -> None:
        self._layer.sync()

    def _place(self, name: str) -> Place:
        return Place(self._number, os.fsencode(name))


def _status_of(status: FileStatus) -> Status:
    return Status(status.mode, status.size, status.mtime, status.atime, status.file or 0)


@contextmanager
def open_shared(
    servers: Sequence[str], secret: str, name: str, volumes: Mapping[int, Path], journal: Journal, patience: float
) -> Iterator[SharedFolder]:
    """Connect to the data servers with the rights of this process's user, and give the root folder."""
    uid, groups = os.getuid(), tuple(os.getgroups())
    caller = Caller(uid=uid, gid=os.getgid(), groups=groups, mounter=uid)
    layer = Layer(servers, secret, name, caller, volumes, journal, patience=patience)
    try:
        layer.remove_orphans()
        status = layer.run(Operations.stat, Place(ROOT))
        yield SharedFolder(layer, ROOT, status.layout, "")
    finally:
        layer.close()
