"""Connections to the control service: HTTP over its UNIX socket, or over TLS."""

import http.client
import json
import re
import select
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from forebay.model.errors import BadInput, why

_CONNECT = 5.0  # seconds that a connection may take
Failure = (OSError, http.client.HTTPException)  # raised by a call without an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the service listens: either a `socket` or a `url`."""

    socket: str = ""
    url: str = ""

    def __str__(self) -> str:
        return f"unix:{self.socket}" if self.socket else self.url


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content: bytes

    def document(self) -> Any:
        """The content as JSON; None if it is not JSON."""
        with suppress(ValueError):
            return json.loads(self.content or b"{}")
        return None


class Connections:
    """Connections to one service. Idle connections are reused."""

    def __init__(self, service: Address, tls: ssl.SSLContext | None, headers: Mapping[str, str]) -> None:
        url = urlsplit(service.url)
        self.prefix = url.path
        self._service, self._tls, self._headers = service, tls, headers
        self._host, self._port = url.hostname or "forebay", url.port
        self._idle: list[http.client.HTTPConnection] = []
        self._busy: set[http.client.HTTPConnection] = set()
        self._closed = False

    def send(self, method: str, target: str, content: bytes, headers: Mapping[str, str], seconds: float) -> Answer:
        connection = self._take_idle() or self._connect()
        self._busy.add(connection)
        try:
            connection.sock.settimeout(seconds)
            kind = {"Content-Type": "application/json"} if content else {}
            connection.request(method, self.prefix + target, content or None, {**self._headers, **kind, **headers})
            with connection.getresponse() as response:
                answer = Answer(response.status, response.read())
        except BaseException:
            connection.close()
            raise
        finally:
            self._busy.discard(connection)
        if connection.sock is not None:
            self._idle.append(connection)
        if self._closed:
            self.close()
        return answer

    def _take_idle(self) -> http.client.HTTPConnection | None:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took the last one
                return None
            poll = select.poll()
            poll.register(connection.sock, select.POLLIN)
            if not poll.poll(0):
                return connection
            connection.close()  # the service closed it
        return None

    def _connect(self) -> http.client.HTTPConnection:
        if self._tls:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=_CONNECT, context=self._tls
            )
            connection.connect()
            return connection
        connection = http.client.HTTPConnection(self._host)
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.settimeout(_CONNECT)
            connection.sock.connect(self._service.socket)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close all connections. Pending calls of other threads fail."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()
        for connection in list(self._busy):
            with suppress(OSError, AttributeError):  # it ended meanwhile
                connection.sock.shutdown(socket.SHUT_RDWR)


def tls_context(authority: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if authority is None else str(authority))
    except OSError as error:
        reason = f"cannot be read as a certificate authority (a PEM file): {describe_tls_error(error)}"
        raise BadInput(str(authority), reason) from None


def describe_tls_error(error: OSError) -> str:
    """Say why a certificate or key cannot be read, without what OpenSSL adds for programmers."""
    if isinstance(error, ssl.SSLError):
        return _OPENSSL.sub("", " ".join(str(error.strerror or error).split())) or "not a PEM file"
    return why(error)


def describe_failure(error: BaseException) -> str:
    for kind, reason in ((TimeoutError, "no answer in time"), (FileNotFoundError, "no such socket"),
                         (ConnectionRefusedError, "nothing listens there"), (PermissionError, "permission denied"),
                         (ConnectionError, "the service closed the connection")):  # fmt: skip
        if isinstance(error, kind):
            return reason
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return why(error)
    reason = _OPENSSL.sub("", " ".join(str(error).split())) or type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{reason}; name its authority (--authority, or authority in the agent's file)"
    return reason


_OPENSSL = re.compile(r"\[\w+(?:: \w+)?\] | \(_ssl\.c:\d+\)")
"""What OpenSSL adds to its messages for programmers."""
