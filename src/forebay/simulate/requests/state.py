"""Everything that a simulation of single requests keeps, in one array of whole numbers.

Whatever takes equally long for all comes out in the order in which it went in: a line (a ring of times and of
things) is enough where a heap would be for any delays. So the next event is the earliest of few: the heads of the
lines, one for each server, and two for each I/O node.

One array, because a compiled function that is given many counts references to each of them on every call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.model.kernels import kernel

NEVER = np.iinfo(np.int64).max

# The array begins with numbers of the whole,
NODES, SERVERS, LANES, SLOTS, STRIPE, TO_CLIENT, TO_SERVER, INGRESS, INGRESS_WRITE, PERIOD, THINKS = range(11)
NOW, LEFT, END, SERVED, ROWS = range(11, 16)
# then says where the rest is: rows of PROCESS, PART (by node * slots + slot), rings, what servers do, what they
# remember, which I/O nodes have how many parts there (at last: how many nodes have any).
PROCESSES, PARTS, SENT, BACK, STARTS, CLIENTS, ENTRANCE, WAITING, SERVING, MEMORIES, PRESENT = range(16, 27)
# When each I/O node has taken in a request, and when its scheduler wants to be asked again.
ENTERS, WAKES = 27, 28
ENTRANCE_SIZE, WAITING_SIZE, SOURCES = 29, 30, 31
# Then come the times of the next event of each source; of all I/O nodes the earliest is one source.
WHEN = 32
FROM_SENT, FROM_BACK, FROM_CLIENTS, FROM_PERIODS, FROM_ENTERS, FROM_WAKES, FROM_SERVERS = range(7)

# Of each process: the file, the workload that it belongs to; offsets base, base + step, ... of its requests of a
# size; its I/O node; the server of the file's first stripe; the mean time that it thinks (nanoseconds); how many
# requests were answered, and how many parts of the present one were not.
FILE, FLOW, BASE, STEP, REQUESTS, SIZE, WRITE, NODE, START, THINK, ANSWERED, PENDING, PROCESS = range(13)

# Of each part of a request (a slot of the I/O node): whose it is, where it is, and what a server is told of it.
OWNER, AT_NODE, AT_SERVER, OF_FILE, OFFSET, LENGTH, WRITES, PART = range(8)

# Of each lane of a server: when it is done (NEVER: it is free), with which part.
UNTIL, WITH, LANE = range(3)

# A ring: the place of its first thing, how many are in it, its size less 1 (a power of two); times and things.
HEAD, FILLED, MASK, RING = range(4)

MEMORY = 8
QUANTILES = 4096


def new_ring(size: int) -> Any:
    """An empty one with room for at least `size` things."""
    room = 1 << max(size - 1, 0).bit_length()
    ring = np.zeros(RING + 2 * room, dtype=np.int64)
    ring[MASK] = room - 1
    return ring


@kernel
def earliest(s: Any, times: int, count: int) -> int:
    """Which of `count` times that begin at `times` is the least; of equal ones the first."""
    found, least = 0, s[times]
    for i in range(1, count):
        if s[times + i] < least:
            found, least = i, s[times + i]
    return found


@kernel
def set_time(s: Any, times: int, source: int, node: int, time: int) -> None:
    """An I/O node's next time is another: `source` is the earliest of all."""
    if s[times + node] != time:
        s[times + node] = time
        least = s[times]
        for i in range(1, s[NODES]):
            least = min(least, s[times + i])
        s[WHEN + source] = least


@kernel
def append(s: Any, ring: int, time: int, thing: int) -> int:
    """`thing` comes out of the ring that begins at `ring`, at `time`; returns when the first comes out."""
    at = ring + RING + 2 * ((s[ring + HEAD] + s[ring + FILLED]) & s[ring + MASK])
    s[at], s[at + 1] = time, thing
    s[ring + FILLED] += 1
    return s[ring + RING + 2 * s[ring + HEAD]]  # type: ignore[no-any-return]


@kernel
def first(s: Any, ring: int) -> int:
    """When the first thing comes out; NEVER without any."""
    return s[ring + RING + 2 * s[ring + HEAD]] if s[ring + FILLED] else NEVER


@kernel
def foremost(s: Any, ring: int) -> int:
    """The first thing, which stays."""
    return s[ring + RING + 2 * s[ring + HEAD] + 1]  # type: ignore[no-any-return]


@kernel
def remove(s: Any, ring: int) -> int:
    """The first thing leaves."""
    thing = foremost(s, ring)
    s[ring + HEAD] = (s[ring + HEAD] + 1) & s[ring + MASK]
    s[ring + FILLED] -= 1
    return thing


@kernel
def push(s: Any, heap: int, time: int, thing: int) -> int:
    """A ring's cells as a heap: `thing` comes out at `time`, of equal times the lowest thing first."""
    cells, at = heap + RING, s[heap + FILLED]
    s[heap + FILLED] += 1
    while at > 0:
        up = (at - 1) >> 1
        if _before(s, cells + 2 * up, time, thing):
            break
        s[cells + 2 * at], s[cells + 2 * at + 1] = s[cells + 2 * up], s[cells + 2 * up + 1]
        at = up
    s[cells + 2 * at], s[cells + 2 * at + 1] = time, thing
    return s[cells]  # type: ignore[no-any-return]


@kernel
def pop(s: Any, heap: int) -> int:
    """The first thing leaves the heap."""
    cells, size = heap + RING, s[heap + FILLED] - 1
    thing, at, down = s[cells + 1], 0, 1
    time, last = s[cells + 2 * size], s[cells + 2 * size + 1]
    s[heap + FILLED] = size
    while down < size:
        right = cells + 2 * down + 2
        if down + 1 < size and _before(s, right, s[right - 2], s[right - 1]):
            down += 1
        if not _before(s, cells + 2 * down, time, last):
            break
        s[cells + 2 * at], s[cells + 2 * at + 1] = s[cells + 2 * down], s[cells + 2 * down + 1]
        at, down = down, 2 * down + 1
    s[cells + 2 * at], s[cells + 2 * at + 1] = time, last
    return thing  # type: ignore[no-any-return]


@kernel
def _before(s: Any, cell: int, time: int, thing: int) -> bool:
    return s[cell] < time or (s[cell] == time and s[cell + 1] < thing)  # type: ignore[no-any-return]
