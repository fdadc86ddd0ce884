"""What an I/O node forwards to: data servers of this layer, or a mounted file system."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from forebay.act.forward.node.dispatch import Batch, Opened
from forebay.model.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A client's question that is neither a read nor a write."""

    kind: int
    session: int
    file: int = 0
    offset: int = 0
    words: dict[str, Any] = field(default_factory=dict)
    payload: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`opened` is the layout of a file that the client has open from here on, and `name` its path where known."""

    payload: bytes = b""
    file: int = 0
    size: int = 0
    opened: Layout | None = None
    name: bytes = b""


class Backend(Protocol):
    """Where requests go, and who knows the names. Errors are OSErrors with the errno that the client is to get."""

    count: int
    up: list[bool]

    @abstractmethod
    def tell(
        self,
        answered: Callable[[int, Batch], None],
        refused: Callable[[int, Batch, int, str], None],
        changed: Callable[[int, bool], None],
    ) -> None:
        """Who hears of answers (see `Dispatch`), and of servers that come and go."""

    @abstractmethod
    async def start(self) -> None:
        """Return as soon as requests may come; servers that are away are waited for in the background."""

    @abstractmethod
    def send(self, slot: int, server: int, batch: Batch) -> None: ...

    @abstractmethod
    def flush(self) -> None: ...

    @abstractmethod
    async def ask(self, asked: Asked) -> Answer: ...

    @abstractmethod
    def opened(self, file: int, number: int, layout: Layout) -> Opened:
        """A file that was named in an answer's `opened`, under this number."""

    @abstractmethod
    def closed(self, file: Opened) -> None:
        """Nobody has the file open here any more."""

    @abstractmethod
    async def file_size(self, file: Opened, session: int) -> int: ...

    @abstractmethod
    async def fence(self, session: int) -> None:
        """Nothing that was sent under that session is done any more, once this returns."""

    @abstractmethod
    def check(self, timeout: float) -> None:
        """Called now and then: give up what has been under way for longer than `timeout` seconds."""

    @abstractmethod
    def away(self, server: int) -> str:
        """Why a server is not ready."""

    @abstractmethod
    async def close(self) -> None: ...
