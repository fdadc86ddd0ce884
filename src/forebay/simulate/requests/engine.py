"""Single requests in virtual time: from a client to its I/O node, to servers, and back.

The state is arrays of records (`State`, `s` below). Entries with the same delay leave in the order of arrival, so a
ring buffer of times and entries replaces a heap. The next event is the earliest of a few: the heads of the rings, one
per server, and two per I/O node. `choose` and `time` are None, or the user's `take` and server model.
"""

from typing import NamedTuple

import numpy as np

from forebay.decide.order.queue import arrive, complete, follower, take
from forebay.decide.order.queue_layout import WAKE
from forebay.model.kernels import Array, hot_kernel
from forebay.model.layout import MOST_PIECE
from forebay.model.random_numbers import draw
from forebay.profile.request_watch import finish, observe, tally
from forebay.simulate import tournament
from forebay.simulate.requests.servers import built_in

NEVER = np.iinfo(np.int64).max
MEMORY = 8  # whole numbers that a server model can remember
QUANTILES = 4096

# The sources of events. All I/O nodes share a source; each server is a source of its own, after the others.
FROM_SENT, FROM_BACK, FROM_CLIENTS, FROM_PERIODS, FROM_ENTERS, FROM_WAKES, FROM_SERVERS = range(7)
# Rings of processes: starting, with an answer on its way, and at the entrance of each I/O node.
STARTS, CLIENTS, ENTRANCE = range(3)
# Rings of messages: sent to servers, sent back, and waiting at each server.
SENT, BACK, WAITING = range(3)


def _whole_numbers(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names])


LAYER = _whole_numbers(
    "nodes", "servers", "lanes", "slots", "stripe",
    "to_client", "to_server", "reading", "writing", "period",  # nanoseconds
    "thinks",  # 1 if any process thinks
    "now", "left", "end", "served", "rows",
)  # fmt: skip
PROCESS = _whole_numbers(
    "file", "flow",  # the workload that it belongs to
    "base", "step",  # its requests are at base, base + step, ...
    "requests", "size", "write", "node",
    "start",  # the server of its file's first stripe
    "think",  # nanoseconds on average
    "answered", "pending",  # requests; parts of the current request
)  # fmt: skip
# A part of a request in a slot of an I/O node, with what its server sees.
PART = _whole_numbers("owner", "node", "server", "file", "offset", "length", "write")
LANE = _whole_numbers("until", "part")  # of a server: its part, and when it is done (NEVER: free)
RING = _whole_numbers("head", "filled")
CELL = _whole_numbers("time", "entry")


class State(NamedTuple):
    """All arrays. Kernels take them as one argument."""

    layer: Array  # one LAYER
    when: Array  # time of the next event of each source
    enters: Array  # when each I/O node has accepted its next request
    wakes: Array  # when the scheduler of each I/O node asks to be called again
    processes: Array
    parts: Array  # by node * slots + slot
    lanes: Array  # [server, lane]
    memories: Array  # [server, MEMORY]: memory of the server models
    present: Array  # [server, node]: parts present; the last column counts nodes that have any
    process_rings: Array
    process_cells: Array  # [ring, place]
    message_rings: Array
    message_cells: Array
    queues: Array  # of each I/O node, see decide/order
    watches: Array  # of each I/O node, see profile/request_watch
    rows: Array  # [period, node]: observations
    floats: Array  # quantiles of noise and of think times, and the numbers of the server model
    chance: Array  # the random state


def new_rings(count: int, size: int) -> tuple[Array, Array]:
    """Return empty rings with room for at least `size` entries each."""
    room = 1 << max(size - 1, 0).bit_length()
    return np.zeros(count, dtype=RING), np.zeros((count, room), dtype=CELL)


