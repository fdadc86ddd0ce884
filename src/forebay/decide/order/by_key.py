"""`sjf` and `wfq`: the request with the smallest key goes first."""

from __future__ import annotations

from typing import Any

from forebay.decide.order.heap import push, remove, smallest
from forebay.decide.order.queue_layout import (
    EPOCH,
    F_EPOCH,
    F_FINISH,
    F_WEIGHT,
    FLOW_SHIFT,
    FLOWS_AT,
    HEAPED,
    S_FLOW,
    S_KEY,
    S_SIZE,
    VIRTUAL,
)
from forebay.decide.order.slots import slot_at
from forebay.model.kernels import kernel

LEAST_COST = 4096  # bytes: what a request costs a server at least, however small it is
MOST_COST = 1 << 30
_FRACTION = 4  # bits of virtual time below a byte, for the weights to divide


@kernel
def sjf(q: Any, now: int) -> int:  # noqa: ARG001
    """The smallest request first, but none is overtaken by more than `patience` later ones."""
    return slot_at(smallest(q))


@kernel
def enter_by_size(q: Any, at: int) -> None:
    """Enter a request into the heap by its size."""
    push(q, at, q[at + S_SIZE])


# Self-clocked fair queueing (Golestani 1994): virtual time is the finish of the request that was sent last.
@kernel
def wfq(q: Any, now: int) -> int:  # noqa: ARG001
    """Flows (jobs, clients) share the bytes sent in proportion to their weights."""
    at = smallest(q)
    q[VIRTUAL] = q[at + S_KEY]
    return slot_at(at)


@kernel
def enter_by_finish(q: Any, at: int) -> None:
    """Enter a request into the heap by the virtual time at which its flow will have had its share."""
    flow = q[FLOWS_AT] + (q[at + S_FLOW] << FLOW_SHIFT)
    begin = q[VIRTUAL]
    if q[flow + F_EPOCH] == q[EPOCH]:
        begin = max(begin, q[flow + F_FINISH])
    cost = min(max(q[at + S_SIZE], LEAST_COST), MOST_COST) << _FRACTION
    finish = begin + cost // max(q[flow + F_WEIGHT], 1)
    q[flow + F_FINISH], q[flow + F_EPOCH] = finish, q[EPOCH]
    push(q, at, finish)


@kernel
def leave_by_finish(q: Any, at: int) -> None:
    """Take a request out of the heap; when nobody waits, nobody is owed anything, and virtual time begins again."""
    remove(q, at)
    if q[HEAPED] == 0:
        begin_virtual_time(q)


@kernel
def begin_virtual_time(q: Any) -> None:
    """Forget what each flow had, in O(1)."""
    q[VIRTUAL] = 0
    q[EPOCH] += 1
