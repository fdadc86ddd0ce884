"""The service on its sockets, with limits on connections and on slow callers. Only this module uses uvicorn."""

import asyncio
import errno
import gc
import os
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from forebay.act.control.api.app import Bounded, build
from forebay.act.control.api.connection_limits import Crowd, Seat, room_for
from forebay.act.control.api.proxies import MOST, Proxies, plain_address, read_head
from forebay.act.control.auth.callers import peer_of
from forebay.act.control.connections import describe_tls_error
from forebay.act.control.errors import ErrorCode, TooMany, encode_error
from forebay.act.control.page.files import NO_PAGES, Pages
from forebay.act.control.service.service import Service
from forebay.act.control.service.settings import Limits, ServiceSettings, make_private, private_files
from forebay.act.forward.net.address import Address, CantListen, open_listener, parse_address
from forebay.act.log import Log
from forebay.history.store import open_store
from forebay.model.compile_hooks import hooks
from forebay.model.errors import BadInput, name_errors, why

_HEAD = 16_384  # most bytes of a request's head
_GRACE = 5  # seconds to finish answers when the service ends
_AT_ONCE = 64
_AGAIN = 0.1  # seconds before connections are accepted again after the system refused one
_LOOK = 0.01  # seconds between reads of an incomplete proxy head
_FULL = encode_error(ErrorCode.UNAVAILABLE, "too many connections; close some, or try again later")
_TURNED_AWAY = b"HTTP/1.1 503 \r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
Ready = Callable[[list[str]], None]
Guest = Callable[[Seat], asyncio.Protocol]
ListeningSocket = tuple[socket.socket, ssl.SSLContext | None]


class _Protocol(H11Protocol):
    """One connection. Requests find the process at the other end of a UNIX socket in their state.

    A caller that sends its request or takes its answer too slowly is cut off.
    """

    limits: Limits
    seat: Seat
    crowd: Crowd

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.app_state = {**self.app_state, "peer": peer_of(transport.get_extra_info("socket")), "seat": self.seat}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._begin("send", self.limits.send)

    def _begin(self, what: str, seconds: float) -> None:
        """Cut the caller off after `seconds`, unless `_end` comes first. A second call does not extend the time."""
        if what not in self._timers:
            self._timers[what] = asyncio.get_running_loop().call_later(seconds, self._cut_off)

    def _end(self, what: str) -> None:
        if what in self._timers:
            self._timers.pop(what).cancel()

    def _cut_off(self) -> None:
        self.crowd.dropped["slow"] += 1
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.seat.leave()
        self._end("send")
        self._end("take")

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._begin("send", self.limits.send)
        else:
            self._end("send")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._begin("take", self.limits.take)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end("take")

    def send_400_response(self, msg: str) -> None:
        """Answer in the same form as all errors."""
        del msg
        body = encode_error(ErrorCode.MALFORMED, f"not an HTTP request, or its headers exceed {_HEAD} bytes")
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            with suppress(h11.LocalProtocolError):  # an answer has already begun
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Listener:
    """Accepts connections until `close`, within the limits of each caller and of the service.

    A guest gets a seat, which it must leave at its end. Administrators on a UNIX socket have no limit. Trusted proxies
    name their callers, and have no limit of their own.
    """

    def __init__(self, listener: socket.socket, tls: ssl.SSLContext | None, guest: Guest, service: Service) -> None:
        settings = service.settings
        self._listener, self._tls, self._guest = listener, tls, guest
        self._crowd, self._limits = service.crowd, settings.limits
        self._always = frozenset({os.getuid(), *settings.administrators})
        self._proxies = Proxies(settings.proxies)
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
            except OSError:  # out of descriptors: accept again after a pause
                self._loop.remove_reader(self._listener.fileno())
                self._loop.call_later(_AGAIN, self._open)
                return
            sock.setblocking(False)
            peer = peer_of(sock)
            if peer is not None:
                most = None if peer.uid in self._always else self._limits.each
                self._seat(sock, Seat(self._crowd, peer.uid, self._limits), peer.uid, most)
                continue
            host = plain_address(str(address[0]))
            proxies = self._proxies if self._proxies.has(host) else None
            seat = Seat(self._crowd, host, self._limits, address=host, proxies=proxies)
            self._seat(sock, seat, host, self._limits.host if proxies is None else self._crowd.most)

    def _seat(self, sock: socket.socket, seat: Seat, who: int | str, most: int | None) -> None:
        if self._crowd.enter(who, most):
            task = self._loop.create_task(self._let_in(sock, seat))
            self._entering.add(task)
            task.add_done_callback(self._entering.discard)
            return
        self._crowd.dropped["full"] += 1
        with sock, suppress(OSError):
            if self._tls is None:
                with suppress(BlockingIOError):
                    sock.recv(1 << 16)  # else the caller gets a reset instead of this answer
                sock.send(_TURNED_AWAY % (len(_FULL), _FULL))

    async def _let_in(self, sock: socket.socket, seat: Seat) -> None:
        handshake = None if self._tls is None else self._limits.send
        try:
            if seat.proxies is not None:
                async with asyncio.timeout(self._limits.send):
                    caller = await self._read_head(sock)
                if caller:  # else a header of each call may name the caller
                    seat.settle(caller)
            await self._loop.connect_accepted_socket(
                lambda: self._guest(seat), sock, ssl=self._tls, ssl_handshake_timeout=handshake
            )
        except BaseException as error:
            seat.leave()
            sock.close()
            self._crowd.dropped["full" if isinstance(error, TooMany) else "handshake"] += 1
            if not isinstance(error, OSError | TooMany):  # a timeout is an OSError, too
                raise

    async def _read_head(self, sock: socket.socket) -> str:
        """Read the head of the PROXY protocol; returns the caller's address, "" for none."""
        while True:
            ready = asyncio.Event()
            self._loop.add_reader(sock.fileno(), ready.set)
            try:
                await ready.wait()
            finally:
                self._loop.remove_reader(sock.fileno())
            received = sock.recv(MOST, socket.MSG_PEEK)
            if not received:
                raise ConnectionResetError
            if (head := read_head(received)) is not None:
                length, caller = head
                sock.recv(length)
                return caller
            await asyncio.sleep(_LOOK)


