"""The service on its sockets. Only this module uses uvicorn."""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from forebay.act.control.api.app import build
from forebay.act.control.api.limits import Bounded, Crowd, Seat, error_body, room_for
from forebay.act.control.api.listener import Listener
from forebay.act.control.api.proxies import Proxies
from forebay.act.control.api.request_counts import Counted
from forebay.act.control.auth.callers import peer_of
from forebay.act.control.errors import ErrorCode
from forebay.act.control.page.files import NO_PAGES, Pages
from forebay.act.control.service.service import Service
from forebay.act.control.service.settings import Limits, ServiceSettings, make_private, private_files
from forebay.act.forward.net.address import Address, open_listener, parse_address
from forebay.act.log import Log
from forebay.history.store import Store, open_store
from forebay.model.compile_hooks import hooks
from forebay.model.errors import BadInput, why

_HEAD = 16_384  # bytes of a request's head
_GRACE = 5  # seconds for answers that are under way at the end
Ready = Callable[[list[str]], None]


class _Patience:
    """Ends after so many seconds, unless what it waits for comes first. To begin again does not lengthen it."""

    def __init__(self, seconds: float, then: Callable[[], None]) -> None:
        self._seconds, self._then = seconds, then
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._then)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Protocol(H11Protocol):
    """One connection. It knows who is at the other end of a UNIX socket; requests find it in their state.

    A caller that does not send what it began, or does not take what it asked for, is cut off.
    """

    limits: Limits
    seat: Seat
    crowd: Crowd

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.app_state = {**self.app_state, "peer": peer_of(transport.get_extra_info("socket")), "seat": self.seat}
        self._sends = _Patience(self.limits.send, self._cut_off)
        self._takes = _Patience(self.limits.take, self._cut_off)
        self._sends.begin()

    def _cut_off(self) -> None:
        self.crowd.dropped["slow"] += 1
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.seat.leave()
        self._sends.end()
        self._takes.end()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._sends.end()
        else:
            self._sends.begin()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._takes.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._takes.end()

    def send_400_response(self, msg: str) -> None:
        """In our own words, and as all errors."""
        del msg
        body = error_body(ErrorCode.MALFORMED, f"not an HTTP request, or its head is longer than {_HEAD} bytes")
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            with suppress(h11.LocalProtocolError):  # an answer was on its way already
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class _Server(uvicorn.Server):
    """Lets callers in by doors of our own."""

    crowd: Crowd
    service: Service

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the business of whoever runs us."""
        yield

    async def startup(self, sockets: Sequence[Any] | None = None) -> None:
        await self.lifespan.startup()
        settings, tls = self.service.settings, self._tls()
        always = frozenset({os.getuid(), *settings.administrators})
        how: dict[str, Any] = {"tls": tls, "always": always, "proxies": Proxies(settings.proxies)}
        doors = [Listener(one, self._guest, self.crowd, settings.limits, **how) for one in sockets or ()]
        self.servers = doors  # type: ignore[assignment]
        self.started = True

    def _tls(self) -> ssl.SSLContext | None:
        found = self.config.ssl
        return found if isinstance(found, ssl.SSLContext) else None

    def _guest(self, seat: Seat) -> _Protocol:
        guest = _Protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        guest.limits, guest.seat, guest.crowd = self.service.settings.limits, seat, self.crowd
        return guest


async def serve(
    settings: ServiceSettings, end: asyncio.Event, ready: Ready, *, log: Log | None = None, pages: Pages = NO_PAGES
) -> None:
    """Serve until `end` is set. `ready` is told where it listens, once it can answer. `pages` is the page at `/`."""
    with private_files():
        store = open_store(settings.db)
    try:
        make_private(store)
        store.make_durable()
        await _serve(store, settings, end, ready, log or Log(settings.log), pages)
    finally:
        store.close()


async def _serve(
    store: Store, settings: ServiceSettings, end: asyncio.Event, ready: Ready, log: Log, pages: Pages
) -> None:
    service = Service(store, settings, log=log, pages=pages)
    listeners = _listeners(settings)  # before all the work, as somebody else may have the address
    if not sys.stderr.isatty():
        _log_compiling(log)
    try:
        await service.start()
        sys.setswitchinterval(0.0003)  # who writes must not wait 5 ms for its turn whenever there is much to decide
        gc.collect()
        gc.freeze()  # what is there now stays: the collector need not look at it again and again
        gc.set_threshold(2_000, 5, 1_000)  # often, so never for long; grants have no cycles, so hardly ever all of them
        service.crowd.most = room_for(settings.limits.connections)
        servers = [_server(service, tls) for _, tls in listeners]
        running = [
            asyncio.create_task(server.serve(sockets=[listener]))
            for server, (listener, _) in zip(servers, listeners, strict=True)
        ]
        while not all(server.started for server in servers):
            await asyncio.sleep(0.005)
            if any(task.done() for task in running):
                raise BadInput("service", "can't listen")
        told = [_told(listener) for listener, _ in listeners]
        log.info("ready", listening=told, store=store.where)
        ready(told)
        await end.wait()
        service.changes.close()
        for server in servers:
            server.should_exit = True
        await asyncio.gather(*running)
    finally:
        await service.stop()
        for listener, _ in listeners:
            listener.close()
        if settings.socket is not None:
            with suppress(OSError):
                settings.socket.unlink()
    log.info("ended")


def _log_compiling(log: Log) -> None:
    """One line of the log, at the first kernel."""

    def say_once(_kernel: str) -> None:
        hooks.before = hooks.after
        log.info("compiling for this machine", why="first start of this version; takes up to a minute")

    hooks.before = say_once


def _server(service: Service, tls: ssl.SSLContext | None) -> _Server:
    config = uvicorn.Config(
        Counted(Bounded(build(service), service.settings.limits), service.calls),
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        h11_max_incomplete_event_size=_HEAD,
        timeout_graceful_shutdown=_GRACE,
    )
    config.load()
    config.ssl = tls
    server = _Server(config)
    server.service, server.crowd = service, service.crowd
    return server


def _listeners(settings: ServiceSettings) -> list[tuple[Any, ssl.SSLContext | None]]:
    found: list[tuple[Any, ssl.SSLContext | None]] = []
    if settings.socket is not None:
        found.append((_unix(settings.socket, settings.socket_mode), None))
    if settings.listen:
        tls = _tls(settings)
        found.append((open_listener(parse_address(settings.listen, "service.listen")), tls))
    return found


def _unix(path: Path, mode: int) -> Any:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        listener = open_listener(Address(path=str(path)))
        path.chmod(mode)
    except OSError as error:
        raise BadInput(str(path), why(error)) from None
    return listener


def _tls(settings: ServiceSettings) -> ssl.SSLContext:
    assert settings.certificate is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.certificate, settings.key)
    except (OSError, ssl.SSLError) as error:
        raise BadInput(str(settings.certificate), f"is not a certificate with key {settings.key}: {error}") from None
    return context


def _told(listener: Any) -> str:
    name = listener.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"https://{host}:{name[1]}"
