"""The back end that an I/O node forwards to: data servers of the layer, or a mounted file system."""

from __future__ import annotations

import errno
import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from forebay.act.forward.net.payloads import Payload
from forebay.act.forward.net.wire import Kind, Message
from forebay.act.forward.node.watchers import Watchers
from forebay.act.forward.striping import Piece
from forebay.model.layout import Layout

if TYPE_CHECKING:  # a program without a queue, such as staging, starts faster without what the queue needs
    from forebay.act.forward.node.dispatch import Dispatch, Request

Part = tuple["Request", int, int]
"""A piece in the queue: its request, its index in the request, and its slot."""
Batch = list[Part]
"""Pieces that go to a server as one message."""


class NodeFile(Protocol):
    """A file that clients have open at this node; `number` identifies it here, `pieces` locates its bytes.

    A write that ends beyond `reach` must wait for `Backend.extend_reach`.
    """

    number: int
    reach: int

    def pieces(self, offset: int, length: int) -> Sequence[Piece]: ...


class Servers(Protocol):
    """Receives messages. It answers each by one call of `Dispatch.complete` or `Dispatch.refuse`."""

    count: int
    up: list[bool]
    """Whether each server can receive messages now."""

    @abstractmethod
    def send(self, slot: int, server: int, batch: Batch) -> None:
        """Send pieces that are contiguous in one object as one message."""

    def flush(self) -> None:
        """Called after the last `send` of a burst."""
        return

    def send_alone(self, slot: int, server: int, batch: Batch) -> None:
        """Send a message that is the only one of its burst."""
        self.send(slot, server, batch)
        self.flush()


class Answer(NamedTuple):
    """The answer to a client; `opened` is the layout of the file, if the request opened one.

    The client may then read the file (4), write it (2), or both.
    """

    payload: bytes = b""
    file: int = 0
    opened: Layout | None = None
    access: int = 6


class Backend(Servers, Protocol):
    """Carries out requests, and knows the names of files. Errors are OSErrors with the errno for the client.

    The method `do_open` answers messages of Kind.OPEN, and so on.
    """

    watchers: Watchers
    """The mounts whose leases the server of the names can recall."""

    @abstractmethod
    async def start(self, dispatch: Dispatch) -> None:
        """Return as soon as requests can be accepted; connect to missing servers in the background."""

    async def answer(self, message: Message, request: Payload | None) -> Answer:
        """Answer a client's request that is neither a read nor a write."""
        operation = getattr(self, f"do_{Kind(message.kind).name.lower()}", self.do_other)
        answer: Answer | None = await operation(message, request)
        return answer or Answer()

    async def do_other(self, message: Message, request: Payload | None) -> Answer:  # noqa: ARG002
        """Answer messages of all other kinds."""
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    @abstractmethod
    def open_file(self, file: int, number: int, layout: Layout) -> NodeFile:
        """Open a file, whose layout an answer has `opened`, under this number."""

    @abstractmethod
    def close_file(self, file: NodeFile) -> None:
        """Close a file that no client of this node has open any more."""

    def keep_for_return(self, file: int) -> None:  # noqa: ARG002
        """Keep a file as it is for a while, though it may lose its last name: a lost client may come back for it."""
        return

    def end_watch(self, holder: int) -> None:  # noqa: ARG002
        """Note that a mount has ended, and with it its leases."""
        return

    async def extend_reach(self, file: NodeFile) -> None:  # noqa: ARG002
        """Let writes reach all of the file."""
        return

    @abstractmethod
    async def file_size(self, file: NodeFile, session: int) -> int: ...

    @abstractmethod
    async def fence(self, session: int) -> None:
        """Block a session: once this returns, no request of it can still take effect."""

    def drop_overdue(self, timeout: float) -> None:  # noqa: ARG002
        """Give up requests in progress for longer than `timeout` seconds; the node calls this periodically."""
        return

    def absence(self, server: int) -> str:
        """Why a server is not ready."""
        return f"server {server} is not connected"

    @abstractmethod
    async def close(self) -> None: ...
