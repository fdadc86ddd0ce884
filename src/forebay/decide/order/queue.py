"""The requests that wait at one I/O node, and those that it sent and that are not answered yet.

    q = new_queue("twins:window=500000", servers=4)
    arrive(q, now, server, file, flow, offset, size, write)     # a slot; NONE if the queue is full
    slot = take(q, now)                                         # what to send now; NONE: ask again at q[WAKE]
    while slot != NONE: ...; slot = follower(q, slot)           # the parts of one message
    done(q, slot)                                               # it was answered

Times are nanoseconds. `take` is to be asked after every arrival and every answer, at q[WAKE], and after a setting
was changed. Everything is O(1), but O(log waiting) for `sjf` and `wfq`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forebay.decide.order.contiguous import contiguous
from forebay.decide.order.lists import append, unlink
from forebay.decide.order.queue_changes import (
    set_aggregate,
    set_patience,
    set_quantum,
    set_scheduler,
    set_weight,
    set_window,
)
from forebay.decide.order.queue_layout import (
    AGGREGATE,
    ARRIVED,
    FILES,
    FIRST,
    FLOWS,
    FOLLOWS,
    FREE,
    FREED,
    G_COUNT,
    GROUP_SHIFT,
    IN_FLIGHT,
    LEFT,
    MOST_IN_FLIGHT,
    NEVER,
    NO_SUCH,
    NONE,
    OTHER,
    PATIENCE,
    PATIENT,
    S_FILE,
    S_FLOW,
    S_NEXT,
    S_OFFSET,
    S_SERIAL,
    S_SERVER,
    S_SIZE,
    S_STATE,
    S_TIME,
    S_WRITE,
    SENT,
    SERVERS,
    SERVERS_AT,
    SLOTS,
    WAITING,
    WAITS,
    WAKE,
)
from forebay.decide.order.queue_settings import new_queue, set_option, use
from forebay.decide.order.schedulers import enter, leave, number, pick
from forebay.decide.order.slots import address, slot_at
from forebay.decide.policy import Policy
from forebay.model.kernels import fresh_kernel, kernel

__all__ = [
    "NEVER",
    "NONE",
    "NO_SUCH",
    "WAKE",
    "arrive",
    "depth",
    "done",
    "drop",
    "follower",
    "in_flight",
    "new_queue",
    "set_aggregate",
    "set_option",
    "set_patience",
    "set_quantum",
    "set_scheduler",
    "set_weight",
    "set_window",
    "take",
    "take_of",
    "take_with",
    "use",
    "waiting",
]
MOST_IN_MESSAGE = 256  # requests


@kernel
def arrive(q: Any, now: int, server: int, file: int, flow: int, offset: int, size: int, write: int) -> int:
    """A request begins to wait: its slot, or NONE if the queue is full, or NO_SUCH if no request can be like that."""
    if not (0 <= server < q[SERVERS] and 0 <= file < q[FILES] and 0 <= flow < q[FLOWS] and offset >= 0 and size >= 0):
        return NO_SUCH
    at = q[FREE]
    if at == 0:
        return NONE
    q[FREE] = q[at + S_NEXT]
    q[at + S_STATE] = WAITS
    q[at + S_SERVER], q[at + S_FILE], q[at + S_FLOW] = server, file, flow
    q[at + S_OFFSET], q[at + S_SIZE] = offset, size
    q[at + S_WRITE] = 1 if write else 0
    q[at + S_SERIAL], q[at + S_TIME] = q[ARRIVED], now
    q[ARRIVED] += 1
    q[WAITING] += 1
    q[q[SERVERS_AT] + (server << GROUP_SHIFT) + G_COUNT] += 1
    append(q, at)
    enter(q, at)
    return slot_at(at)


@kernel
def take(q: Any, now: int) -> int:
    """The first request of the next message, which is on its way from now on; or NONE until q[WAKE]."""
    if _none_may_go(q):
        return NONE
    slot = _overdue(q)
    return _send(q, pick(q, now) if slot == NONE else slot)


def take_with(picks: Callable[[Any, int], int]) -> Callable[[Any, int], int]:
    """`take` for a scheduler of somebody else's, compiled anew in every process; NO_SUCH if it picks what can't go."""
    picks = picks if hasattr(picks, "py_func") else fresh_kernel(picks)

    @fresh_kernel
    def take_theirs(q: Any, now: int) -> int:
        if _none_may_go(q):
            return NONE
        slot = _overdue(q)
        return _send(q, picks(q, now) if slot == NONE else slot)

    return take_theirs


def take_of(policy: Policy) -> Callable[[Any, int], int]:
    """`take` for that scheduler."""
    return take_with(policy.decide) if number(policy) == OTHER else take


@kernel
def follower(q: Any, slot: int) -> int:
    """The request that goes in the same message after that one, or NONE."""
    return slot_at(q[address(slot) + S_NEXT])


@kernel
def done(q: Any, slot: int) -> bool:
    """The message that begins with that request was answered: its slots are free. False if there is none."""
    if not 0 <= slot < q[SLOTS]:
        return False
    at = address(slot)
    if q[at + S_STATE] != SENT:
        return False
    q[IN_FLIGHT] -= 1
    while at:
        behind = q[at + S_NEXT]
        _free(q, at)
        at = behind
    return True


@kernel
def drop(q: Any, slot: int) -> bool:
    """A request that waits is withdrawn. False if it does not wait (any more)."""
    if not 0 <= slot < q[SLOTS] or q[address(slot) + S_STATE] != WAITS:
        return False
    _stop_waiting(q, address(slot))
    _free(q, address(slot))
    return True


@kernel
def _none_may_go(q: Any) -> bool:
    q[WAKE] = NEVER
    return q[WAITING] == 0 or q[IN_FLIGHT] >= q[MOST_IN_FLIGHT]  # type: ignore[no-any-return]


# Of all that left, those that came before the oldest that waits are as many as its serial number says; the others
# overtook it. Whoever came after it was overtaken by no more than it was.
@kernel
def _overtaken(q: Any) -> int:
    """How many later requests have overtaken the oldest."""
    return q[LEFT] - q[q[FIRST] + S_SERIAL]  # type: ignore[no-any-return]


@kernel
def _overdue(q: Any) -> int:
    """The oldest request if it has been overtaken as often as it may."""
    return slot_at(q[FIRST]) if q[PATIENT] and _overtaken(q) >= q[PATIENCE] else NONE


@kernel
def _send(q: Any, slot: int) -> int:
    """Send that request, with those that are contiguous to it."""
    if not 0 <= slot < q[SLOTS]:
        return slot if slot == NONE else NO_SUCH
    at = address(slot)
    if q[at + S_STATE] != WAITS:
        return NO_SUCH
    followers = _most_followers(q, at) if q[AGGREGATE] else 0
    _stop_waiting(q, at)
    q[at + S_STATE], q[at + S_NEXT] = SENT, 0
    q[IN_FLIGHT] += 1
    if followers:
        _gather(q, at, followers)
    return slot


@kernel
def _most_followers(q: Any, at: int) -> int:
    """So many that the oldest of those that stay is not overtaken by too many."""
    if not q[PATIENT]:
        return MOST_IN_MESSAGE - 1
    budget = q[PATIENCE] - _overtaken(q)
    return min(budget if at == q[FIRST] else budget - 1, MOST_IN_MESSAGE - 1)  # type: ignore[no-any-return]


@kernel
def _gather(q: Any, at: int, most: int) -> None:
    """Let what goes on where the message ends go with it, up to the limit of bytes."""
    last, room = at, q[AGGREGATE] - q[at + S_SIZE]
    for _ in range(most):
        behind = contiguous(q, last, q[last + S_OFFSET] + q[last + S_SIZE])
        if behind == 0 or q[behind + S_SIZE] > room:
            return
        room -= q[behind + S_SIZE]
        _stop_waiting(q, behind)
        q[behind + S_STATE], q[behind + S_NEXT] = FOLLOWS, 0
        q[last + S_NEXT] = behind
        last = behind


@kernel
def _stop_waiting(q: Any, at: int) -> None:
    unlink(q, at)
    leave(q, at)
    q[WAITING] -= 1
    q[LEFT] += 1
    q[q[SERVERS_AT] + (q[at + S_SERVER] << GROUP_SHIFT) + G_COUNT] -= 1


@kernel
def _free(q: Any, at: int) -> None:
    q[at + S_STATE] = FREED
    q[at + S_NEXT] = q[FREE]
    q[FREE] = at


@kernel
def waiting(q: Any) -> int:
    """Requests that wait."""
    return q[WAITING]  # type: ignore[no-any-return]


@kernel
def in_flight(q: Any) -> int:
    """Messages that were sent and are not answered yet."""
    return q[IN_FLIGHT]  # type: ignore[no-any-return]


@kernel
def depth(q: Any, server: int) -> int:
    """Requests that wait for one server."""
    return q[q[SERVERS_AT] + (server << GROUP_SHIFT) + G_COUNT]  # type: ignore[no-any-return]
