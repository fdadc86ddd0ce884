"""The queue of one I/O node: its waiting requests, and those in flight.

    q = new_queue("twins:window=500000", servers=4)
    arrive(q, now, server, file, flow, offset, size, write)     # a slot; NONE if the queue is full
    slot = take(q, now)                                         # the request to send; NONE: ask again at q[WAKE]
    while slot != NONE: ...; slot = follower(q, slot)           # the requests of one message
    complete(q, slot)                                           # the server has answered

Times are in nanoseconds. Call `take` after every arrival, every answer and every change of a setting, and at q[WAKE].
Every operation is O(1), except O(log waiting) with `sjf` and `wfq`.
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
IN_FLIGHT, IN_FLIGHT_WITH_WINDOWS = 128, 32  # messages, unless the caller gives a limit
IN_FLIGHT_EACH = 2  # for each server, if requests are aggregated
LONGEST_WINDOW = 10**12  # nanoseconds
MOST = 1 << 40  # the largest value of a setting: bytes, messages or requests
HEAVIEST = 1000
_ANY = -3  # the request that the scheduler picks


@hot_kernel
def arrive(q: Array, now: int, server: int, file: int, flow: int, offset: int, size: int, write: int) -> int:
    """Add a request. Return its slot, NONE if the queue is full, or NO_SUCH if the request is invalid."""
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
    """Send the next message. Return its first request, or NONE if nothing is to be sent before q[WAKE]."""
    slot = _due(q)
    return _send(q, pick(q, now) if slot == _ANY else slot)


def take_with(picks: Callable[[Array, int], int]) -> Callable[[Array, int], int]:
    """Return `take` for a scheduler of another package, compiled in every process; it is NO_SUCH for a bad pick."""
    picks = picks if hasattr(picks, "py_func") else fresh_kernel(picks)

    @fresh_kernel
    def take_picked(q: Array, now: int) -> int:
        slot = _due(q)
        return _send(q, picks(q, now) if slot == _ANY else slot)

    return take_picked


def take_of(policy: Policy) -> Callable[[Array, int], int]:
    return take_with(policy.decide) if number(policy) == w.OTHER else take


@hot_kernel
def follower(q: Array, slot: int) -> int:
    """Return the request after `slot` in the same message, or NONE."""
    return slot_at(q[address(slot) + w.S_NEXT])


@hot_kernel
def complete(q: Array, slot: int) -> bool:
    """Free the slots of an answered message that begins with `slot`. Return False if no such message is in flight."""
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
    """Withdraw a waiting request. Return False if it does not wait."""
    if not 0 <= slot < q[w.SLOTS] or q[address(slot) + w.S_STATE] != w.WAITS:
        return False
    _stop_waiting(q, address(slot))
    _free(q, address(slot))
    return True


@hot_kernel
def _due(q: Array) -> int:
    """Return NONE if nothing can be sent, the oldest request if it reached its limit of overtaking, or _ANY."""
    q[w.WAKE] = w.NEVER
    if q[w.WAITING] == 0 or q[w.IN_FLIGHT] >= q[w.MOST_IN_FLIGHT]:
        return w.NONE
    return slot_at(q[w.FIRST]) if q[w.PATIENT] and _count_overtakers(q) >= q[w.PATIENCE] else _ANY


# The serial number of the oldest waiting request is the number of requests that arrived before it, and all of them
# have left. Every other request that left has overtaken it. Later requests were overtaken by no more than that.
@hot_kernel
def _count_overtakers(q: Array) -> int:
    """Return how many later requests have overtaken the oldest one."""
    return q[w.LEFT] - q[q[w.FIRST] + w.S_SERIAL]  # type: ignore[no-any-return]


@hot_kernel
def _send(q: Array, slot: int) -> int:
    """Send a request, together with those that are contiguous to it."""
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
    """Return how many requests may follow in a message without starving the oldest that stays."""
    if not q[w.PATIENT]:
        return MOST_IN_MESSAGE - 1
    budget = q[w.PATIENCE] - _count_overtakers(q)
    return min(budget if at == q[w.FIRST] else budget - 1, MOST_IN_MESSAGE - 1)  # type: ignore[no-any-return]


@hot_kernel
def _gather(q: Array, at: int, most: int) -> None:
    """Add requests that continue where the message ends, up to the limit of bytes."""
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
def count_waiting(q: Array) -> int:
    return q[w.WAITING]  # type: ignore[no-any-return]


@hot_kernel
def in_flight(q: Array) -> int:
    """Return the number of messages that are sent and not answered yet."""
    return q[w.IN_FLIGHT]  # type: ignore[no-any-return]


@hot_kernel
def depth(q: Array, server: int) -> int:
    """Return the number of requests that wait for one server."""
    return q[server_record(q, server) + w.G_COUNT]  # type: ignore[no-any-return]


@hot_kernel
def set_scheduler(q: Array, scheduler: int) -> None:
    """Switch to another scheduler (`schedulers.number`); waiting requests enter it in the order of arrival."""
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
    _limit_in_flight(q)


@hot_kernel
def set_aggregate(q: Array, limit: int) -> None:
    """Set the most bytes of a message of several requests; 0 sends each request alone."""
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
    _limit_in_flight(q)


@hot_kernel
def set_window(q: Array, nanoseconds: int) -> None:
    """Set how long twins stays on one server; 0: no windows. The current window may end at once."""
    q[w.WINDOW] = min(max(nanoseconds, 0), LONGEST_WINDOW)
    q[w.WINDOW_BEGIN] = q[w.WINDOW_END] = 0
    _limit_in_flight(q)


# A scheduler cannot reorder what it has sent, so one with windows sends little ahead. Others gain by sending more. Only
# requests that wait can be aggregated: a server that has a message to serve and another one gains nothing by a third.
@hot_kernel
def _limit_in_flight(q: Array) -> None:
    most = q[w.GIVEN_IN_FLIGHT]
    if most == 0:
        windowed = q[w.SCHEDULER] in (w.TWINS, w.TWINS_WORK_CONSERVING) and q[w.WINDOW] > 0
        most = IN_FLIGHT_WITH_WINDOWS if windowed else IN_FLIGHT
        if q[w.AGGREGATE]:
            most = min(most, IN_FLIGHT_EACH * q[w.SERVERS])
    q[w.MOST_IN_FLIGHT] = most


@hot_kernel
def set_quantum(q: Array, messages: int) -> None:
    """Set how many messages a file may send in its turn, including the current turn."""
    q[w.QUANTUM] = min(max(messages, 1), MOST)
    current = q[w.CURRENT]
    if current:
        q[current + w.G_TURN] = min(q[current + w.G_TURN], q[w.QUANTUM] << q[current + w.G_LEVEL])


@hot_kernel
def set_patience(q: Array, requests: int) -> None:
    """Set how many later requests may overtake one, unless the scheduler limits that itself."""
    q[w.PATIENCE] = min(max(requests, 0), MOST)


@hot_kernel
def set_weight(q: Array, flow: int, weight: int) -> None:
    """Set the weight of a flow in wfq, 1 to 1000, for requests that arrive from now on."""
    if 0 <= flow < q[w.FLOWS]:
        q[q[w.FLOWS_AT] + (flow << w.FLOW_SHIFT) + w.F_WEIGHT] = min(max(weight, 1), HEAVIEST)


SETTINGS = {  # the setter, the least and the largest value, and the default
    "window": (set_window, 0, LONGEST_WINDOW, 1_000_000),
    "quantum": (set_quantum, 1, MOST, 8),
    "aggregate": (set_aggregate, 0, MOST, 0),
    "patience": (set_patience, 0, MOST, 256),
}
_MOST_RECORDS = 1 << 22  # keeps addresses within 64 bits, and stops a typing error from using all memory


def new_queue(
    scheduler: Policy | str,
    *,
    servers: int,
    slots: int = 4096,
    files: int = 65536,
    flows: int = 1024,
    node: int = 0,
    in_flight: int | None = 32,
    **settings: int | None,
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return an empty queue with `slots` for waiting and in-flight requests; `settings` are those of `use`.

    If `in_flight` is None, the limit of messages follows from the scheduler: fewer with windows.
    """
    _expect("servers", servers, 1, 1 << 16)
    for name, value in (("slots", slots), ("files", files), ("flows", flows)):
        _expect(name, value, 1, _MOST_RECORDS)
    _expect("node", node, 0, 1 << 32)
    if in_flight is not None:
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
    records = np.arange(slots) * (1 << w.SLOT_SHIFT) + w.SLOTS_AT  # all are free
    q[records[:-1] + w.S_NEXT] = records[1:]
    q[w.FREE] = w.SLOTS_AT
    q[w.WAKE], q[w.NODE], q[w.GIVEN_IN_FLIGHT] = w.NEVER, node, in_flight or 0
    for change, _, _, default in SETTINGS.values():
        change(q, default)
    use(q, scheduler, **settings)
    return q


