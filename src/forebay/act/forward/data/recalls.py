"""Requests that wait for the end of leases, and the recalls for which they wait."""

from array import array
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import chain
from time import monotonic

from forebay.act.forward.data.disk_space import DiskSpace
from forebay.act.forward.data.leases import Conflict, Leases
from forebay.act.forward.data.sole_leases import SoleHolder
from forebay.act.forward.data.untrusted_tree import Tree
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.payloads import ENDED, STILL, NodeList
from forebay.act.forward.net.wire import Kind, Message, pack

_HOLDERS, _SOLES = b"holders", b"sole"
UNASKED = (1 << 64) - 1
"""The tag of messages that are not answers."""
Retry = Callable[[Connection, Message], None]


class HolderFile:
    """The mounts that may have leases, and the folders that they may have alone, kept in files.

    After a restart, requests that change something wait for these mounts, and others if they concern such a folder.
    """

    def __init__(self, tree: Tree, space: DiskSpace | None = None) -> None:
        self._tree, self._space = tree, space or DiskSpace(tree.folder)
        self.former = self._read(_HOLDERS)
        soles = self._read(_SOLES)
        holders = map(SoleHolder, soles[1::3], soles[2::3])
        self.former_soles = dict(zip(soles[::3], holders, strict=False))

    def write(self, holders: set[int]) -> None:
        self._write(_HOLDERS, array("Q", holders))

    def write_soles(self, soles: Mapping[int, SoleHolder]) -> None:
        rows = ((folder, *each) for folder, each in soles.items())
        self._write(_SOLES, array("Q", chain.from_iterable(rows)))

    def _write(self, name: bytes, numbers: "array[int]") -> None:
        self._space.free(lambda: self._tree.replace(name, numbers.tobytes()))

    def _read(self, name: bytes) -> "array[int]":
        numbers = array("Q")
        with suppress(FileNotFoundError):
            data = self._tree.read(name)
            numbers.frombytes(data[: len(data) // 8 * 8])
        return numbers

    def close(self) -> None:
        self._tree.close()


class Recalls:
    """Sends recalls to mounts through their I/O nodes, and repeats a request once leases have ended."""

    def __init__(self, loop: AbstractEventLoop, leases: Leases, holders: HolderFile) -> None:
        self._loop, self._leases, self._file = loop, leases, holders
        self._paths: dict[int, Connection] = {}  # by holder: through which I/O node it watches
        self._waiting: list[tuple[Retry, Connection, Message]] = []
        self._recalled: dict[tuple[int, int], float] = {}  # the end of the lease, by holder and node
        self._timer: TimerHandle | None = None
        self._retrying = False

    def watch(self, connection: Connection, message: Message) -> None:
        """Note through which connection a mount can be reached, that it has dropped all, or that it has ended."""
        holder = message.file
        if message.offset == STILL and self._leases.is_watching(holder):
            self._paths[holder] = connection
        elif message.offset == ENDED:
            self._paths.pop(holder, None)
            self._leases.end(holder)
        else:
            self._leases.watch(holder)
            self._paths[holder] = connection
            self._file.write(self._leases.holders)
        self._recalled = {each: until for each, until in self._recalled.items() if each[0] != holder}
        self._retry_soon()

    def give_up(self, message: Message, nodes: list[int]) -> None:
        """A mount has dropped what it kept of these nodes."""
        for node in nodes:
            until = self._recalled.pop((message.file, node), None)
            if until is not None:
                self._leases.give_up(message.file, node, until)
        self._retry_soon()

    def wait(self, conflict: Conflict, retry: Retry, connection: Connection, message: Message) -> None:
        """Call `retry` again with this request once its conflict may have ended."""
        self._waiting.append((retry, connection, message.detach()))
        for holder, leases in conflict.leases.items():
            path, fresh = self._paths.get(holder), [node for node in leases if (holder, node) not in self._recalled]
            if fresh and path is not None and not path.closed:
                self._recalled.update(((holder, node), leases[node]) for node in fresh)
                payload = pack(NodeList(nodes=fresh))
                path.send([Message(Kind.RECALL, tag=UNASKED, file=holder, payload=payload).header(), payload])
        if self._timer is None:
            self._timer = self._loop.call_later(max(conflict.until - monotonic(), 0.0) + 0.01, self._ring)

    def lose(self, connection: Connection) -> None:
        """Drop the requests of a lost I/O node. The leases of its mounts end by themselves."""
        self._waiting = [each for each in self._waiting if each[1] is not connection]

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
        self._file.close()

    def _ring(self) -> None:
        self._timer = None
        self._recalled.clear()
        self._retry()

    def _retry_soon(self) -> None:
        if self._waiting and not self._retrying:
            self._retrying = True
            self._loop.call_soon(self._retry)

    def _retry(self) -> None:
        self._retrying = False
        waiting, self._waiting = self._waiting, []
        for retry, connection, message in waiting:
            if not connection.closed:
                retry(connection, message)
