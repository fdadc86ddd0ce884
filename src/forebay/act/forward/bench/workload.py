"""The access patterns of MPI-IO Test and FORGE: which bytes each process uses, and their content."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from forebay.model.errors import BadInput, UnknownName

MOST_PROCESSES = 1024
Pattern = Literal["file-per-process", "shared-contiguous", "shared-strided"]
Direction = Literal["read", "write"]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)
DOINGS: dict[str, tuple[Direction, ...]] = {"read": ("read",), "write": ("write",), "both": ("write", "read")}
"""What processes do, in order, by the name of the operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """All processes together move `total` bytes, each the same amount, in requests of `request` bytes."""

    processes: int
    pattern: Pattern
    request: int
    total: int

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise UnknownName("pattern", self.pattern, PATTERNS)
        if not 1 <= self.processes <= MOST_PROCESSES:
            raise BadInput("--processes", f"must be between 1 and {MOST_PROCESSES}, not {self.processes}")
        if self.request < 1:
            raise BadInput("--request", "must be at least one byte")
        if self.total < self.processes * self.request:
            raise BadInput(
                "--total", f"must be at least {self.processes * self.request} bytes, one request per process"
            )

    @property
    def files(self) -> int:
        return self.processes if self.pattern == "file-per-process" else 1

    @property
    def requests(self) -> int:
        """Requests of each process."""
        return self.total // (self.processes * self.request)

    @property
    def bytes(self) -> int:
        """Bytes really moved: those of the whole requests that fit into the total."""
        return self.processes * self.requests * self.request

    def file(self, process: int) -> int:
        """The number of the file that a process uses."""
        return process if self.pattern == "file-per-process" else 0

    def offsets(self, process: int) -> Iterator[int]:
        """Where its requests begin, in order.

        >>> list(Workload(processes=2, pattern="shared-strided", request=10, total=40).offsets(1))
        [10, 30]
        """
        size, count = self.request, self.requests
        if self.pattern == "shared-strided":
            return iter(range(process * size, self.processes * count * size, self.processes * size))
        start = process * count * size if self.pattern == "shared-contiguous" else 0
        return iter(range(start, start + count * size, size))


PERIOD = (1 << 20) + 7
_SPREAD = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio, so that files begin far from each other
_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Content:
    """The content of all files of one seed; `longest` is the length of the longest slice that is used.

    A file repeats one block of random bytes, and begins at its own place in it. The length of the block is a prime, so
    stripes or requests of a file differ unless they are a multiple of it apart. Any range is a slice, without a copy.

    >>> content = Content(seed=1, longest=100)
    >>> bytes(content.at(2, 5, 3)) == bytes(content.at(2, 0, 100)[5:8])
    True
    """

    def __init__(self, *, seed: int, longest: int) -> None:
        block = np.random.default_rng(seed).integers(0, 256, PERIOD, dtype=np.uint8)
        self._bytes: NDArray[np.uint8] = np.resize(block, PERIOD + longest)
        self._view = self._bytes.data

    def at(self, file: int, offset: int, length: int) -> memoryview:
        """The `length` bytes of the file from `offset`; do not change them."""
        start = _start(file, offset)
        return self._view[start : start + length]

    def find_wrong_byte(self, file: int, offset: int, data: bytes | bytearray | memoryview) -> int | None:
        """The offset of the first byte that differs from what was written, or None."""
        there = np.frombuffer(data, dtype=np.uint8)
        start = _start(file, offset)
        if len(there) == 0 or not _memcmp(self._bytes.ctypes.data + start, there.ctypes.data, len(there)):
            return None
        return offset + int((self._bytes[start : start + len(there)] != there).argmax())


def _start(file: int, offset: int) -> int:
    return ((file * _SPREAD >> 20) + offset) % PERIOD
