"""The events of single requests: from a client to its I/O node, to servers, and back.

All kernels share their first arguments: `s` is the state (state.py), `queues` and `watches` have a row for each I/O
node (decide/order, profile/observe), `floats` has the quantiles of the noise, those of thinking and the numbers of
the servers' model, `chance` what to draw from. `choose` and `time` are None, or a scheduler's `take`
and a server's model of the user's own.
"""

from __future__ import annotations

from typing import Any

from forebay.decide.order.queue import WAKE, arrive, done, follower, take
from forebay.model.kernels import kernel
from forebay.model.random_numbers import draw
from forebay.profile.request_watch import finish, observe, tally
from forebay.simulate.requests.servers import built_in
from forebay.simulate.requests.state import (
    ANSWERED,
    AT_NODE,
    AT_SERVER,
    BACK,
    BASE,
    CLIENTS,
    END,
    ENTERS,
    ENTRANCE,
    ENTRANCE_SIZE,
    FILE,
    FILLED,
    FLOW,
    FROM_BACK,
    FROM_CLIENTS,
    FROM_ENTERS,
    FROM_PERIODS,
    FROM_SENT,
    FROM_SERVERS,
    FROM_WAKES,
    INGRESS,
    LANE,
    LANES,
    LEFT,
    LENGTH,
    MEMORIES,
    MEMORY,
    NEVER,
    NODE,
    NODES,
    NOW,
    OF_FILE,
    OFFSET,
    OWNER,
    PART,
    PARTS,
    PENDING,
    PERIOD,
    PRESENT,
    PROCESS,
    PROCESSES,
    QUANTILES,
    REQUESTS,
    RING,
    ROWS,
    SENT,
    SERVED,
    SERVERS,
    SERVING,
    SIZE,
    SLOTS,
    SOURCES,
    START,
    STARTS,
    STEP,
    STRIPE,
    THINK,
    THINKS,
    TO_CLIENT,
    TO_SERVER,
    UNTIL,
    WAITING,
    WAITING_SIZE,
    WAKES,
    WHEN,
    WITH,
    WRITE,
    WRITES,
    append,
    earliest,
    first,
    foremost,
    pop,
    push,
    remove,
    set_time,
)


@kernel
def advance(
    choose: Any, time: Any, s: Any, queues: Any, watches: Any, rows: Any, floats: Any, chance: Any, until: int
) -> None:
    """Everything that happens up to and at `until`."""
    while s[LEFT] > 0:
        source = earliest(s, WHEN, s[SOURCES])
        now = s[WHEN + source]
        if now > until:
            return
        s[NOW] = now
        if source >= FROM_SERVERS:
            _serve(time, s, floats, chance, now, source - FROM_SERVERS)
        elif source == FROM_SENT:
            _reach_server(time, s, floats, chance, now)
        elif source == FROM_BACK:
            _come_back(choose, s, queues, watches, floats, chance, now)
        elif source == FROM_CLIENTS:
            _reach_node(s, now)
        elif source == FROM_ENTERS:
            _enter(choose, s, queues, watches, now, earliest(s, s[ENTERS], s[NODES]))
        elif source == FROM_WAKES:
            _pump(choose, s, queues, now, earliest(s, s[WAKES], s[NODES]))
        else:
            end_period(s, watches, rows, now)
            if _stuck(s):
                return


@kernel
def _stuck(s: Any) -> bool:
    """Whether nothing but periods is left to happen: a scheduler keeps requests for itself."""
    left = 0
    for source in range(s[SOURCES]):
        left += source != FROM_PERIODS and s[WHEN + source] != NEVER
    return left == 0


@kernel
def start(s: Any, floats: Any, chance: Any, now: int, process: int) -> None:
    """The process begins; to be told in the order of time, before anything else."""
    if s[THINKS]:
        set_off(s, floats, chance, now, process)
    else:
        # Not with those that come back: they may overtake who starts late.
        s[WHEN + FROM_CLIENTS] = append(s, s[STARTS], now + s[TO_CLIENT], process)


@kernel
def set_off(s: Any, floats: Any, chance: Any, now: int, process: int) -> None:
    """The process thinks, then sends its next request."""
    time = now + s[TO_CLIENT]
    if s[THINKS] == 0:
        s[WHEN + FROM_CLIENTS] = min(append(s, s[CLIENTS], time, process), first(s, s[STARTS]))
        return
    think = s[s[PROCESSES] + process * PROCESS + THINK]
    if think > 0:
        time += int(think * floats[QUANTILES + draw(chance, QUANTILES)])
    s[WHEN + FROM_CLIENTS] = push(s, s[CLIENTS], time, process)


