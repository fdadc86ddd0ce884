"""Opens connections, on both sides: each peer must first prove that it holds the key."""

import asyncio
import errno
import socket
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forebay.act.forward.net.address import Address, listener_address, open_listener, tune_socket
from forebay.act.forward.net.auth import Answerer, Asker, Credentials, Denied
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.connection import MOST_QUEUED, Closed, CloseReason, Connection, Lost, Received
from forebay.act.forward.net.wire import SHORT, BadMessage, Flag, Kind, Message

TIMEOUT = 10.0
"""Seconds that a peer has to prove itself."""
_MOST_STRANGERS = 256
"""The most connections whose peers have not proved themselves yet; the listener drops any others at once."""
_RETRY = 0.1
_SOONEST = 0.05
"""Seconds of the first pause before a link connects again."""


class Listener:
    """Calls `admitted(connection)`, which must `redirect` the connection, for each peer that proves itself.

    `counts` counts the other peers by `CloseReason`, or as "crowded" if too many had not proved themselves yet.
    """

    def __init__(
        self,
        address: Address,
        credentials: Credentials,
        admitted: Callable[[Connection], None],
        *,
        buffers: Buffers,
        counts: Counter[str] | None = None,
        timeout: float = TIMEOUT,
        most_queued: int = MOST_QUEUED,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._credentials, self._admitted = credentials, admitted
        self._buffers, self._timeout, self._most_queued = buffers, timeout, most_queued
        self._strangers: dict[Connection, tuple[Answerer, asyncio.TimerHandle]] = {}
        self.counts: Counter[str] = Counter() if counts is None else counts
        self._listener = open_listener(address)
        self.address = listener_address(self._listener)
        self._listen()

    def close(self) -> None:
        """Stop listening; admitted peers stay connected."""
        self._loop.remove_reader(self._listener)
        if self.address.path:
            Path(self.address.path).unlink(missing_ok=True)
        self._listener.close()
        for stranger in tuple(self._strangers):
            stranger.close()

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError, InterruptedError):
            return  # the peer has already disconnected
        except OSError:  # no descriptors left: try again later, when some are closed
            self._loop.remove_reader(self._listener)
            self._loop.call_later(_RETRY, self._listen)
            return
        if len(self._strangers) >= _MOST_STRANGERS:
            self.counts["crowded"] += 1
            sock.close()
            return
        tune_socket(sock)
        stranger = Connection(
            self._loop, sock, self._buffers, self._receive, self._lose, longest=SHORT, most_queued=self._most_queued
        )
        timer = self._loop.call_later(self._timeout, partial(self._drop, stranger, CloseReason.SLOW))
        self._strangers[stranger] = Answerer(*self._credentials), timer
        stranger.start()

    def _receive(self, stranger: Connection, message: Message) -> None:
        if stranger not in self._strangers:
            return
        handshake, timer = self._strangers[stranger]
        try:
            answer = handshake.receive(message)
        except Denied:
            stranger.send([Message(Kind.WELCOME, flags=Flag.REPLY, status=errno.EACCES).header()])
            self._drop(stranger, CloseReason.DENIED)
        except BadMessage:
            self._drop(stranger, CloseReason.MALFORMED)
        else:
            stranger.send([answer.header(), answer.payload])
            if handshake.peer is not None:
                del self._strangers[stranger]
                timer.cancel()
                stranger.peer = handshake.peer
                self._admitted(stranger)

    def _drop(self, stranger: Connection, reason: CloseReason) -> None:
        known = self._strangers.pop(stranger, None)
        if known is not None:
            known[1].cancel()
            self.counts[reason.value] += 1
            stranger.close(reason)

    def _lose(self, stranger: Connection, closed: Closed) -> None:
        self._drop(stranger, CloseReason.GONE if closed.reason is CloseReason.GONE else CloseReason.MALFORMED)


