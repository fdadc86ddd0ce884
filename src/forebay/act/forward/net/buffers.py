"""Memory for messages: buffers by size, used again and again, and never handed out twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

SMALL = 4096
"""Bytes up to which a buffer is always to be had: each connection holds at most one."""
_SLACK = 4096
"""A class holds a power of two and a header."""


class Buffers:
    """Buffers of 2^k + 4096 bytes; `out` bytes are with their users, of which `limit` is the most for peers' messages.

    Who would give memory to a peer's message asks with `ask`, and waits with `wait` when refused. Who answers takes
    with `take`, which never refuses: what is in work has its own bound, and would never end if it had to wait for
    memory that only its end gives back.
    """

    def __init__(self, limit: int = 256 << 20, *, kept: int = 64 << 20) -> None:
        self.limit = limit
        self.out = 0
        self._kept = kept
        self._idle = 0
        self._free: dict[int, list[memoryview]] = {}
        self._lent: dict[int, int] = {}  # by the identity of the memory: its size
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, length: int) -> memoryview:
        """At least so many bytes; what was in them before may still be there."""
        size = (1 << (length - _SLACK - 1).bit_length()) + _SLACK if length > SMALL else SMALL
        free = self._free.get(size)
        if free:
            buffer = free.pop()
            self._idle -= size
        else:
            buffer = memoryview(bytearray(size))
        self._lent[id(buffer.obj)] = size
        self.out += size
        return buffer

    def ask(self, length: int) -> memoryview | None:
        """As `take`; nothing where that would be more than the limit, unless nobody has any."""
        if length > SMALL and self.out and self.out + length > self.limit:
            return None
        return self.take(length)

    def give(self, buffer: memoryview) -> None:
        """Back, from any view of it; all views of it are dead from here on."""
        size = self._lent.pop(id(buffer.obj), 0)
        if not size:
            raise RuntimeError("a buffer was given back twice, or is from elsewhere")
        self.out -= size
        if self._idle + size <= self._kept:
            self._idle += size
            free = self._free.get(size)
            whole = buffer if len(buffer) == size else memoryview(buffer.obj)
            if free is None:
                self._free[size] = [whole]
            else:
                free.append(whole)
        if self._waiting:
            self._wake()

    def wait(self, ready: Callable[[], None]) -> None:
        """Call `ready` once, when buffers came back; it asks again then."""
        self._waiting.append(ready)

    def _wake(self) -> None:
        for _ in range(len(self._waiting)):
            if self.out >= self.limit:
                return
            self._waiting.popleft()()
