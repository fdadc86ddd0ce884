"""A socket at which callers of the service are let in, as long as neither they nor all of them are too many."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Hashable
from contextlib import suppress

from forebay.act.control.api_limits import Crowd, Limits, error_body
from forebay.act.control.auth import peer_of

_AT_ONCE = 64
_AGAIN = 0.1  # seconds until somebody is let in again after the system refused
_FULL = error_body("too many connections; end some, or come again later")
_TURNED_AWAY = b"HTTP/1.1 503 \r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"

Guest = Callable[[Callable[[], None]], asyncio.Protocol]


class Door:
    """Open from the start until `close`. A guest is made with what it must call when it leaves.

    Those with a uid in `always` are let in at a UNIX socket however many there are.
    """

    def __init__(
        self, listener: socket.socket, guest: Guest, crowd: Crowd, limits: Limits, *, tls: ssl.SSLContext | None,
        always: frozenset[int],
    ) -> None:  # fmt: skip
        self._listener, self._guest, self._crowd, self._limits = listener, guest, crowd, limits
        self._tls, self._always = tls, always
        self._loop = asyncio.get_running_loop()
        self._entering: set[asyncio.Task[None]] = set()
        self._closed = False
        self._open()

    def _open(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._listener.fileno())
            for task in self._entering:
                task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._entering, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no more descriptors: to try all the time would not help
                self._loop.remove_reader(self._listener.fileno())
                self._loop.call_later(_AGAIN, self._open)
                return
            sock.setblocking(False)
            self._meet(sock, address)

    def _meet(self, sock: socket.socket, address: object) -> None:
        peer = peer_of(sock)
        who: Hashable = peer.uid if peer is not None else address[0] if isinstance(address, tuple) else address
        own: int | None = self._limits.host if peer is None else self._limits.each
        if not self._crowd.enters(who, None if peer is not None and peer.uid in self._always else own):
            self._turn_away(sock)
            return
        task = self._loop.create_task(self._let_in(sock, self._leaving(who)))
        self._entering.add(task)
        task.add_done_callback(self._entering.discard)

    def _leaving(self, who: Hashable) -> Callable[[], None]:
        """Counts once, however often it is called."""
        there = [who]
        return lambda: self._crowd.leaves(there.pop()) if there else None

    async def _let_in(self, sock: socket.socket, leave: Callable[[], None]) -> None:
        try:
            if self._tls is None:
                await self._loop.connect_accepted_socket(lambda: self._guest(leave), sock)
            else:
                await self._loop.connect_accepted_socket(
                    lambda: self._guest(leave), sock, ssl=self._tls, ssl_handshake_timeout=self._limits.send
                )
        except BaseException as error:
            leave()
            sock.close()
            self._crowd.dropped["handshake"] += 1
            if not isinstance(error, OSError):
                raise

    def _turn_away(self, sock: socket.socket) -> None:
        self._crowd.dropped["full"] += 1
        with sock, suppress(OSError):
            if self._tls is None:
                with suppress(BlockingIOError):
                    sock.recv(1 << 16)  # what is not read would be answered by an error of the system
                sock.send(_TURNED_AWAY % (len(_FULL), _FULL))
