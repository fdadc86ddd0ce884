"""Ports for servers that must be told theirs."""

import random
import socket
from contextlib import ExitStack, suppress

_PORTS = (20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on, below those that the system gives to anybody who calls."""
    with ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            port = random.SystemRandom().randrange(*_PORTS)
            door = stack.enter_context(socket.socket())
            with suppress(OSError):
                door.bind(("127.0.0.1", port))
                found.append(port)
        return found
