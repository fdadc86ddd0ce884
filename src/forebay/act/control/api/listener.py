"""A socket at which callers of the service are let in, as long as neither they nor all of them are too many."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Hashable
from contextlib import suppress

from forebay.act.control.api.limits import Crowd, Seat, error_body
from forebay.act.control.api.proxies import MOST, Proxies, plain_address, read_head
from forebay.act.control.auth.callers import peer_of
from forebay.act.control.errors import ErrorCode, TooMany
from forebay.act.control.service.settings import Limits

_AT_ONCE = 64
_AGAIN = 0.1  # seconds until somebody is let in again after the system refused
_FULL = error_body(ErrorCode.UNAVAILABLE, "too many connections; close some, or try again later")
_TURNED_AWAY = b"HTTP/1.1 503 \r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"

_LOOK = 0.01  # seconds between looks at a proxy's head that has begun
Guest = Callable[[Seat], asyncio.Protocol]


class Listener:
    """Open from the start until `close`. A guest is made with its seat, which it must leave in the end.

    Those with a uid in `always` are let in at a UNIX socket however many there are. `proxies` are believed when they
    tell for whom they call; of their own connections there may be any number.
    """

    def __init__(
        self, listener: socket.socket, guest: Guest, crowd: Crowd, limits: Limits, *, tls: ssl.SSLContext | None,
        always: frozenset[int], proxies: Proxies,
    ) -> None:  # fmt: skip
        self._listener, self._guest, self._crowd, self._limits = listener, guest, crowd, limits
        self._tls, self._always, self._proxies = tls, always, proxies
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
        if peer is not None:
            most = None if peer.uid in self._always else self._limits.each
            self._seat(sock, peer.uid, most)
            return
        host = plain_address(str(address[0])) if isinstance(address, tuple) else str(address)
        if not self._proxies.has(host):
            self._seat(sock, host, self._limits.host, address=host)
        elif len(self._crowd) >= self._crowd.most:
            self._turn_away(sock)
        else:
            self._seat(sock, host, None, address=host, proxy=self._proxies)

    def _seat(
        self, sock: socket.socket, who: Hashable, most: int | None, *, address: str = "", proxy: Proxies | None = None
    ) -> None:  # fmt: skip
        if not self._crowd.enters(who, most):
            self._turn_away(sock)
            return
        seat = Seat(self._crowd, who, self._limits, address=address, proxy=proxy)
        task = self._loop.create_task(self._let_in(sock, seat))
        self._entering.add(task)
        task.add_done_callback(self._entering.discard)

    async def _ask_proxy(self, sock: socket.socket, seat: Seat) -> None:
        """For whom it calls, if it says so before anything else; else a header of each call may."""
        async with asyncio.timeout(self._limits.send):
            caller = await self._read_head(sock)
        if caller:
            seat.settle(caller)

    async def _read_head(self, sock: socket.socket) -> str:
        """The address that the PROXY protocol tells, whose bytes are taken; "" if there is none."""
        while True:
            await self._readable(sock)
            heard = sock.recv(MOST, socket.MSG_PEEK)
            if not heard:
                raise ConnectionResetError
            found = read_head(heard)
            if found is not None:
                length, caller = found
                sock.recv(length)
                return caller
            await asyncio.sleep(_LOOK)

    async def _readable(self, sock: socket.socket) -> None:
        ready = asyncio.Event()
        self._loop.add_reader(sock.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_reader(sock.fileno())

    async def _let_in(self, sock: socket.socket, seat: Seat) -> None:
        try:
            if seat.is_proxys:
                await self._ask_proxy(sock, seat)
            if self._tls is None:
                await self._loop.connect_accepted_socket(lambda: self._guest(seat), sock)
            else:
                await self._loop.connect_accepted_socket(
                    lambda: self._guest(seat), sock, ssl=self._tls, ssl_handshake_timeout=self._limits.send
                )
        except BaseException as error:
            seat.leave()
            sock.close()
            self._crowd.dropped["full" if isinstance(error, TooMany) else "handshake"] += 1
            if not isinstance(error, OSError | TooMany):  # a timeout is one of the system's errors
                raise

    def _turn_away(self, sock: socket.socket) -> None:
        self._crowd.dropped["full"] += 1
        with sock, suppress(OSError):
            if self._tls is None:
                with suppress(BlockingIOError):
                    sock.recv(1 << 16)  # what is not read would be answered by an error of the system
                sock.send(_TURNED_AWAY % (len(_FULL), _FULL))