class NodeListener(Listener):
    """Listens for I/O nodes; `nodes` has them by name. A node that connects again replaces its old connection."""

    def __init__(
        self, address: Address, credentials: Credentials, received: Received, lost: Lost, **options: Any
    ) -> None:
        """`options` are those of `Listener`."""
        self.nodes: dict[str, Connection] = {}
        self._handlers = received, lost
        super().__init__(address, credentials, self._admit, **options)

    def close(self) -> None:
        """Stop listening, and disconnect all I/O nodes."""
        super().close()
        for connection in tuple(self.nodes.values()):
            connection.close()

    def _admit(self, connection: Connection) -> None:
        old = self.nodes.get(connection.peer.name)
        if old is not None:
            # The node has given up the unanswered requests on its old connection; they must not be carried out now.
            self.counts[CloseReason.REPLACED.value] += 1
            old.close(CloseReason.REPLACED, "the I/O node has connected again")
        self.nodes[connection.peer.name] = connection
        connection.redirect(self._handlers[0], self._remove)

    def _remove(self, connection: Connection, closed: Closed) -> None:
        if self.nodes.get(connection.peer.name) is connection:
            del self.nodes[connection.peer.name]
        self._handlers[1](connection, closed)


class PersistentLink(ABC):
    """Keeps a connection to a peer; when it is lost, reconnects after pauses of up to `latest` seconds.

    While there is no connection, `connection` is None, and `problem` says why.
    """

    def __init__(self, address: Address, credentials: Credentials, buffers: Buffers, latest: float) -> None:
        self.address, self._credentials, self._buffers, self._latest = address, credentials, buffers, latest
        self.connection: Connection | None = None
        self.problem = "not connected yet"
        self._gone = asyncio.Event()

    async def keep_connected(self) -> None:
        pause = _SOONEST
        while True:
            try:
                connection = await connect(
                    self.address, self._credentials, self._receive, self._lose, buffers=self._buffers
                )
                self._check_peer(connection)
            except (OSError, Denied, BadMessage, TimeoutError) as error:
                self.problem = str(error) or "no answer"
                await asyncio.sleep(pause)
                pause = min(2 * pause, self._latest)
                continue
            pause = _SOONEST
            self._gone.clear()
            try:
                if not connection.closed:
                    self.connection = connection
                    self._on_connect()
                    await self._gone.wait()
            finally:
                connection.close()

    def _check_peer(self, connection: Connection) -> None:  # noqa: B027
        """Close the connection and raise Denied if this is the wrong peer."""

    @abstractmethod
    def _on_connect(self) -> None: ...

    @abstractmethod
    def _receive(self, connection: Connection, message: Message) -> None: ...

    def _lose(self, _connection: Connection, closed: Closed) -> None:
        self.connection = None
        self.problem = str(closed)
        self._gone.set()


async def connect(
    address: Address,
    credentials: Credentials,
    received: Received,
    lost: Lost,
    *,
    buffers: Buffers,
    timeout: float = TIMEOUT,
) -> Connection:
    """Connect to a peer that proves itself and has an accepted role.

    Raises OSError if no process listens there, `Denied` if the peer does not belong to the layer.
    """
    loop = asyncio.get_running_loop()
    sock = await _open_socket(address, timeout)
    outcome: asyncio.Future[None] = loop.create_future()
    handshake = Asker(*credentials)

    def shake_hands(connection: Connection, message: Message) -> None:
        if outcome.done():
            return
        try:
            answer = handshake.receive(message)
        except (Denied, BadMessage) as error:
            outcome.set_exception(error)
            return
        if answer is not None:
            connection.send([answer.header(), answer.payload])
        else:
            assert handshake.peer is not None
            connection.peer = handshake.peer
            connection.redirect(received, lost)  # now, since other messages may follow the welcome
            outcome.set_result(None)

    def fail(_: Connection, closed: Closed) -> None:
        if not outcome.done():
            outcome.set_exception(ConnectionError(f"{address}: {closed}"))

    connection = Connection(loop, sock, buffers, shake_hands, fail, longest=SHORT, patient=True)
    connection.start()
    first = handshake.first()
    connection.send([first.header(), first.payload])
    try:
        async with asyncio.timeout(timeout):
            await outcome
    except BaseException as error:
        connection.close()
        if isinstance(error, Denied):
            raise Denied(f"{address}: {error}") from None
        raise
    return connection


async def _open_socket(address: Address, timeout: float) -> socket.socket:
    loop = asyncio.get_running_loop()
    family: int = socket.AF_UNIX
    place: Any = address.path
    if not address.path:
        resolved = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, place = resolved[0][0], resolved[0][4]
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        async with asyncio.timeout(timeout):
            await loop.sock_connect(sock, place)
        tune_socket(sock)
    except BaseException:
        sock.close()
        raise
    return sock
