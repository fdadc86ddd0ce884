"""Single requests in virtual time: from a client to its I/O node, to servers, and back.

Everything is arrays of records (`State`, `s` below). Whatever takes equally long for all comes out in the order in
which it went in: a ring of times and of things is enough where a heap would be for any delays. So the next event is
the earliest of few: the heads of the rings, one for each server, and two for each I/O node. `choose` and `time` are
None, or a scheduler's `take` and a server's model of the user's own.
"""

from typing import NamedTuple

import numpy as np

from forebay.decide.order.queue import arrive, complete, follower, take
from forebay.decide.order.queue_layout import WAKE
from forebay.model.kernels import Array, hot_kernel
from forebay.model.random_numbers import draw
from forebay.profile.request_watch import finish, observe, tally
from forebay.simulate import tournament
from forebay.simulate.requests.servers import built_in

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

    layer: Array  # one LAYER
    when: Array  # of each source: when its next event is
    enters: Array  # of each I/O node: when it has taken in a request
    wakes: Array  # and when its scheduler wants to be asked again
    processes: Array
    parts: Array  # by node * slots + slot
    lanes: Array  # [server, lane]
    memories: Array  # [server, MEMORY]: what its model remembers
    present: Array  # [server, node]: parts there; in the last column, nodes that have any
    process_rings: Array
    process_cells: Array  # [ring, place]
    message_rings: Array
    message_cells: Array
    queues: Array  # of each I/O node, see decide/order
    watches: Array  # and profile/request_watch
    rows: Array  # [period, node]: what it saw
    floats: Array  # quantiles of the noise, those of thinking, and the numbers of the servers' model
    chance: Array  # what to draw from


def new_rings(count: int, size: int) -> tuple[Array, Array]:
    """Empty ones with room for at least `size` things each."""
    room = 1 << max(size - 1, 0).bit_length()
    return np.zeros(count, dtype=RING), np.zeros((count, room), dtype=CELL)


@hot_kernel
def advance(choose: Array, time: Array, s: Array, until: int) -> None:
    """Everything that happens up to and at `until`."""
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
            waiting = 0  # if nothing but periods is left to happen, a scheduler keeps requests for itself
            for other in range(when.size):
                waiting += other != FROM_PERIODS and when[other] != NEVER
            if waiting == 0:
                return


@hot_kernel
def start(s: Array, now: int, process: int) -> None:
    """The process begins; to be called in the order of time, before anything else."""
    layer = s.layer[0]
    if layer.thinks:
        set_off(s, now, process)
    else:
        # Not with those that come back: they may overtake who starts late.
        s.when[FROM_CLIENTS] = append(s.process_rings, s.process_cells, STARTS, now + layer.to_client, process)


@hot_kernel
def set_off(s: Array, now: int, process: int) -> None:
    """The process thinks, then sends its next request."""
    layer, rings, cells = s.layer[0], s.process_rings, s.process_cells
    time = now + layer.to_client
    if layer.thinks == 0:
        s.when[FROM_CLIENTS] = min(append(rings, cells, CLIENTS, time, process), first(rings, cells, STARTS))
        return
    think = s.processes[process].think
    if think > 0:
        time += int(think * s.floats[QUANTILES + draw(s.chance, QUANTILES)])
    s.when[FROM_CLIENTS] = _let_think(cells[CLIENTS], process, time)


