"""Everything that a simulation of single requests keeps, as arrays of records.

Whatever takes equally long for all comes out in the order in which it went in: a ring of times and of things is
enough where a heap would be for any delays. So the next event is the earliest of few: the heads of the rings, one
for each server, and two for each I/O node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from forebay.model.kernels import hot_kernel

NEVER = np.iinfo(np.int64).max
MEMORY = 8  # whole numbers that a server's model remembers
QUANTILES = 4096

# Where the next event comes from. Of all I/O nodes the earliest is one source; servers follow, one source each.
FROM_SENT, FROM_BACK, FROM_CLIENTS, FROM_PERIODS, FROM_ENTERS, FROM_WAKES, FROM_SERVERS = range(7)
# Rings of processes: those that start, those that have their answer, and those at the entrance of each I/O node.
STARTS, CLIENTS, ENTRANCE = range(3)
# Rings of messages: sent to servers, sent back, and waiting at each server.
SENT, BACK, WAITING = range(3)


def _whole_numbers(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names])


LAYER = _whole_numbers(
    "nodes", "servers", "lanes", "slots", "stripe",
    "to_client", "to_server", "reading", "writing", "period",  # nanoseconds
    "thinks",  # 1 if any process does
    "now", "left", "end", "served", "rows",
)  # fmt: skip
PROCESS = _whole_numbers(
    "file", "flow",  # the workload that it belongs to
    "base", "step",  # its requests are at base, base + step, ...
    "requests", "size", "write", "node",
    "start",  # the server of its file's first stripe
    "think",  # nanoseconds on average
    "answered", "pending",  # requests; parts of the present one
)  # fmt: skip
# Of each slot of an I/O node: a part of a request, and what its server gets to know of it.
PART = _whole_numbers("owner", "node", "server", "file", "offset", "length", "write")
LANE = _whole_numbers("until", "part")  # of a server: when it is done (NEVER: it is free), with which part
RING = _whole_numbers("head", "filled")
CELL = _whole_numbers("time", "thing")


class State(NamedTuple):
    """All arrays. Kernels take it as one argument and pass it on."""

    layer: Any  # one LAYER
    when: Any  # of each source: when its next event is
    enters: Any  # of each I/O node: when it has taken in a request
    wakes: Any  # and when its scheduler wants to be asked again
    processes: Any
    parts: Any  # by node * slots + slot
    lanes: Any  # [server, lane]
    memories: Any  # [server, MEMORY]: what its model remembers
    present: Any  # [server, node]: parts there; in the last column, nodes that have any
    process_rings: Any
    process_cells: Any  # [ring, place]
    message_rings: Any
    message_cells: Any
    queues: Any  # of each I/O node, see decide/order
    watches: Any  # and profile/request_watch
    rows: Any  # [period, node]: what it saw
    floats: Any  # quantiles of the noise, those of thinking, and the numbers of the servers' model
    chance: Any  # what to draw from


def new_rings(count: int, size: int) -> tuple[Any, Any]:
    """Empty ones with room for at least `size` things each."""
    room = 1 << max(size - 1, 0).bit_length()
    return np.zeros(count, dtype=RING), np.zeros((count, room), dtype=CELL)


@hot_kernel
def earliest(times: Any) -> int:
    """Which of the times is the least; of equal ones the first."""
    best, least = 0, times[0]
    for i in range(1, times.size):
        if times[i] < least:
            best, least = i, times[i]
    return best


@hot_kernel
def set_time(when: Any, source: int, times: Any, node: int, time: int) -> None:
    """An I/O node's next time changes, and with it perhaps the earliest of all, which is the source's."""
    if times[node] != time:
        times[node] = time
        when[source] = times[earliest(times)]


@hot_kernel
def append(rings: Any, cells: Any, which: int, time: int, thing: int) -> int:
    """`thing` comes out of the ring at `time`; returns when its first thing comes out."""
    ring = rings[which]
    cell = cells[which, (ring.head + ring.filled) & (cells.shape[1] - 1)]
    cell.time, cell.thing = time, thing
    ring.filled += 1
    return cells[which, ring.head].time  # type: ignore[no-any-return]


@hot_kernel
def first(rings: Any, cells: Any, which: int) -> int:
    """When the first thing comes out; NEVER without any."""
    return cells[which, rings[which].head].time if rings[which].filled else NEVER


@hot_kernel
def foremost(rings: Any, cells: Any, which: int) -> int:
    """The first thing, which stays."""
    return cells[which, rings[which].head].thing  # type: ignore[no-any-return]


@hot_kernel
def remove(rings: Any, cells: Any, which: int) -> int:
    """The first thing leaves."""
    ring = rings[which]
    thing = cells[which, ring.head].thing
    ring.head = (ring.head + 1) & (cells.shape[1] - 1)
    ring.filled -= 1
    return thing  # type: ignore[no-any-return]


@hot_kernel
def push(rings: Any, cells: Any, which: int, time: int, thing: int) -> int:
    """A ring's cells as a heap: `thing` comes out at `time`, of equal times the lowest thing first."""
    heap, at = cells[which], rings[which].filled
    rings[which].filled += 1
    while at > 0:
        up = (at - 1) >> 1
        if _before(heap[up], time, thing):
            break
        heap[at].time, heap[at].thing = heap[up].time, heap[up].thing
        at = up
    heap[at].time, heap[at].thing = time, thing
    return heap[0].time  # type: ignore[no-any-return]


@hot_kernel
def pop(rings: Any, cells: Any, which: int) -> int:
    """The first thing leaves the heap."""
    heap, size = cells[which], rings[which].filled - 1
    thing, at, down = heap[0].thing, 0, 1
    time, last = heap[size].time, heap[size].thing
    rings[which].filled = size
    while down < size:
        if down + 1 < size and _before(heap[down + 1], heap[down].time, heap[down].thing):
            down += 1
        if not _before(heap[down], time, last):
            break
        heap[at].time, heap[at].thing = heap[down].time, heap[down].thing
        at, down = down, 2 * down + 1
    heap[at].time, heap[at].thing = time, last
    return thing  # type: ignore[no-any-return]


@hot_kernel
def _before(cell: Any, time: int, thing: int) -> bool:
    return cell.time < time or (cell.time == time and cell.thing < thing)  # type: ignore[no-any-return]
