"""Requests of clients to I/O nodes: what each one is about, and the channel that sends it."""

import os
import secrets
import stat
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from forebay.act.forward.net import payloads
from forebay.act.forward.net.payloads import ROOT
from forebay.act.forward.net.wire import Bytes, Message, pack
from forebay.model.errors import ForebayError
from forebay.model.layout import Layout

PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Lost(ForebayError):
    """The connection was lost or could not be opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """An open file as the layer knows it; `reads` is 1 if nobody writes through it."""

    file: int
    layout: Layout
    reads: int = 0


class Place(NamedTuple):
    """A name in a folder that is known by its id, or without a name the file with this id."""

    at: int
    name: bytes = b""


Where = PathLike | Place
"""A file by its path, or by its folder and its name."""


def place_of(where: Where) -> tuple[int, bytes]:
    """The folder from which a path leads to a file, and this path."""
    return where if isinstance(where, Place) else (ROOT, wire_path(where))


def wire_path(path: PathLike) -> bytes:
    """Encode a path for the wire: bytes without a leading slash.

    >>> wire_path("/runs/a"), wire_path("/")
    (b'runs/a', b'')
    """
    return os.fsencode(path).lstrip(b"/")


class Request:
    """One request; the bytes of a read go to `into`, and `payload` is `content` in packed form.

    If it has a `handle`, the connection must attach to its file first.
    """

    __slots__ = ("content", "file", "handle", "into", "kind", "offset", "payload", "size")

    def __init__(
        self,
        kind: int,
        handle: Handle | None = None,
        *,
        file: int = 0,
        offset: int = 0,
        size: int = 0,
        payload: Bytes = b"",
        into: memoryview | None = None,
        content: payloads.Payload | None = None,
    ) -> None:
        self.kind, self.handle, self.offset, self.size = kind, handle, offset, size
        self.file = file if handle is None else handle.file
        self.payload, self.into, self.content = payload, into, content
        if isinstance(content, payloads.OnceRequest):
            content.key = secrets.randbits(63) | 1
        if content is not None:
            self.payload = pack(content)

    def mark_repeated(self) -> None:
        """Mark the request as one that may have been carried out before."""
        if isinstance(self.content, payloads.OnceRequest):
            self.content.again = True
            self.payload = pack(self.content)


class Channel(Protocol):
    """Sends requests to an I/O node."""

    async def exchange(self, request: Request) -> Message:
        """Return the answer; raises `Lost` if it is unknown whether the request was carried out."""

    async def pause(self, seconds: float) -> None: ...


class Entry(NamedTuple):
    """A name in a folder; the `mode` includes the type. The id is 0 if it is unknown."""

    name: str
    mode: int
    file: int = 0

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)
