"""Memory for messages: a pool of buffers in size classes."""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

SMALL = 4096
"""Buffers up to this size have no limit, since each connection holds at most one."""
_SLACK = 4096
"""The room for a header in a buffer, beyond a power of two."""


class _Memory(bytearray):
    """The memory of one buffer; it is free when each of its `users` has returned it."""

    __slots__ = ("users",)
    users: int


class Buffers:
    """Buffers of 2^k + 4096 bytes; `out` bytes are in use, and `limit` bounds the memory for peers' messages.

    Code that receives a message calls `ask`, and `wait` if that returns None. Code that answers calls `take`, which
    ignores the limit: requests in progress have their own limit, and free memory only when they are answered.
    """

    def __init__(self, limit: int = 256 << 20, *, kept: int = 64 << 20) -> None:
        self.limit = limit
        self.out = 0
        self._kept = kept
        self._bytes = 0  # of all buffers, in use or free
        self._free: defaultdict[int, list[memoryview]] = defaultdict(list)
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, length: int) -> memoryview:
        """Lend a buffer of at least `length` bytes; it may hold old content."""
        size = (1 << (length - _SLACK - 1).bit_length()) + _SLACK if length > SMALL else SMALL
        free = self._free[size]
        if free:
            buffer = free.pop()
        else:
            buffer = memoryview(_Memory(size))
            self._bytes += size
        buffer.obj.users = 1  # type: ignore[attr-defined]
        self.out += size
        return buffer

    def ask(self, length: int) -> memoryview | None:
        """Lend a buffer, or return None if that would exceed the limit while others are in use."""
        if length > SMALL and self.out and self.out + length > self.limit:
            return None
        return self.take(length)

    def share(self, buffer: memoryview) -> None:
        """Lend a buffer once more, given any view of it: it is free when all who have it have returned it."""
        buffer.obj.users += 1  # type: ignore[attr-defined]

    def give(self, buffer: memoryview) -> None:
        """Return a buffer, given any view of it; the caller may not use any view of it afterwards."""
        memory: Any = buffer.obj
        users = memory.users - 1 if type(memory) is _Memory else -1
        if users:
            if users < 0:
                raise RuntimeError("a buffer was returned twice or does not belong to this pool")
            memory.users = users
            return
        memory.users = 0
        size = len(memory)
        self.out -= size
        if self._bytes - self.out <= self._kept:
            self._free[size].append(buffer if len(buffer) == size else memoryview(memory))
        else:
            self._bytes -= size
        if self._waiting:
            self._wake()

    def wait(self, ready: Callable[[], None]) -> None:
        """Call `ready` once, when memory is free again; it should then `ask` again."""
        self._waiting.append(ready)

    def _wake(self) -> None:
        for _ in range(len(self._waiting)):
            if self.out >= self.limit:
                return
            self._waiting.popleft()()