@kernel
def _reach_node(s: Any, now: int) -> None:
    """A client's request waits until its I/O node has taken in those before it."""
    clients = s[CLIENTS]
    if s[THINKS] == 0:
        process = remove(s, s[STARTS] if first(s, s[STARTS]) == now else clients)
        s[WHEN + FROM_CLIENTS] = min(first(s, clients), first(s, s[STARTS]))
    else:
        process = pop(s, clients)
        s[WHEN + FROM_CLIENTS] = s[clients + RING] if s[clients + FILLED] else NEVER
    own = s[PROCESSES] + process * PROCESS
    node = s[own + NODE]
    ring = s[ENTRANCE] + node * s[ENTRANCE_SIZE]
    append(s, ring, now, process)
    if s[ring + FILLED] == 1:
        set_time(s, s[ENTERS], FROM_ENTERS, node, now + s[INGRESS + s[own + WRITE]])


@kernel
def _enter(choose: Any, s: Any, queues: Any, watches: Any, now: int, node: int) -> None:
    """The request has been taken in: split at stripe boundaries, its parts wait for their servers."""
    ring, next_one = s[ENTRANCE] + node * s[ENTRANCE_SIZE], NEVER
    process = remove(s, ring)
    if s[ring + FILLED]:
        next_one = now + s[INGRESS + s[s[PROCESSES] + foremost(s, ring) * PROCESS + WRITE]]
    set_time(s, s[ENTERS], FROM_ENTERS, node, next_one)
    own = s[PROCESSES] + process * PROCESS
    offset = s[own + BASE] + s[own + STEP] * s[own + ANSWERED]
    observe(watches[node], now, s[own + FILE], offset, s[own + SIZE], s[own + WRITE])
    _split(s, queues[node], now, node, process, offset)
    _pump(choose, s, queues, now, node)


@kernel
def _split(s: Any, queue: Any, now: int, node: int, process: int, offset: int) -> None:
    own, stripe, servers = s[PROCESSES] + process * PROCESS, s[STRIPE], s[SERVERS]
    file, write, end = s[own + FILE], s[own + WRITE], offset + s[own + SIZE]
    index = offset // stripe
    server, line = (s[own + START] + index) % servers, index // servers
    while offset < end:
        within = offset - index * stripe
        length, at = min(end - offset, stripe - within), line * stripe + within
        slot = arrive(queue, now, server, file, s[own + FLOW], at, length, write)
        part = s[PARTS] + (node * s[SLOTS] + slot) * PART
        s[part + OWNER], s[part + AT_NODE], s[part + AT_SERVER], s[part + OF_FILE] = process, node, server, file
        s[part + OFFSET], s[part + LENGTH], s[part + WRITES] = at, length, write
        s[own + PENDING] += 1
        offset += length
        index += 1
        server = server + 1 if server + 1 < servers else 0
        line += index == (line + 1) * servers


@kernel
def _pump(choose: Any, s: Any, queues: Any, now: int, node: int) -> None:
    """The I/O node sends what its scheduler lets it."""
    queue, parts = queues[node], node * s[SLOTS]
    slot = take(queue, now) if choose is None else choose(queue, now)
    while slot >= 0:
        own, more = s[PARTS] + (parts + slot) * PART, follower(queue, slot)
        while more >= 0:  # an aggregate goes as one: its first part tells the length of all
            s[own + LENGTH] += s[s[PARTS] + (parts + more) * PART + LENGTH]
            more = follower(queue, more)
        s[WHEN + FROM_SENT] = append(s, s[SENT], now + s[TO_SERVER], parts + slot)
        slot = take(queue, now) if choose is None else choose(queue, now)
    set_time(s, s[WAKES], FROM_WAKES, node, queue[WAKE])


@kernel
def _reach_server(time: Any, s: Any, floats: Any, chance: Any, now: int) -> None:
    part = remove(s, s[SENT])
    s[WHEN + FROM_SENT] = first(s, s[SENT])
    own = s[PARTS] + part * PART
    server, node = s[own + AT_SERVER], s[own + AT_NODE]
    present = s[PRESENT] + server * (s[NODES] + 1)
    s[present + s[NODES]] += s[present + node] == 0
    s[present + node] += 1
    lane, lanes = 0, s[SERVING] + server * s[LANES] * LANE
    while lane < s[LANES] and s[lanes + lane * LANE + UNTIL] != NEVER:
        lane += 1
    if lane < s[LANES]:
        _begin(time, s, floats, chance, now, server, lane, part)
    else:
        append(s, s[WAITING] + server * s[WAITING_SIZE], now, part)