async def serve(
    settings: ServiceSettings, end: asyncio.Event, ready: Ready, *, log: Log | None = None, pages: Pages = NO_PAGES
) -> None:
    """Serve until `end` is set. Calls `ready` with the addresses once the service can answer."""
    log = log or Log(settings.log)
    with private_files():
        store = open_store(settings.db)
    with store:
        make_private(store)
        store.make_durable()
        service = Service(store, settings, log=log, pages=pages)
        sockets = _open_sockets(settings)  # first, because another process may use the address
        if not sys.stderr.isatty():
            _log_compiling(log)
        try:
            await service.start()
            sys.setswitchinterval(0.0003)  # the writer's thread must not wait 5 ms for its turn
            gc.collect()
            gc.freeze()  # these objects live on, so the collector can skip them
            gc.set_threshold(2_000, 5, 1_000)  # often, so that no run is long; seldom in full, as grants have no cycles
            service.crowd.most = room_for(settings.limits.connections)
            server = _start_server(service, sockets)
            running = asyncio.create_task(server.main_loop())
            addresses = [_address_of(listener) for listener, _ in sockets]
            log.info("ready", listening=addresses, store=store.where)
            ready(addresses)
            await end.wait()
            service.changes.close()
            server.should_exit = True
            await running
            await server.shutdown()
        finally:
            await service.stop()
            for listener, _ in sockets:
                listener.close()
            if settings.socket is not None:
                with suppress(OSError):
                    settings.socket.unlink()
        log.info("ended")


def _log_compiling(log: Log) -> None:
    """Log one line when the first kernel is compiled."""

    def say_once(_kernel: str) -> None:
        hooks.before = hooks.after
        log.info("compiling for this machine", why="first start of this version; takes up to a minute")

    hooks.before = say_once


def _start_server(service: Service, sockets: list[ListeningSocket]) -> uvicorn.Server:
    config = uvicorn.Config(
        Bounded(build(service), service.settings.limits, service.calls),
        http=_Protocol, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
        proxy_headers=False, timeout_keep_alive=75, h11_max_incomplete_event_size=_HEAD,
        timeout_graceful_shutdown=_GRACE,
    )  # fmt: skip
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)

    def make_guest(seat: Seat) -> _Protocol:
        guest = _Protocol(config=config, server_state=server.server_state, app_state=server.lifespan.state)
        guest.limits, guest.seat, guest.crowd = service.settings.limits, seat, service.crowd
        return guest

    server.servers = [Listener(each, tls, make_guest, service) for each, tls in sockets]  # type: ignore[misc]
    return server


def _open_sockets(settings: ServiceSettings) -> list[ListeningSocket]:
    sockets: list[ListeningSocket] = []
    path = settings.socket
    if path is not None:
        with name_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            sockets.append((open_listener(Address(path=str(path))), None))
            path.chmod(settings.socket_mode)
    if settings.listen:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        assert settings.certificate is not None
        try:
            tls.load_cert_chain(settings.certificate, settings.key)
        except OSError as error:
            sentence = f"cannot be used as a certificate with key {settings.key}: {describe_tls_error(error)}"
            raise BadInput(str(settings.certificate), sentence) from None
        sockets += [(listener, tls) for listener in _open_listeners(parse_address(settings.listen, "service.listen"))]
    return sockets


def _open_listeners(address: Address) -> list[socket.socket]:
    """Listen at all addresses that the host's name has on this machine, such as 127.0.0.1 and ::1 for localhost."""
    try:
        known = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise CantListen(f"{address}: cannot listen: {why(error)}") from None
    listeners: list[socket.socket] = []
    missing: list[CantListen] = []
    port = address.port
    for host in dict.fromkeys(str(place[0]) for *_, place in known):
        try:
            listeners.append(open_listener(Address(host=host, port=port)))
        except CantListen as error:
            if not isinstance(error.__context__, OSError) or error.__context__.errno == errno.EADDRINUSE:
                for listener in listeners:
                    listener.close()
                raise
            missing.append(error)  # another machine's, or of a protocol that is turned off
            continue
        port = listeners[0].getsockname()[1]  # the same for all, if any free one will do
    if not listeners:
        raise missing[0]
    return listeners


def _address_of(listener: socket.socket) -> str:
    name = listener.getsockname()
    return f"unix:{name}" if isinstance(name, str) else f"https://{Address(host=name[0], port=name[1])}"
