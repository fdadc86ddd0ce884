"""Times of files: nanoseconds since 1970, in 64 bits."""

FIRST, LAST = -(1 << 63), (1 << 63) - 1
"""In the years 1677 and 2262."""


def clamp_time(time: int) -> int:
    """The nearest time that a shared file system can store, as local file systems choose it.

    >>> clamp_time(LAST + 1) == LAST
    True
    """
    return max(FIRST, min(time, LAST))
