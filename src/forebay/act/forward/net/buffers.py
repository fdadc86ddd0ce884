"""Memory for messages: a pool of buffers in size classes."""

from collections import deque
from collections.abc import Callable

SMALL = 4096
"""Buffers up to this size have no limit, since each connection holds at most one."""
_SLACK = 4096
"""The room for a header in a buffer, beyond a power of two."""


class Buffers:
    """Buffers of 2^k + 4096 bytes; `out` bytes are in use, and `limit` bounds the memory for peers' messages.

    Code that receives a message calls `ask`, and `wait` if that returns None. Code that answers calls `take`, which
    ignores the limit: requests in progress have their own limit, and free memory only when they are answered.
    """

    def __init__(self, limit: int = 256 << 20, *, kept: int = 64 << 20) -> None:
        self.limit = limit
        self.out = 0
        self._kept = kept
        self._idle = 0
        self._free: dict[int, list[memoryview]] = {}
        self._lent: dict[int, int] = {}  # size by the identity of the memory
        self._shared: dict[int, int] = {}  # how often that memory must be returned before it is free
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, length: int) -> memoryview:
        """Lend a buffer of at least `length` bytes; it may hold old content."""
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
        """Lend a buffer, or return None if that would exceed the limit while others are in use."""
        if length > SMALL and self.out and self.out + length > self.limit:
            return None
        return self.take(length)

    def share(self, buffer: memoryview) -> None:
        """Lend a buffer once more, given any view of it: it is free when all who have it have returned it."""
        key = id(buffer.obj)
        self._shared[key] = self._shared.get(key, 1) + 1

    def give(self, buffer: memoryview) -> None:
        """Return a buffer, given any view of it; the caller may not use any view of it afterwards."""
        key = id(buffer.obj)
        if self._shared and key in self._shared:
            self._unshare(key)
            return
        size = self._lent.pop(key, 0)
        if not size:
            raise RuntimeError("a buffer was returned twice or does not belong to this pool")
        self.out -= size
        if self._idle + size <= self._kept:
            self._idle += size
            free = self._free.get(size)
            whole = buffer if len(buffer) == size else memoryview(buffer.obj)
            if free is None:
                self._free[size] = [whole]
            else:
                free.append(whole)
        for _ in range(len(self._waiting)):
            if self.out >= self.limit:
                return
            self._waiting.popleft()()

    def _unshare(self, key: int) -> None:
        self._shared[key] -= 1
        if self._shared[key] == 1:
            del self._shared[key]

    def wait(self, ready: Callable[[], None]) -> None:
        """Call `ready` once, when memory is free again; it should then `ask` again."""
        self._waiting.append(ready)
