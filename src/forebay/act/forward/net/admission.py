"""Where connections begin, on both sides: nobody gets further who has not proved that it holds the key."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path

from forebay.act.forward.net.address import Address, bound, listening, tune
from forebay.act.forward.net.auth import Answerer, Asker, Denied, Peer, refusal
from forebay.act.forward.net.connection import MOST_QUEUED, Connection
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.wire import LONGEST, SHORT, BadMessage, Message

TIMEOUT = 10.0
"""Seconds within which a peer must have proved itself."""
_MOST_STRANGERS = 256
"""Connections that have not proved themselves yet; the next one is dropped at once."""

_LATER = 0.1


class Door:
    """Listens at an address and calls `entered(connection)` for every peer that has proved itself.

    Whoever enters must `redirect` the connection to itself. `dropped` counts the others by reason: "denied" (wrong
    key or role), "malformed", "slow", "gone", "crowded".
    """

    def __init__(
        self,
        address: Address,
        key: bytes,
        me: Peer,
        accepts: Collection[str],
        entered: Callable[[Connection], None],
        *,
        buffers: Buffers,
        timeout: float = TIMEOUT,
        most_queued: int = MOST_QUEUED,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._key, self._me, self._accepts, self._entered = key, me, accepts, entered
        self._buffers, self._timeout, self._most_queued = buffers, timeout, most_queued
        self._strangers: dict[Connection, tuple[Answerer, asyncio.TimerHandle]] = {}
        self.dropped: Counter[str] = Counter()
        self._listener = listening(address)
        self.address = bound(self._listener)
        self._listen()

    def close(self) -> None:
        """Listen no more; those who are in stay."""
        self._loop.remove_reader(self._listener)
        if self.address.path:
            Path(self.address.path).unlink(missing_ok=True)
        self._listener.close()
        for stranger in tuple(self._strangers):
            stranger.close()

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._knock)

    def _knock(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError, InterruptedError):
            return  # the peer is gone again
        except OSError:  # no descriptors left: the loop would ask again at once, and others need time to close some
            self._loop.remove_reader(self._listener)
            self._loop.call_later(_LATER, self._listen)
            return
        if len(self._strangers) >= _MOST_STRANGERS:
            self.dropped["crowded"] += 1
            sock.close()
            return
        tune(sock)
        stranger = Connection(
            self._loop, sock, self._buffers, self._heard, self._lost, longest=SHORT, most_queued=self._most_queued
        )
        timer = self._loop.call_later(self._timeout, partial(self._drop, stranger, "slow"))
        self._strangers[stranger] = Answerer(self._key, self._me, self._accepts), timer
        stranger.start()

    def _heard(self, stranger: Connection, message: Message) -> None:
        if stranger not in self._strangers:
            return
        handshake, _ = self._strangers[stranger]
        try:
            answer = handshake.received(message)
        except Denied:
            refused = refusal()
            stranger.send([refused.header()])
            self._drop(stranger, "denied")
        except BadMessage:
            self._drop(stranger, "malformed")
        else:
            stranger.send([answer.header(), answer.payload])
            if handshake.peer is not None:
                self._enter(stranger, handshake.peer)

    def _enter(self, connection: Connection, peer: Peer) -> None:
        _, timer = self._strangers.pop(connection)
        timer.cancel()
        connection.peer = peer
        connection.allow(LONGEST)
        self._entered(connection)

    def _drop(self, stranger: Connection, reason: str) -> None:
        known = self._strangers.pop(stranger, None)
        if known is not None:
            known[1].cancel()
            self.dropped[reason] += 1
            stranger.close(reason)

    def _lost(self, stranger: Connection, why: str) -> None:
        self._drop(stranger, "gone" if why == "the peer is gone" else "malformed")


async def connect(
    address: Address,
    key: bytes,
    me: Peer,
    accepts: Collection[str],
    received: Callable[[Connection, Message], None],
    lost: Callable[[Connection, str], None],
    *,
    buffers: Buffers,
    timeout: float = TIMEOUT,
    most_queued: int = MOST_QUEUED,
    patient: bool = True,
) -> Connection:
    """A connection whose peer has proved itself and has one of the roles of `accepts`.

    Raises OSError where nobody is there, `Denied` where it is not one of ours.
    """
    loop = asyncio.get_running_loop()
    sock = await _socket(address, timeout)
    outcome: asyncio.Future[None] = loop.create_future()
    handshake = Asker(key, me, accepts)

    def heard(connection: Connection, message: Message) -> None:
        if outcome.done():
            return
        try:
            answer = handshake.received(message)
        except (Denied, BadMessage) as error:
            outcome.set_exception(error)
            return
        if answer is not None:
            connection.send([answer.header(), answer.payload])
        else:
            connection.peer = handshake.peer
            connection.allow(LONGEST)
            connection.redirect(received, lost)  # now: more may have come with the welcome
            outcome.set_result(None)

    def gone(_: Connection, why: str) -> None:
        if not outcome.done():
            outcome.set_exception(ConnectionError(f"{address}: {why}"))

    connection = Connection(loop, sock, buffers, heard, gone, longest=SHORT, most_queued=most_queued, patient=patient)
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


async def _socket(address: Address, timeout: float) -> socket.socket:
    loop = asyncio.get_running_loop()
    if address.path:
        family, place = socket.AF_UNIX, address.path
    else:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, place = found[0][0], found[0][4]  # type: ignore[assignment]
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        async with asyncio.timeout(timeout):
            await loop.sock_connect(sock, place)
        tune(sock)
    except BaseException:
        with suppress(OSError):
            sock.close()
        raise
    return sock
