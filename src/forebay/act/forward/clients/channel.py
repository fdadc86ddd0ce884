"""The identity of a client, and its connection to the first of its I/O nodes that answers."""

import errno
import os
import secrets
import socket
import sys
from abc import ABC, abstractmethod
from asyncio import Lock
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, TypeVar

from forebay.act.forward.clients.requests import Lost, Request
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.auth import Credentials, Denied, Peer
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.payloads import NodeList
from forebay.act.forward.net.wire import BadMessage, Flag, Kind, Message

_CONNECT_TIMEOUT = 5.0
_LONGEST = 200
_MOST_GROUPS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What an I/O node and the history know about a client: application, job, number of processes, host and user.

    A mount that asks for leases has a `holder`, a random number.
    """

    application: str
    job: str = ""
    processes: int = 1
    host: str = ""
    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()
    holder: int = 0

    def peer(self, session: int) -> Peer:
        values = asdict(self).items()
        facts = {name: value[:_LONGEST] if isinstance(value, str) else value for name, value in values}
        if not self.holder:
            del facts["holder"]
        return Peer(role="client", name=f"{facts['host']}:{os.getpid()}", facts={"session": session, **facts})


def identify(application: str = "", job: str = "", processes: int = 0) -> Identity:
    """Identify this process; missing values come from the batch system or the command line."""
    tasks = os.environ.get("SLURM_NTASKS", "")
    return Identity(
        application=application or Path(sys.argv[0] if sys.argv else "").name or "python",
        job=job or os.environ.get("SLURM_JOB_ID", ""),
        processes=processes or (int(tasks) if tasks.isascii() and tasks.isdigit() and int(tasks) > 0 else 1),
        host=socket.gethostname(),
        uid=os.getuid(),
        gid=os.getgid(),
        groups=tuple(os.getgroups()[:_MOST_GROUPS]),
    )


L = TypeVar("L", socket.socket, Connection)


class NodeChannel(ABC, Generic[L]):
    """Connects at the first request; after `Lost`, the next request connects to the next node.

    Each connection has its own session. After a loss, the next connection first fences the old session, so that no
    request of it can still take effect.
    """

    def __init__(self, nodes: Sequence[Address], key: bytes, who: Identity, *, timeout: float, checked: bool) -> None:
        if not nodes:
            raise ValueError("a client needs at least one I/O node")
        self.timeout, self.flags = timeout, Flag.CHECKED if checked else 0
        self.closed = False
        self.attached: set[int] = set()
        self.leaving: set[int] = set()
        self._nodes, self._key, self._who = tuple(nodes), key, who
        self._next = self._session = self._unfenced = self._tag = 0
        self._link: L | None = None
        self._connecting, self._attaching = Lock(), Lock()  # a blocking channel never waits for them

    @abstractmethod
    async def _open(self, node: Address, credentials: Credentials, timeout: float) -> L:
        """Open a link to a node that has proved itself; raises OSError, BadMessage or Denied."""

    @abstractmethod
    async def _exchange(self, link: L, request: Request, session: int) -> Message:
        """Send a request and return its answer; after an OSError or BadMessage, the link cannot be used again."""

    @abstractmethod
    async def pause(self, seconds: float) -> None: ...

    async def exchange(self, request: Request) -> Message:
        """Send a request and return its answer; raises `Lost`."""
        link = self._link
        if link is None:
            async with self._connecting:
                link = self._link or await self._connect()
        session, node, handle = self._session, self._node, request.handle
        try:
            if handle is not None and handle.file not in self.attached:
                async with self._attaching:
                    if handle.file not in self.attached:  # else another request attached it
                        answer = await self._exchange(
                            link, Request(Kind.ATTACH, file=handle.file, offset=handle.reads), session
                        )
                        if answer.status:
                            return answer
                        self._note_attached(link, handle.file)
            answer = await self._exchange(link, request, session)
        except (OSError, BadMessage) as error:
            self.lose(link)
            self._check_open()
            raise Lost(f"{node}: {_reason(error)}") from None
        if request.kind in (Kind.OPEN, Kind.ATTACH) and not answer.status:
            self._note_attached(link, answer.file)
        return answer

    async def close_left_files(self) -> None:
        """Close the files at the I/O node that the client does not need any more."""
        files = sorted(self.leaving & self.attached)
        self.leaving.clear()
        self.attached.difference_update(files)
        if files:
            with suppress(Lost):  # without a connection, the node has closed them all
                await self.exchange(Request(Kind.CLOSE, content=NodeList(nodes=files)))

    def close(self) -> None:
        if self._link is not None:
            self.lose(self._link)

    def lose(self, link: L) -> None:
        """Drop a link: its files are no longer attached, and its session must be fenced."""
        link.close()
        if link is self._link:
            self._link = None
            self.attached.clear()
            self._unfenced = self._unfenced or self._session
            self._next += 1

    @property
    def link(self) -> L:
        """The connection; raises `Lost` if there is none."""
        if self._link is None:
            raise Lost("not connected")
        return self._link

    @property
    def session(self) -> int:
        return self._session

    @property
    def _node(self) -> Address:
        return self._nodes[self._next % len(self._nodes)]

    def _check_open(self) -> None:
        if self.closed:
            raise OSError(errno.EBADF, "the client is closed")

    def _note_attached(self, link: L, file: int) -> None:
        if link is self._link:
            self.attached.add(file)
            self.leaving.discard(file)

    async def _connect(self) -> L:
        self._check_open()
        session, node = secrets.randbits(63) | 1, self._node
        try:
            credentials = Credentials(self._key, self._who.peer(session), ("node",))
            link = await self._open(node, credentials, min(_CONNECT_TIMEOUT, self.timeout))
            try:
                if self._unfenced:
                    answer = await self._exchange(link, Request(Kind.FENCE, file=self._unfenced), session)
                    if answer.status:
                        raise OSError(answer.status, os.strerror(answer.status))
            except BaseException:
                link.close()
                raise
        except Denied as error:
            raise OSError(errno.EACCES, str(error)) from None
        except (OSError, BadMessage) as error:
            self._next += 1
            raise Lost(f"{node}: {_reason(error)}") from None
        self._link, self._session, self._unfenced = link, session, 0
        return link


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.lower() or "no answer"
