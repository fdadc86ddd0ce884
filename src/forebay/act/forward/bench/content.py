"""What the benchmark writes: each byte follows from the seed, the file and the offset, so that none needs to be kept.

A file is one block of chance bytes over and over, begun at another place in each file. The block's length is a
prime, so that no two stripes or requests of a file are alike unless they lie a multiple of it apart; and what is to
be written, or to be compared with, is a slice that costs nothing.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

PERIOD = (1 << 20) + 7
_SPREAD = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio: files begin far from each other
_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Content:
    """The bytes of all files of one seed; `longest` is how many are asked for at once at most.

    >>> content = Content(seed=1, longest=100)
    >>> bytes(content.at(2, 5, 3)) == bytes(content.at(2, 0, 100)[5:8])
    True
    """

    def __init__(self, *, seed: int, longest: int) -> None:
        block = np.random.default_rng(seed).integers(0, 256, PERIOD, dtype=np.uint8)
        self._bytes: NDArray[np.uint8] = np.resize(block, PERIOD + longest)
        self._view = self._bytes.data

    def at(self, file: int, offset: int, length: int) -> memoryview:
        """The `length` bytes of the file from `offset`; not to be changed."""
        start = _start(file, offset)
        return self._view[start : start + length]

    def wrong(self, file: int, offset: int, found: bytes | bytearray | memoryview) -> int | None:
        """Where in the file the first byte lies that is not what was written there, or None."""
        there = np.frombuffer(found, dtype=np.uint8)
        start = _start(file, offset)
        if len(there) == 0 or not _memcmp(self._bytes.ctypes.data + start, there.ctypes.data, len(there)):
            return None
        return offset + int((self._bytes[start : start + len(there)] != there).argmax())


def _start(file: int, offset: int) -> int:
    return ((file * _SPREAD >> 20) + offset) % PERIOD
