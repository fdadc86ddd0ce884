"""What an I/O node forwards to: data servers of this layer, or a mounted file system."""

import errno
import os
from abc import abstractmethod
from typing import NamedTuple, Protocol

from forebay.act.forward.net.payloads import Payload
from forebay.act.forward.net.wire import Kind, Message
from forebay.act.forward.node.dispatch import Dispatch, NodeFile, Servers
from forebay.model.layout import Layout


class Answer(NamedTuple):
    """`opened` is the layout of a file that the client has open from now on."""

    payload: bytes = b""
    file: int = 0
    opened: Layout | None = None


class Backend(Servers, Protocol):
    """Where requests go, and who knows the names. Errors are OSErrors with the errno for the client.

    The method `do_open` answers messages of Kind.OPEN, and so on.
    """

    @abstractmethod
    async def start(self, dispatch: Dispatch) -> None:
        """Return as soon as requests may come; connect to missing servers in the background."""

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
        """Use this number for a file that was named in an answer's `opened`."""

    @abstractmethod
    def close_file(self, file: NodeFile) -> None:
        """No client of this node has the file open any more."""

    @abstractmethod
    async def file_size(self, file: NodeFile, session: int) -> int: ...

    @abstractmethod
    async def fence(self, session: int) -> None:
        """Once this returns, nothing that was sent under that session is carried out any more."""

    def drop_overdue(self, timeout: float) -> None:  # noqa: ARG002
        """Called periodically: give up what has been in progress for longer than `timeout` seconds."""
        return

    def absence(self, server: int) -> str:
        """Why a server is not ready."""
        return f"server {server} is away"

    @abstractmethod
    async def close(self) -> None: ...
