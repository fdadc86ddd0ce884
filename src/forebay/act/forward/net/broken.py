"""Tells of sockets with an error, which a loop may not.

libuv tells once of a socket that has an error (a peer that went before it had read all it was sent leaves one), and
never again. Whoever finds other bytes there first, and waits for more, would wait for ever. So errors are watched for
here.
"""

from __future__ import annotations

import select
from asyncio import AbstractEventLoop
from collections.abc import Callable
from weakref import WeakKeyDictionary


class Broken:
    """The sockets of one loop. Holds a descriptor only while it watches any."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._told: dict[int, Callable[[], None]] = {}
        self._epoll: select.epoll | None = None

    def watch(self, descriptor: int, told: Callable[[], None]) -> None:
        """Call `told` when the socket has an error; until `forget`."""
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._look)
        self._told[descriptor] = told
        # Errors are always told of; at the edge, since a peer that has hung up is told of too, and is no error.
        self._epoll.register(descriptor, select.EPOLLET)

    def forget(self, descriptor: int) -> None:
        if self._epoll is None or self._told.pop(descriptor, None) is None:
            return
        self._epoll.unregister(descriptor)
        if not self._told:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _look(self) -> None:
        for descriptor, events in self._epoll.poll(0) if self._epoll is not None else ():
            told = self._told.get(descriptor)
            if told is not None and events & select.EPOLLERR:
                told()


_of: WeakKeyDictionary[AbstractEventLoop, Broken] = WeakKeyDictionary()


def broken(loop: AbstractEventLoop) -> Broken:
    """That of a loop."""
    if loop not in _of:
        _of[loop] = Broken(loop)
    return _of[loop]