def use(q: Array, scheduler: Policy | str, **settings: int | None) -> None:
    """Switch to a scheduler with its options, and apply the `settings` that are not None.

    `window` is in nanoseconds (twins; 0: none), `quantum` in messages (hbrr, mlf), `aggregate` in bytes (0: none),
    `patience` in requests (sjf, and schedulers of other packages). Settings without an option stay as they are. From
    now on, call the `take_of` this scheduler.
    """
    policy = find("order", scheduler) if isinstance(scheduler, str) else scheduler
    if policy.kind != "order":
        raise BadInput("scheduler", f"{policy.name!r} is not a request scheduler")
    wanted = {**policy.options, **{name: value for name, value in settings.items() if value is not None}}
    chosen = {name: _check_setting(name, value) for name, value in wanted.items() if name in SETTINGS}
    set_scheduler(q, number(policy))
    q[w.NOTES_AT : w.NOTES_AT + w.NOTES] = 0
    q[w.PATIENT] = policy.patient
    for name, value in chosen.items():
        SETTINGS[name][0](q, value)


def set_option(q: Array, name: str, value: int) -> None:
    """Change one setting of `use` by its name."""
    if name not in SETTINGS:
        raise BadInput(name, "unknown scheduler setting")
    SETTINGS[name][0](q, _check_setting(name, value))


def _check_setting(name: str, value: object) -> int:
    _, least, most, _ = SETTINGS[name]
    return _expect(name, value, least, most)


def _expect(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise BadInput(name, f"must be a whole number from {least} to {most}, not {value!r}")
    return int(value)
