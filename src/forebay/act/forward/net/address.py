"""Where a part of the layer listens: "unix:/run/forebay/ion0" or "host:port"."""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass

from forebay.model.errors import BadInput, UserError, why

_LONGEST_PATH = 107
"""Bytes that the system allows in the path of a UNIX socket."""
_WAITING = 512


class CantListen(UserError):
    """An address that can't be had; the message is one line."""


@dataclass(frozen=True, slots=True)
class Address:
    """A UNIX socket where there is a path, else a host and a port (0: any free one)."""

    path: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, where: str = "address") -> Address:
    """The address; `where` is what an error calls the place it stands in.

    >>> parse_address("unix:/run/ion0"), parse_address("[::1]:7000")
    (Address(path='/run/ion0', host='', port=0), Address(path='', host='::1', port=7000))
    """
    if text.startswith("unix:"):
        return Address(path=_checked_path(text[5:], where))
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise BadInput(where, f"must be like 'unix:/path' or 'host:7000', not {text!r}")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or not bare.isprintable() or " " in bare:
        raise BadInput(where, f"{text!r} has no host")
    return Address(host=bare, port=int(port))


def listening(address: Address) -> socket.socket:
    """A non-blocking socket that listens there; a UNIX socket whose listener is dead is taken over."""
    try:
        return _unix(address) if address.path else _tcp(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CantListen(f"{address}: the address is in use") from None
        raise CantListen(f"{address}: can't listen: {why(error)}") from None


def bound(listener: socket.socket) -> Address:
    """Where a socket listens, with the port that it got."""
    name = listener.getsockname()
    return Address(path=os.fsdecode(name)) if isinstance(name, str | bytes) else Address(host=name[0], port=name[1])


def connected(address: Address, timeout: float) -> socket.socket:
    """A blocking socket to the address, within so many seconds for the connection; raises OSError."""
    if address.path:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout)
            sock.connect(address.path)
        except BaseException:
            sock.close()
            raise
    else:
        sock = socket.create_connection((address.host, address.port), timeout)
    tune(sock)
    return sock


def tune(sock: socket.socket) -> None:
    """Answers go out at once, a request of usual size fits into the socket, and a machine that vanished is noticed."""
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    else:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 1 << 20)


def _checked_path(path: str, where: str) -> str:
    if not path or "\0" in path:
        raise BadInput(where, "a UNIX socket needs a path, like 'unix:/run/ion0'")
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise BadInput(where, f"the path of a UNIX socket may have {_LONGEST_PATH} bytes: {path!r} is longer")
    return path


def _tcp(address: Address) -> socket.socket:
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, place = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return _opened(sock, place)
    except BaseException:
        sock.close()
        raise


def _unix(address: Address) -> socket.socket:
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(address.path).st_mode) and _is_dead(address.path):  # noqa: PTH116
            os.unlink(address.path)  # noqa: PTH108
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        return _opened(sock, address.path)
    except BaseException:
        sock.close()
        raise


def _opened(sock: socket.socket, place: object) -> socket.socket:
    sock.bind(place)  # type: ignore[arg-type]
    sock.listen(_WAITING)
    sock.setblocking(False)
    return sock


def _is_dead(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(path) == errno.ECONNREFUSED