@kernel
def _begin(time: Any, s: Any, floats: Any, chance: Any, now: int, server: int, lane: int, part: int) -> None:
    own, numbers = s[PARTS] + part * PART, floats[2 * QUANTILES :]
    memory = s[s[MEMORIES] + server * MEMORY : s[MEMORIES] + (server + 1) * MEMORY]
    node, file, offset, length, write = (
        s[own + AT_NODE],
        s[own + OF_FILE],
        s[own + OFFSET],
        s[own + LENGTH],
        s[own + WRITES],
    )
    present = s[s[PRESENT] + server * (s[NODES] + 1) + s[NODES]]
    if time is None:
        taken = built_in(numbers, memory, now, node, file, offset, length, write, present)
    else:
        taken = time(numbers, memory, now, node, file, offset, length, write, present)
    finish = now + max(int(taken * floats[draw(chance, QUANTILES)] + 0.5), 1)
    at = s[SERVING] + (server * s[LANES] + lane) * LANE
    s[at + UNTIL], s[at + WITH] = finish, part
    s[WHEN + FROM_SERVERS + server] = min(s[WHEN + FROM_SERVERS + server], finish)


@kernel
def _serve(time: Any, s: Any, floats: Any, chance: Any, now: int, server: int) -> None:
    """A part has been served; the next one that waits there begins."""
    lanes, lane = s[SERVING] + server * s[LANES] * LANE, 0
    while s[lanes + lane * LANE + UNTIL] != now:
        lane += 1
    part = s[lanes + lane * LANE + WITH]
    s[lanes + lane * LANE + UNTIL] = NEVER
    least = NEVER
    for i in range(s[LANES]):
        least = min(least, s[lanes + i * LANE + UNTIL])
    s[WHEN + FROM_SERVERS + server] = least
    present, node = s[PRESENT] + server * (s[NODES] + 1), s[s[PARTS] + part * PART + AT_NODE]
    s[present + node] -= 1
    s[present + s[NODES]] -= s[present + node] == 0
    s[SERVED] += 1
    s[WHEN + FROM_BACK] = append(s, s[BACK], now + s[TO_SERVER], part)
    waiting = s[WAITING] + server * s[WAITING_SIZE]
    if s[waiting + FILLED]:
        _begin(time, s, floats, chance, now, server, lane, remove(s, waiting))


@kernel
def _come_back(choose: Any, s: Any, queues: Any, watches: Any, floats: Any, chance: Any, now: int) -> None:
    """The I/O node has a server's answer, and sends what may go now."""
    part = remove(s, s[BACK])
    s[WHEN + FROM_BACK] = first(s, s[BACK])
    node = s[s[PARTS] + part * PART + AT_NODE]
    queue, slot = queues[node], part - node * s[SLOTS]
    more = slot
    while more >= 0:
        _answer(s, watches, floats, chance, now, node, s[s[PARTS] + (node * s[SLOTS] + more) * PART + OWNER])
        more = follower(queue, more)
    done(queue, slot)
    _pump(choose, s, queues, now, node)


@kernel
def _answer(s: Any, watches: Any, floats: Any, chance: Any, now: int, node: int, process: int) -> None:
    """One part less; after the last the client has its answer, and goes on."""
    own = s[PROCESSES] + process * PROCESS
    s[own + PENDING] -= 1
    if s[own + PENDING] == 0:
        finish(watches[node], now)
        s[own + ANSWERED] += 1
        s[LEFT] -= 1
        s[END] = now + s[TO_CLIENT]
        if s[own + ANSWERED] < s[own + REQUESTS]:
            set_off(s, floats, chance, s[END], process)


@kernel
def end_period(s: Any, watches: Any, rows: Any, now: int) -> None:
    """What each I/O node saw becomes a row, as long as there is room."""
    if s[ROWS] < rows.shape[0]:
        for node in range(s[NODES]):
            tally(watches[node], now, rows[s[ROWS], node])
        s[ROWS] += 1
    s[WHEN + FROM_PERIODS] = now + s[PERIOD]