# Who thinks may overtake who set off before: the cells are a tournament then.
@hot_kernel
def _let_think(cells: Array, process: int, until: int) -> int:
    """The process sends its next request at `until`; returns when the first of all does."""
    tournament.put(cells.time, 0, cells.size // 2, process, until)
    return cells[1].time  # type: ignore[no-any-return]


@hot_kernel
def _reach_node(s: Array, now: int) -> None:
    """A client's request waits until its I/O node has taken in those before it."""
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
    """How long an I/O node takes to take in a request of the process."""
    return layer.writing if process.write else layer.reading  # type: ignore[no-any-return]


@hot_kernel
def _enter(choose: Array, s: Array, now: int, node: int) -> None:
    """The request has been taken in: split at stripe boundaries, its parts wait for their servers."""
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
    layer, process, queue = s.layer[0], s.processes[number], s.queues[node]
    stripe, servers, end = layer.stripe, layer.servers, offset + process.size
    index = offset // stripe
    server, line = (process.start + index) % servers, index // servers
    while offset < end:
        within = offset - index * stripe
        length, at = min(end - offset, stripe - within), line * stripe + within
        slot = arrive(queue, now, server, process.file, process.flow, at, length, process.write)
        part = s.parts[node * layer.slots + slot]
        part.owner, part.node, part.server, part.file = number, node, server, process.file
        part.offset, part.length, part.write = at, length, process.write
        process.pending += 1
        offset += length
        index += 1
        server = server + 1 if server + 1 < servers else 0
        line += index == (line + 1) * servers


@hot_kernel
def _pump(choose: Array, s: Array, now: int, node: int) -> None:
    """The I/O node sends what its scheduler lets it."""
    layer, queue, parts = s.layer[0], s.queues[node], s.parts
    base = node * layer.slots
    slot = take(queue, now) if choose is None else choose(queue, now)
    while slot >= 0:
        more = follower(queue, slot)
        while more >= 0:  # an aggregate goes as one: its first part has the length of all
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
        taken = built_in(numbers, memory, now, part.node, part.file, part.offset, part.length, part.write, present)
    else:
        taken = time(numbers, memory, now, part.node, part.file, part.offset, part.length, part.write, present)
    end = now + max(int(taken * s.floats[draw(s.chance, QUANTILES)] + 0.5), 1)
    busy = s.lanes[server, lane]
    busy.until, busy.part = end, number
    s.when[FROM_SERVERS + server] = min(s.when[FROM_SERVERS + server], end)


@hot_kernel
def _serve(time: Array, s: Array, now: int, server: int) -> None:
    """A part has been served; the next one that waits there begins."""
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
    """The I/O node has a server's answer, and sends what may go now."""
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
    """One part less; after the last the client has its answer, and goes on."""
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
    """What each I/O node saw becomes a row, as long as there is room."""
    layer = s.layer[0]
    if layer.rows < s.rows.shape[0]:
        for node in range(layer.nodes):
            tally(s.watches[node], now, s.rows[layer.rows, node])
        layer.rows += 1
    s.when[FROM_PERIODS] = now + layer.period


@hot_kernel
def earliest(times: Array) -> int:
    """Which of the times is the least; of equal ones the first."""
    best, least = 0, times[0]
    for i in range(1, times.size):
        if times[i] < least:
            best, least = i, times[i]
    return best


@hot_kernel
def set_time(when: Array, source: int, times: Array, node: int, time: int) -> None:
    """An I/O node's next time changes, and with it perhaps the earliest of all, which is the source's."""
    if times[node] != time:
        times[node] = time
        when[source] = times[earliest(times)]


@hot_kernel
def append(rings: Array, cells: Array, which: int, time: int, thing: int) -> int:
    """`thing` comes out of the ring at `time`; returns when its first thing comes out."""
    ring = rings[which]
    cell = cells[which, (ring.head + ring.filled) & (cells.shape[1] - 1)]
    cell.time, cell.thing = time, thing
    ring.filled += 1
    return cells[which, ring.head].time  # type: ignore[no-any-return]


@hot_kernel
def first(rings: Array, cells: Array, which: int) -> int:
    """When the first thing comes out; NEVER without any."""
    return cells[which, rings[which].head].time if rings[which].filled else NEVER


@hot_kernel
def foremost(rings: Array, cells: Array, which: int) -> int:
    """The first thing, which stays."""
    return cells[which, rings[which].head].thing  # type: ignore[no-any-return]


@hot_kernel
def remove(rings: Array, cells: Array, which: int) -> int:
    """The first thing leaves."""
    ring = rings[which]
    thing = cells[which, ring.head].thing
    ring.head = (ring.head + 1) & (cells.shape[1] - 1)
    ring.filled -= 1
    return thing  # type: ignore[no-any-return]