@hot_kernel
def advance(choose: Array, time: Array, s: Array, until: int) -> None:
    """Process all events up to and including `until`."""
    layer, when = s.layer[0], s.when
    while layer.left > 0:
        source = earliest(when)
        now = when[source]
        if now > until:
            return
        layer.now = now
        if source >= FROM_SERVERS:
            _serve(time, s, now, source - FROM_SERVERS)
        elif source == FROM_SENT:
            _reach_server(time, s, now)
        elif source == FROM_BACK:
            _come_back(choose, s, now)
        elif source == FROM_CLIENTS:
            _reach_node(s, now)
        elif source == FROM_ENTERS:
            _enter(choose, s, now, earliest(s.enters))
        elif source == FROM_WAKES:
            _pump(choose, s, now, earliest(s.wakes))
        else:
            end_period(s, now)
            waiting = 0  # if only periods remain, a scheduler holds requests back for ever
            for other in range(when.size):
                waiting += other != FROM_PERIODS and when[other] != NEVER
            if waiting == 0:
                return


@hot_kernel
def start(s: Array, now: int, process: int) -> None:
    """Start a process. Call this in the order of time, before any other event."""
    layer = s.layer[0]
    if layer.thinks:
        set_off(s, now, process)
    else:
        # In a separate ring: processes with an answer may overtake those that start late.
        s.when[FROM_CLIENTS] = append(s.process_rings, s.process_cells, STARTS, now + layer.to_client, process)


@hot_kernel
def set_off(s: Array, now: int, process: int) -> None:
    """Let a process think, then send its next request."""
    layer, rings, cells = s.layer[0], s.process_rings, s.process_cells
    time = now + layer.to_client
    if layer.thinks == 0:
        s.when[FROM_CLIENTS] = min(append(rings, cells, CLIENTS, time, process), first(rings, cells, STARTS))
        return
    think = s.processes[process].think
    if think > 0:
        time += int(think * s.floats[QUANTILES + draw(s.chance, QUANTILES)])
    s.when[FROM_CLIENTS] = _let_think(cells[CLIENTS], process, time)


