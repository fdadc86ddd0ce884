"""The requests that wait at one I/O node, and those that it sent and that are not answered yet.

    q = new_queue("twins:window=500000", servers=4)
    arrive(q, now, server, file, flow, offset, size, write)     # a slot; NONE if the queue is full
    slot = take(q, now)                                         # what to send now; NONE: ask again at q[WAKE]
    while slot != NONE: ...; slot = follower(q, slot)           # the parts of one message
    complete(q, slot)                                           # it was answered

Times are nanoseconds. `take` is to be asked after every arrival and every answer, at q[WAKE], and after a setting
was changed. Everything is O(1), but O(log waiting) for `sjf` and `wfq`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from forebay.decide.order import queue_layout as w
from forebay.decide.order.schedulers import begin_virtual_time, enter, leave, number, pick, server_record
from forebay.decide.order.slots import address, slot_at
from forebay.decide.order.waiting_requests import append, contiguous, enlist, strike, unlink
from forebay.decide.policy import Policy
from forebay.decide.registry import find
from forebay.model.errors import BadInput
from forebay.model.kernels import Array, fresh_kernel, hot_kernel

MOST_IN_MESSAGE = 256  # requests
LONGEST_WINDOW = 10**12  # nanoseconds
MOST = 1 << 40  # bytes of a message, messages of a turn, requests that overtake
HEAVIEST = 1000
_ANY = -3  # whichever request the scheduler picks


@hot_kernel
def arrive(q: Array, now: int, server: int, file: int, flow: int, offset: int, size: int, write: int) -> int:
    """A request begins to wait: its slot, or NONE if the queue is full, or NO_SUCH if no request can be like that."""
    is_known = 0 <= server < q[w.SERVERS] and 0 <= file < q[w.FILES] and 0 <= flow < q[w.FLOWS]
    if not is_known or offset < 0 or size < 0:
        return w.NO_SUCH
    at = q[w.FREE]
    if at == 0:
        return w.NONE
    q[w.FREE] = q[at + w.S_NEXT]
    q[at + w.S_STATE] = w.WAITS
    q[at + w.S_SERVER], q[at + w.S_FILE], q[at + w.S_FLOW] = server, file, flow
    q[at + w.S_OFFSET], q[at + w.S_SIZE] = offset, size
    q[at + w.S_WRITE] = 1 if write else 0
    q[at + w.S_SERIAL], q[at + w.S_TIME] = q[w.ARRIVED], now
    q[w.ARRIVED] += 1
    q[w.WAITING] += 1
    q[server_record(q, server) + w.G_COUNT] += 1
    append(q, w.FIRST, w.S_NEXT, at)
    enter(q, at)
    if q[w.AGGREGATE]:
        enlist(q, at)
    return slot_at(at)


@hot_kernel
def take(q: Array, now: int) -> int:
    """The first request of the next message, which is on its way from now on; or NONE until q[WAKE]."""
    slot = _due(q)
    return _send(q, pick(q, now) if slot == _ANY else slot)


def take_with(picks: Callable[[Array, int], int]) -> Callable[[Array, int], int]:
    """`take` for a scheduler of somebody else's, compiled anew in every process; NO_SUCH if it picks what can't go."""
    picks = picks if hasattr(picks, "py_func") else fresh_kernel(picks)

    @fresh_kernel
    def take_theirs(q: Array, now: int) -> int:
        slot = _due(q)
        return _send(q, picks(q, now) if slot == _ANY else slot)

    return take_theirs


def take_of(policy: Policy) -> Callable[[Array, int], int]:
    return take_with(policy.decide) if number(policy) == w.OTHER else take


@hot_kernel
def follower(q: Array, slot: int) -> int:
    """The request that goes in the same message after that one, or NONE."""
    return slot_at(q[address(slot) + w.S_NEXT])


@hot_kernel
def complete(q: Array, slot: int) -> bool:
    """The message that begins with that request was answered: its slots are free. False if there is none."""
    if not 0 <= slot < q[w.SLOTS]:
        return False
    at = address(slot)
    if q[at + w.S_STATE] != w.SENT:
        return False
    q[w.IN_FLIGHT] -= 1
    while at:
        behind = q[at + w.S_NEXT]
        _free(q, at)
        at = behind
    return True


@hot_kernel
def drop(q: Array, slot: int) -> bool:
    """A request that waits is withdrawn. False if it does not wait (any more)."""
    if not 0 <= slot < q[w.SLOTS] or q[address(slot) + w.S_STATE] != w.WAITS:
        return False
    _stop_waiting(q, address(slot))
    _free(q, address(slot))
    return True


@hot_kernel
def _due(q: Array) -> int:
    """NONE if nothing may go; the oldest request if it has been overtaken as often as it may; else _ANY."""
    q[w.WAKE] = w.NEVER
    if q[w.WAITING] == 0 or q[w.IN_FLIGHT] >= q[w.MOST_IN_FLIGHT]:
        return w.NONE
    return slot_at(q[w.FIRST]) if q[w.PATIENT] and _overtaken(q) >= q[w.PATIENCE] else _ANY


# Of all that left, those that came before the oldest that waits are as many as its serial number says; the others
# overtook it. Whoever came after it was overtaken by no more than it was.
@hot_kernel
def _overtaken(q: Array) -> int:
    """How many later requests have overtaken the oldest."""
    return q[w.LEFT] - q[q[w.FIRST] + w.S_SERIAL]  # type: ignore[no-any-return]


@hot_kernel
def _send(q: Array, slot: int) -> int:
    """Send that request, with those that are contiguous to it."""
    if not 0 <= slot < q[w.SLOTS]:
        return slot if slot == w.NONE else w.NO_SUCH
    at = address(slot)
    if q[at + w.S_STATE] != w.WAITS:
        return w.NO_SUCH
    followers = _most_followers(q, at) if q[w.AGGREGATE] else 0
    _stop_waiting(q, at)
    q[at + w.S_STATE], q[at + w.S_NEXT] = w.SENT, 0
    q[w.IN_FLIGHT] += 1
    if followers:
        _gather(q, at, followers)
    return slot


@hot_kernel
def _most_followers(q: Array, at: int) -> int:
    """So many that the oldest of those that stay is not overtaken by too many."""
    if not q[w.PATIENT]:
        return MOST_IN_MESSAGE - 1
    budget = q[w.PATIENCE] - _overtaken(q)
    return min(budget if at == q[w.FIRST] else budget - 1, MOST_IN_MESSAGE - 1)  # type: ignore[no-any-return]


@hot_kernel
def _gather(q: Array, at: int, most: int) -> None:
    """Let what goes on where the message ends go with it, up to the limit of bytes."""
    last, room = at, q[w.AGGREGATE] - q[at + w.S_SIZE]
    for _ in range(most):
        behind = contiguous(q, last, q[last + w.S_OFFSET] + q[last + w.S_SIZE])
        if behind == 0 or q[behind + w.S_SIZE] > room:
            return
        room -= q[behind + w.S_SIZE]
        _stop_waiting(q, behind)
        q[behind + w.S_STATE], q[behind + w.S_NEXT] = w.FOLLOWS, 0
        q[last + w.S_NEXT] = behind
        last = behind


@hot_kernel
def _stop_waiting(q: Array, at: int) -> None:
    unlink(q, w.FIRST, w.S_NEXT, at)
    leave(q, at)
    if q[w.AGGREGATE]:
        strike(q, at)
    q[w.WAITING] -= 1
    q[w.LEFT] += 1
    q[server_record(q, q[at + w.S_SERVER]) + w.G_COUNT] -= 1


@hot_kernel
def _free(q: Array, at: int) -> None:
    q[at + w.S_STATE] = w.FREED
    q[at + w.S_NEXT] = q[w.FREE]
    q[w.FREE] = at


@hot_kernel
def waiting(q: Array) -> int:
    return q[w.WAITING]  # type: ignore[no-any-return]


@hot_kernel
def in_flight(q: Array) -> int:
    """Messages that were sent and are not answered yet."""
    return q[w.IN_FLIGHT]  # type: ignore[no-any-return]


@hot_kernel
def depth(q: Array, server: int) -> int:
    """Requests that wait for one server."""
    return q[server_record(q, server) + w.G_COUNT]  # type: ignore[no-any-return]


@hot_kernel
def set_scheduler(q: Array, scheduler: int) -> None:
    """Order by another scheduler (`schedulers.number`) from now on; what waits enters in the order of arrival."""
    scheduler = scheduler if 0 <= scheduler <= w.OTHER else 0
    if scheduler != q[w.SCHEDULER]:
        at = q[w.FIRST]
        while at:
            leave(q, at)
            at = q[at + w.S_NEXT]
        q[w.SCHEDULER] = scheduler
        begin_virtual_time(q)
        at = q[w.FIRST]
        while at:
            enter(q, at)
            at = q[at + w.S_NEXT]
    q[w.PATIENT] = 1 if scheduler in (w.SJF, w.OTHER) else 0


@hot_kernel
def set_aggregate(q: Array, limit: int) -> None:
    """Most bytes of a message of several requests; 0 sends each alone."""
    limit = min(max(limit, 0), MOST)
    if (limit == 0) != (q[w.AGGREGATE] == 0):
        at = q[w.FIRST]
        while at:
            if limit:
                enlist(q, at)
            else:
                strike(q, at)
            at = q[at + w.S_NEXT]
    q[w.AGGREGATE] = limit


@hot_kernel
def set_window(q: Array, nanoseconds: int) -> None:
    """How long twins stays on one server; from now on, so that the current window may end at once."""
    q[w.WINDOW] = min(max(nanoseconds, 1), LONGEST_WINDOW)
    q[w.WINDOW_BEGIN] = q[w.WINDOW_END] = 0


@hot_kernel
def set_quantum(q: Array, messages: int) -> None:
    """How many messages a file may send in its turn, this turn included."""
    q[w.QUANTUM] = min(max(messages, 1), MOST)
    current = q[w.CURRENT]
    if current:
        q[current + w.G_TURN] = min(q[current + w.G_TURN], q[w.QUANTUM] << q[current + w.G_LEVEL])


@hot_kernel
def set_patience(q: Array, requests: int) -> None:
    """How many later requests may overtake one, if the scheduler does not see to that itself."""
    q[w.PATIENCE] = min(max(requests, 0), MOST)


@hot_kernel
def set_weight(q: Array, flow: int, weight: int) -> None:
    """What a flow gets of wfq in proportion to others, 1 to 1000, for requests that arrive from now on."""
    if 0 <= flow < q[w.FLOWS]:
        q[q[w.FLOWS_AT] + (flow << w.FLOW_SHIFT) + w.F_WEIGHT] = min(max(weight, 1), HEAVIEST)


SETTINGS = {  # what sets it, its least and its most, and what a queue begins with
    "window": (set_window, 1, LONGEST_WINDOW, 1_000_000),
    "quantum": (set_quantum, 1, MOST, 8),
    "aggregate": (set_aggregate, 0, MOST, 0),
    "patience": (set_patience, 0, MOST, 256),
}
_MOST_RECORDS = 1 << 22  # keeps every address well inside of 64 bits, and a typing error from eating all memory


def new_queue(
    scheduler: Policy | str,
    *,
    servers: int,
    slots: int = 4096,
    files: int = 65536,
    flows: int = 1024,
    node: int = 0,
    in_flight: int = 32,
    **settings: int | None,
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """An empty queue of one I/O node, for `slots` requests that wait or are in flight, with the `settings` of `use`."""
    _expect("servers", servers, 1, 1 << 16)
    for name, value in (("slots", slots), ("files", files), ("flows", flows)):
        _expect(name, value, 1, _MOST_RECORDS)
    _expect("node", node, 0, 1 << 32)
    _expect("in_flight", in_flight, 1, 1 << 32)
    places = 1 << (2 * slots - 1).bit_length()
    heap = w.SLOTS_AT + (slots << w.SLOT_SHIFT)
    server = heap + slots
    file = server + (servers << w.GROUP_SHIFT)
    flow = file + (files << w.GROUP_SHIFT)
    table = flow + (flows << w.FLOW_SHIFT)
    q = np.zeros(table + (places << w.TABLE_SHIFT), dtype=np.int64)
    q[[w.SERVERS, w.SLOTS, w.FILES, w.FLOWS]] = servers, slots, files, flows
    q[[w.HEAP_AT, w.SERVERS_AT, w.FILES_AT, w.FLOWS_AT]] = heap, server, file, flow
    q[[w.TABLE_AT, w.TABLE_MASK]] = table, places - 1
    records = np.arange(slots) * (1 << w.SLOT_SHIFT) + w.SLOTS_AT  # all of them free
    q[records[:-1] + w.S_NEXT] = records[1:]
    q[w.FREE] = w.SLOTS_AT
    q[w.WAKE], q[w.NODE], q[w.MOST_IN_FLIGHT] = w.NEVER, node, in_flight
    for change, _, _, default in SETTINGS.values():
        change(q, default)
    use(q, scheduler, **settings)
    return q


def use(q: Array, scheduler: Policy | str, **settings: int | None) -> None:
    """Order by that scheduler from now on, with its own options, and the `settings` that are not None.

    `window` is in nanoseconds (twins), `quantum` in messages (hbrr, mlf), `aggregate` in bytes (0: no aggregation),
    `patience` in requests (sjf, and schedulers of others). What it has no option for stays as it is. Take with
    `take_of` that scheduler from now on.
    """
    policy = find("order", scheduler) if isinstance(scheduler, str) else scheduler
    if policy.kind != "order":
        raise BadInput("scheduler", f"{policy.name!r} is no request scheduler")
    wanted = {**policy.options, **{name: value for name, value in settings.items() if value is not None}}
    chosen = {name: _check_setting(name, value) for name, value in wanted.items() if name in SETTINGS}
    set_scheduler(q, number(policy))
    q[w.NOTES_AT : w.NOTES_AT + w.NOTES] = 0
    q[w.PATIENT] = policy.patient
    for name, value in chosen.items():
        SETTINGS[name][0](q, value)


def set_option(q: Array, name: str, value: int) -> None:
    """Change one setting by its name (those of `use`); all others stay."""
    if name not in SETTINGS:
        raise BadInput(name, "unknown setting of a scheduler")
    SETTINGS[name][0](q, _check_setting(name, value))


def _check_setting(name: str, value: object) -> int:
    _, least, most, _ = SETTINGS[name]
    return _expect(name, value, least, most)


def _expect(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise BadInput(name, f"must be a whole number from {least} to {most}, not {value!r}")
    return int(value)
