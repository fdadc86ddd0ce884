"""The service on its sockets: the one door to uvicorn."""

from __future__ import annotations

import asyncio
import gc
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from forebay.act.control.api import build
from forebay.act.control.auth import peer_of
from forebay.act.control.service import Service
from forebay.act.control.settings import ServiceSettings, privately
from forebay.act.forward.net.address import Address, listening, parse_address
from forebay.act.log import Log
from forebay.history.store import Store, open_store
from forebay.model.errors import BadInput, why

_GRACE = 5  # seconds for answers that are under way at the end
Ready = Callable[[list[str]], None]


class _Protocol(H11Protocol):
    """Knows who is at the other end of a UNIX socket; requests find it in their state."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.app_state = {**self.app_state, "peer": peer_of(transport.get_extra_info("socket"))}


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the business of whoever runs us."""
        yield


async def serve(settings: ServiceSettings, end: asyncio.Event, ready: Ready, *, log: Log | None = None) -> None:
    """Serve until `end` is set. `ready` is told where it listens, once it can answer."""
    with privately():
        store = open_store(settings.db)
    try:
        store.make_durable()
        await _serve(store, settings, end, ready, log or Log(settings.log))
    finally:
        store.close()


async def _serve(store: Store, settings: ServiceSettings, end: asyncio.Event, ready: Ready, log: Log) -> None:
    service = Service(store, settings, log=log)
    listeners = _listeners(settings)  # before all the work, as somebody else may have the address
    try:
        await service.start()
        sys.setswitchinterval(0.0003)  # who writes must not wait 5 ms for its turn whenever there is much to decide
        gc.collect()
        gc.freeze()  # what is there now stays: the collector need not look at it again and again
        gc.set_threshold(20_000, 20, 50)  # grants come by the thousand and have no cycles
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
        service.bells.close()
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


def _server(service: Service, tls: ssl.SSLContext | None) -> _Server:
    config = uvicorn.Config(
        build(service),
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_GRACE,
    )
    config.load()
    config.ssl = tls
    return _Server(config)


def _listeners(settings: ServiceSettings) -> list[tuple[Any, ssl.SSLContext | None]]:
    found: list[tuple[Any, ssl.SSLContext | None]] = []
    if settings.socket is not None:
        found.append((_unix(settings.socket, settings.socket_mode), None))
    if settings.listen:
        tls = _tls(settings)
        found.append((listening(parse_address(settings.listen, "service.listen")), tls))
    return found


def _unix(path: Path, mode: int) -> Any:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        listener = listening(Address(path=str(path)))
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
        raise BadInput(str(settings.certificate), f"is no certificate with key {settings.key}: {error}") from None
    return context


def _told(listener: Any) -> str:
    name = listener.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"https://{host}:{name[1]}"
