"""What an I/O node forwards to: data servers of this layer, or a mounted file system."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from forebay.act.forward.net.payloads import Request
from forebay.act.forward.node.dispatch import Batch, NodeFile, Servers
from forebay.model.layout import Layout

Answered = Callable[[int, Batch], None]
Refused = Callable[[int, Batch, int, str], None]
"""See `Dispatch.answered` and `Dispatch.refused`."""
Changed = Callable[[int, bool], None]
"""A server's number, and whether it is up now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A client's request that is neither a read nor a write: decoded, and as it came."""

    kind: int
    session: int
    file: int = 0
    offset: int = 0
    request: Request | None = None
    payload: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`opened` is the layout of a file that the client has open from now on."""

    payload: bytes = b""
    file: int = 0
    opened: Layout | None = None


class Backend(Servers, Protocol):
    """Where requests go, and who knows the names. Errors are OSErrors with the errno for the client."""

    @abstractmethod
    def report_to(self, answered: Answered, refused: Refused, changed: Changed) -> None:
        """Set who hears of answers, and of servers that come and go."""

    @abstractmethod
    async def start(self) -> None:
        """Return as soon as requests may come; connect to missing servers in the background."""

    @abstractmethod
    async def answer(self, query: Query) -> Answer: ...

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

    @abstractmethod
    def drop_overdue(self, timeout: float) -> None:
        """Called periodically: give up what has been in progress for longer than `timeout` seconds."""

    @abstractmethod
    def absence(self, server: int) -> str:
        """Why a server is not ready."""

    @abstractmethod
    async def close(self) -> None: ...
