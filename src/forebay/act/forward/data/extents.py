"""The parts of a file that have space on the disk."""

import errno
import fcntl
import os
import struct
from collections.abc import Iterator

_GET_EXTENTS = 0xC020660B
"""FS_IOC_FIEMAP, as most machines number it; others refuse it."""
_REQUEST, _EXTENT = struct.Struct("=QQIIII"), struct.Struct("=QQQ16xI12x")
_AT_ONCE = 128
_LAST = 1
"""The flag of the last extent of a file."""


def allocated_bytes(handle: int, offset: int, length: int) -> int:
    """How many bytes of a range of an open file have space, so that writing them needs none."""
    try:
        return sum(_overlaps(_extents(handle, offset, offset + length), offset, offset + length))
    except OSError:  # tmpfs has no list of extents
        return sum(_overlaps(_data(handle, offset, offset + length), offset, offset + length))


def _overlaps(ranges: Iterator[tuple[int, int]], begin: int, end: int) -> Iterator[int]:
    for first, last in ranges:
        yield max(min(last, end) - max(first, begin), 0)


def _extents(handle: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Parts that have space, also those that were never written."""
    while begin < end:
        request = bytearray(_REQUEST.pack(begin, end - begin, 0, 0, _AT_ONCE, 0)) + bytes(_AT_ONCE * _EXTENT.size)
        fcntl.ioctl(handle, _GET_EXTENTS, request)
        count = _REQUEST.unpack_from(request)[3]
        for number in range(count):
            first, _, length, flags = _EXTENT.unpack_from(request, _REQUEST.size + number * _EXTENT.size)
            yield first, first + length
            begin = first + length
        if count < _AT_ONCE or flags & _LAST:
            return


def _data(handle: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Parts that were written."""
    while begin < end:
        try:
            first = os.lseek(handle, begin, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing more
                return
            raise
        begin = os.lseek(handle, first, os.SEEK_HOLE)
        yield first, begin
