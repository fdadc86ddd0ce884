"""Addresses at which processes of the layer listen: "unix:/run/forebay/ion0" or "host:port"."""

import errno
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forebay.model.errors import BadInput, UserError, why

_LONGEST_PATH = 107
"""Bytes that the system allows in the path of a UNIX socket."""
_BACKLOG = 512


class CantListen(UserError):
    """The address is in use or not available."""


@dataclass(frozen=True, slots=True)
class Address:
    """The path of a UNIX socket, or a host and a port (0: any free port)."""

    path: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, where: str = "address") -> Address:
    """Parse an address; errors begin with `where`.

    >>> parse_address("unix:/run/ion0"), parse_address("[::1]:7000")
    (Address(path='/run/ion0', host='', port=0), Address(path='', host='::1', port=7000))
    """
    if text.startswith("unix:"):
        path = text[5:]
        if not path or "\0" in path:
            raise BadInput(where, "a UNIX socket needs a path, like 'unix:/run/ion0'")
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise BadInput(where, f"the path of a UNIX socket must not exceed {_LONGEST_PATH} bytes: {path!r}")
        return Address(path=path)
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise BadInput(where, f"must be like 'unix:/path' or 'host:7000', not {text!r}")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or not bare.isprintable() or " " in bare:
        raise BadInput(where, f"the host is missing or invalid in {text!r}")
    return Address(host=bare, port=int(port))


def open_listener(address: Address) -> socket.socket:
    """Open a non-blocking socket that listens there; a UNIX socket that a dead process left is replaced."""
    try:
        if address.path:
            with suppress(FileNotFoundError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.setblocking(False)
                if Path(address.path).is_socket() and probe.connect_ex(address.path) == errno.ECONNREFUSED:
                    Path(address.path).unlink()
            family, place = socket.AF_UNIX, address.path
        else:
            resolved = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, place = resolved[0][0], resolved[0][4]  # type: ignore[assignment]
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            if not address.path:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(place)
            sock.listen(_BACKLOG)
            sock.setblocking(False)
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        reason = "the address is in use" if error.errno == errno.EADDRINUSE else f"cannot listen: {why(error)}"
        raise CantListen(f"{address}: {reason}") from None
    return sock


def listener_address(listener: socket.socket) -> Address:
    """The address at which a socket listens, with its real port."""
    name = listener.getsockname()
    return Address(path=os.fsdecode(name)) if isinstance(name, str | bytes) else Address(host=name[0], port=name[1])


def open_socket(address: Address, timeout: float) -> socket.socket:
    """Connect a blocking socket to the address within `timeout` seconds; raises OSError."""
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
    tune_socket(sock)
    return sock


def tune_socket(sock: socket.socket) -> None:
    """Set options: send at once, buffer a request of typical size, and detect peers whose machine has died."""
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    else:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
