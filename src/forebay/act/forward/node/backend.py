"""The back end that an I/O node forwards to: data servers of the layer, or a mounted file system."""

import errno
import os
from abc import abstractmethod
from typing import NamedTuple, Protocol

from forebay.act.forward.net.payloads import Payload
from forebay.act.forward.net.wire import Kind, Message
from forebay.act.forward.node.dispatch import Dispatch, NodeFile, Servers
from forebay.act.forward.node.watchers import Watchers
from forebay.model.layout import Layout


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