# Think times differ, so processes overtake each other: the cells are a tournament instead of a ring.
@hot_kernel
def _let_think(cells: Array, process: int, until: int) -> int:
    """Schedule the next request of a process at `until`. Return the earliest time of all processes."""
    tournament.put(cells.time, 0, cells.size // 2, process, until)
    return cells[1].time  # type: ignore[no-any-return]


@hot_kernel
def _reach_node(s: Array, now: int) -> None:
    """Queue a client's request at its I/O node until the node has accepted those before it."""
    layer, rings, cells = s.layer[0], s.process_rings, s.process_cells
    if layer.thinks == 0:
        process = remove(rings, cells, STARTS if first(rings, cells, STARTS) == now else CLIENTS)
        s.when[FROM_CLIENTS] = min(first(rings, cells, CLIENTS), first(rings, cells, STARTS))
    else:
        process = tournament.first(cells[CLIENTS].time, 0, cells.shape[1] // 2)
        s.when[FROM_CLIENTS] = _let_think(cells[CLIENTS], process, NEVER)
    node = s.processes[process].node
    append(rings, cells, ENTRANCE + node, now, process)
    if rings[ENTRANCE + node].filled == 1:
        set_time(s.when, FROM_ENTERS, s.enters, node, now + _ingress(layer, s.processes[process]))


@hot_kernel
def _ingress(layer: Array, process: Array) -> int:
    """Return how long an I/O node takes to accept a request of the process."""
    return layer.writing if process.write else layer.reading  # type: ignore[no-any-return]


@hot_kernel
def _enter(choose: Array, s: Array, now: int, node: int) -> None:
    """Accept a request: split it, and queue its parts for their servers."""
    rings, cells, next_one = s.process_rings, s.process_cells, NEVER
    number = remove(rings, cells, ENTRANCE + node)
    if rings[ENTRANCE + node].filled:
        next_one = now + _ingress(s.layer[0], s.processes[foremost(rings, cells, ENTRANCE + node)])
    set_time(s.when, FROM_ENTERS, s.enters, node, next_one)
    process = s.processes[number]
    offset = process.base + process.step * process.answered
    observe(s.watches[node], now, process.file, offset, process.size, process.write)
    _split(s, now, node, number, offset)
    _pump(choose, s, now, node)


@hot_kernel
def _split(s: Array, now: int, node: int, number: int, offset: int) -> None:
    """Queue the parts of a request: its stripes at one server are contiguous there, so they are parts together."""
    layer, process = s.layer[0], s.processes[number]
    stripe, servers, end = layer.stripe, layer.servers, offset + process.size
    first, last = offset // stripe, (end - 1) // stripe
    for begin in range(first, min(first + servers, last + 1)):
        server = (process.start + begin) % servers
        within = offset - begin * stripe if begin == first else 0
        at, length = begin // servers * stripe + within, min(end - begin * stripe, stripe) - within
        for index in range(begin + servers, last + 1, servers):
            more = min(end - index * stripe, stripe)
            if length + more > MOST_PIECE:
                _queue_part(s, now, node, number, server, at, length)
                at, length = at + length, 0
            length += more
        _queue_part(s, now, node, number, server, at, length)


@hot_kernel
def _queue_part(s: Array, now: int, node: int, number: int, server: int, offset: int, length: int) -> None:
    layer, process = s.layer[0], s.processes[number]
    slot = arrive(s.queues[node], now, server, process.file, process.flow, offset, length, process.write)
    part = s.parts[node * layer.slots + slot]
    part.owner, part.node, part.server, part.file = number, node, server, process.file
    part.offset, part.length, part.write = offset, length, process.write
    process.pending += 1


@hot_kernel
def _pump(choose: Array, s: Array, now: int, node: int) -> None:
    """Send what the scheduler of the I/O node allows."""
    layer, queue, parts = s.layer[0], s.queues[node], s.parts
    base = node * layer.slots
    slot = take(queue, now) if choose is None else choose(queue, now)
    while slot >= 0:
        more = follower(queue, slot)
        while more >= 0:  # an aggregate is one message: its first part has the total length
            parts[base + slot].length += parts[base + more].length
            more = follower(queue, more)
        s.when[FROM_SENT] = append(s.message_rings, s.message_cells, SENT, now + layer.to_server, base + slot)
        slot = take(queue, now) if choose is None else choose(queue, now)
    set_time(s.when, FROM_WAKES, s.wakes, node, queue[WAKE])


@hot_kernel
def _reach_server(time: Array, s: Array, now: int) -> None:
    rings, cells = s.message_rings, s.message_cells
    number = remove(rings, cells, SENT)
    s.when[FROM_SENT] = first(rings, cells, SENT)
    part = s.parts[number]
    present, lanes = s.present[part.server], s.lanes[part.server]
    present[present.size - 1] += present[part.node] == 0
    present[part.node] += 1
    lane = 0
    while lane < lanes.size and lanes[lane].until != NEVER:
        lane += 1
    if lane < lanes.size:
        _begin(time, s, now, part.server, lane, number)
    else:
        append(rings, cells, WAITING + part.server, now, number)


@hot_kernel
def _begin(time: Array, s: Array, now: int, server: int, lane: int, number: int) -> None:
    part, numbers, memory = s.parts[number], s.floats[2 * QUANTILES :], s.memories[server]
    present = s.present[server, s.present.shape[1] - 1]
    if time is None:
        duration = built_in(numbers, memory, now, part.node, part.file, part.offset, part.length, part.write, present)
    else:
        duration = time(numbers, memory, now, part.node, part.file, part.offset, part.length, part.write, present)
    end = now + max(int(duration * s.floats[draw(s.chance, QUANTILES)] + 0.5), 1)
    busy = s.lanes[server, lane]
    busy.until, busy.part = end, number
    s.when[FROM_SERVERS + server] = min(s.when[FROM_SERVERS + server], end)


@hot_kernel
def _serve(time: Array, s: Array, now: int, server: int) -> None:
    """Complete a part at a server, and begin the next one that waits there."""
    lanes, lane = s.lanes[server], 0
    while lanes[lane].until != now:
        lane += 1
    number = lanes[lane].part
    lanes[lane].until = NEVER
    least = NEVER
    for i in range(lanes.size):
        least = min(least, lanes[i].until)
    s.when[FROM_SERVERS + server] = least
    present, node, layer = s.present[server], s.parts[number].node, s.layer[0]
    present[node] -= 1
    present[present.size - 1] -= present[node] == 0
    layer.served += 1
    rings, cells = s.message_rings, s.message_cells
    s.when[FROM_BACK] = append(rings, cells, BACK, now + layer.to_server, number)
    if rings[WAITING + server].filled:
        _begin(time, s, now, server, lane, remove(rings, cells, WAITING + server))


@hot_kernel
def _come_back(choose: Array, s: Array, now: int) -> None:
    """Deliver a server's answer to the I/O node, which sends what it can now."""
    number = remove(s.message_rings, s.message_cells, BACK)
    s.when[FROM_BACK] = first(s.message_rings, s.message_cells, BACK)
    node = s.parts[number].node
    queue, base = s.queues[node], node * s.layer[0].slots
    more = number - base
    while more >= 0:
        _answer(s, now, node, s.parts[base + more].owner)
        more = follower(queue, more)
    complete(queue, number - base)
    _pump(choose, s, now, node)


@hot_kernel
def _answer(s: Array, now: int, node: int, number: int) -> None:
    """Count an answered part; after the last one, the client gets its answer and continues."""
    layer, process = s.layer[0], s.processes[number]
    process.pending -= 1
    if process.pending == 0:
        finish(s.watches[node], now)
        process.answered += 1
        layer.left -= 1
        layer.end = now + layer.to_client
        if process.answered < process.requests:
            set_off(s, layer.end, number)


@hot_kernel
def end_period(s: Array, now: int) -> None:
    """Store the observations of each I/O node as a row, if there is room."""
    layer = s.layer[0]
    if layer.rows < s.rows.shape[0]:
        for node in range(layer.nodes):
            tally(s.watches[node], now, s.rows[layer.rows, node])
        layer.rows += 1
    s.when[FROM_PERIODS] = now + layer.period


@hot_kernel
def earliest(times: Array) -> int:
    """Return the index of the least time; ties go to the first."""
    best, least = 0, times[0]
    for i in range(1, times.size):
        if times[i] < least:
            best, least = i, times[i]
    return best


@hot_kernel
def set_time(when: Array, source: int, times: Array, node: int, time: int) -> None:
    """Set the next time of an I/O node, and update the time of its source."""
    if times[node] != time:
        times[node] = time
        when[source] = times[earliest(times)]


@hot_kernel
def append(rings: Array, cells: Array, which: int, time: int, entry: int) -> int:
    """Add an entry that leaves the ring at `time`. Return when the first entry leaves."""
    ring = rings[which]
    cell = cells[which, (ring.head + ring.filled) & (cells.shape[1] - 1)]
    cell.time, cell.entry = time, entry
    ring.filled += 1
    return cells[which, ring.head].time  # type: ignore[no-any-return]


@hot_kernel
def first(rings: Array, cells: Array, which: int) -> int:
    """Return when the first entry leaves; NEVER if the ring is empty."""
    return cells[which, rings[which].head].time if rings[which].filled else NEVER


@hot_kernel
def foremost(rings: Array, cells: Array, which: int) -> int:
    """Return the first entry without removing it."""
    return cells[which, rings[which].head].entry  # type: ignore[no-any-return]


@hot_kernel
def remove(rings: Array, cells: Array, which: int) -> int:
    """Remove and return the first entry."""
    ring = rings[which]
    entry = cells[which, ring.head].entry
    ring.head = (ring.head + 1) & (cells.shape[1] - 1)
    ring.filled -= 1
    return entry  # type: ignore[no-any-return]
