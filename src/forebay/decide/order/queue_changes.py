"""Other settings for a queue in use. Nothing is lost: what waits waits on, what is in flight stays in flight.

A value that can't be is moved to the nearest that can; whoever takes values from users checks them first.
"""

from __future__ import annotations

from typing import Any

from forebay.decide.order.by_key import begin_virtual_time
from forebay.decide.order.contiguous import enlist, strike
from forebay.decide.order.queue_layout import (
    AGGREGATE,
    CURRENT,
    F_WEIGHT,
    FIRST,
    FLOW_SHIFT,
    FLOWS,
    FLOWS_AT,
    G_LEVEL,
    G_TURN,
    MOST_IN_FLIGHT,
    OTHER,
    PATIENCE,
    PATIENT,
    QUANTUM,
    S_NEXT,
    SCHEDULER,
    SJF,
    WINDOW,
    WINDOW_BEGIN,
    WINDOW_END,
)
from forebay.decide.order.schedulers import enter, leave
from forebay.model.kernels import kernel

LONGEST_WINDOW = 10**12  # nanoseconds
MOST = 1 << 40  # bytes of a message, messages of a turn, requests that overtake
HEAVIEST = 1000


@kernel
def set_scheduler(q: Any, scheduler: int) -> None:
    """Order by another scheduler (`choose.number`) from now on; what waits enters in the order of arrival."""
    scheduler = scheduler if 0 <= scheduler <= OTHER else 0
    if scheduler != q[SCHEDULER]:
        _all_leave(q)
        q[SCHEDULER] = scheduler
        begin_virtual_time(q)
        _all_enter(q)
    q[PATIENT] = 1 if scheduler in (SJF, OTHER) else 0


@kernel
def set_aggregate(q: Any, limit: int) -> None:
    """Most bytes of a message of several requests; 0 sends each alone."""
    limit = min(max(limit, 0), MOST)
    if (limit == 0) != (q[AGGREGATE] == 0):
        at = q[FIRST]
        while at:
            if limit:
                enlist(q, at)
            else:
                strike(q, at)
            at = q[at + S_NEXT]
    q[AGGREGATE] = limit


@kernel
def set_window(q: Any, nanoseconds: int) -> None:
    """How long twins stays on one server; from now on, so that the current window may end at once."""
    q[WINDOW] = min(max(nanoseconds, 1), LONGEST_WINDOW)
    q[WINDOW_BEGIN] = q[WINDOW_END] = 0


@kernel
def set_quantum(q: Any, messages: int) -> None:
    """How many messages a file may send in its turn, this turn included."""
    q[QUANTUM] = min(max(messages, 1), MOST)
    current = q[CURRENT]
    if current:
        q[current + G_TURN] = min(q[current + G_TURN], q[QUANTUM] << q[current + G_LEVEL])


@kernel
def set_patience(q: Any, requests: int) -> None:
    """How many later requests may overtake one, if the scheduler does not see to that itself."""
    q[PATIENCE] = min(max(requests, 0), MOST)


@kernel
def set_in_flight(q: Any, messages: int) -> None:
    """How many messages may be unanswered at any time."""
    q[MOST_IN_FLIGHT] = max(messages, 1)


@kernel
def set_weight(q: Any, flow: int, weight: int) -> None:
    """What a flow gets of wfq in proportion to others, 1 to 1000, for requests that arrive from now on."""
    if 0 <= flow < q[FLOWS]:
        q[q[FLOWS_AT] + (flow << FLOW_SHIFT) + F_WEIGHT] = min(max(weight, 1), HEAVIEST)


@kernel
def _all_leave(q: Any) -> None:
    at = q[FIRST]
    while at:
        leave(q, at)
        at = q[at + S_NEXT]


@kernel
def _all_enter(q: Any) -> None:
    at = q[FIRST]
    while at:
        enter(q, at)
        at = q[at + S_NEXT]
