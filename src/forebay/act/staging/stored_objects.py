"""Objects of a shared file system's servers: on a volume of this node, or of another one."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

from forebay.act.forward.data.disk_space import check_room
from forebay.act.forward.data.objects import create_object
from forebay.act.forward.data.untrusted_tree import Tree, spread_place, write_at
from forebay.act.forward.net.payloads import ObjectSize
from forebay.act.forward.net.wire import LONGEST, Flag, Kind, Message, unpack_as
from forebay.act.forward.node.server_link import ServerLink
from forebay.act.staging.local_folders import read_bytes


class StoredObject(Protocol):
    """Threads can share it. Errors are OSErrors."""

    def read(self, size: int, offset: int) -> bytes:
        """Read bytes; fewer only at the end."""

    def write(self, data: bytes, offset: int) -> None: ...
    def truncate(self, size: int) -> None: ...
    def read_times(self) -> tuple[int, int]:
        """The times of the last change and of the last read, in nanoseconds since 1970."""

    def remove(self) -> None: ...
    def close(self) -> None: ...


class LocalObject:
    """On a volume of this node; unless it is to be made, it may not exist, and is empty then."""

    def __init__(self, tree: Tree, file: int, *, make: bool) -> None:
        self._tree, self._file, self._handle = tree, file, -1
        if make:
            self._handle = create_object(tree, file)
        else:
            with suppress(FileNotFoundError):
                self._handle = tree.open_file(spread_place(file), os.O_RDWR)

    def __del__(self) -> None:
        self.close()

    def read(self, size: int, offset: int) -> bytes:
        return b"" if self._handle < 0 else read_bytes(self._handle, size, offset)

    def write(self, data: bytes, offset: int) -> None:
        check_room(self._handle, offset, len(data))
        write_at(self._handle, data, offset)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._handle, size)

    def read_times(self) -> tuple[int, int]:
        status = os.fstat(self._handle)
        return status.st_mtime_ns, status.st_atime_ns

    def remove(self) -> None:
        self._tree.remove(spread_place(self._file))

    def close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


class RemoteObject:
    """At a server whose volume is on another node; messages carry checksums."""

    def __init__(
        self,
        wait_for: Callable[[Coroutine[Any, Any, Message]], Message],
        link: ServerLink,
        file: int,
        patience: float,
    ) -> None:
        self._wait_for, self._link, self._file, self._patience = wait_for, link, file, patience

    def read(self, size: int, offset: int) -> bytes:
        pieces = []
        while size:
            part = min(size, LONGEST)
            data = bytes(self._ask(Kind.READ, offset=offset, size=part).payload)
            pieces.append(data)
            if len(data) < part:
                break
            size, offset = size - part, offset + part
        return b"".join(pieces)

    def write(self, data: bytes, offset: int) -> None:
        for begin in range(0, len(data), LONGEST):
            self._ask(Kind.WRITE, offset=offset + begin, payload=data[begin : begin + LONGEST])

    def truncate(self, size: int) -> None:
        self._ask(Kind.TRUNCATE, offset=size)

    def read_times(self) -> tuple[int, int]:
        answer = unpack_as(ObjectSize, self._ask(Kind.SIZE).payload)
        return answer.mtime, answer.atime

    def remove(self) -> None:
        self._ask(Kind.FORGET)

    def close(self) -> None: ...

    def _ask(self, kind: Kind, *, offset: int = 0, size: int = 0, payload: bytes = b"") -> Message:
        """Ask until the server answers: a request of these kinds may be carried out twice."""
        message = Message(kind, Flag.CHECKED, file=self._file, offset=offset, size=size, payload=payload)
        return self._wait_for(self._link.ask_again(message, self._patience))
