"""The built-in request schedulers, and kernels that are any of them."""

from __future__ import annotations

from typing import Any

from forebay.decide.order.by_key import enter_by_finish, enter_by_size, leave_by_finish, sjf, wfq
from forebay.decide.order.contiguous import enlist, strike
from forebay.decide.order.heap import remove
from forebay.decide.order.lists import unlink_from_group
from forebay.decide.order.queue_layout import (
    AGGREGATE,
    HBRR,
    MLF,
    OTHER,
    SCHEDULER,
    SJF,
    TWINS,
    TWINS_WORK_CONSERVING,
    WFQ,
)
from forebay.decide.order.rounds import enter_file, hbrr, leave_file, mlf
from forebay.decide.order.slots import first
from forebay.decide.order.twins import enter_server, twins, twins_work_conserving
from forebay.decide.policy import Policy, order
from forebay.model.kernels import kernel

_MESSAGE = 1 << 20  # bytes of an aggregate, where aggregating is what a scheduler is about
_PAPER = "Bez et al. 2019"


@kernel
def fifo(q: Any, now: int) -> int:  # noqa: ARG001
    """In the order of arrival."""
    return first(q)


@kernel
def to_agg(q: Any, now: int) -> int:  # noqa: ARG001
    """In the order of arrival, and whatever goes on where a request ends goes with it."""
    return first(q)


ORDERS = (
    order("fifo", keeps_file_order=True, patient=False, source="textbook", options={"aggregate": 0})(fifo),
    order("sjf", source="Boito et al. 2013 (AGIOS)", options={"patience": 256, "aggregate": 0})(sjf),
    order("hbrr", patient=False, source="Ohta et al. 2010", options={"quantum": 8, "aggregate": _MESSAGE})(hbrr),
    order("to-agg", patient=False, source="Boito et al. 2013 (AGIOS)", options={"aggregate": _MESSAGE})(to_agg),
    order(
        "mlf",
        keeps_file_order=True,
        patient=False,
        source="Boito et al. 2013 (AGIOS)",
        options={"quantum": 8, "aggregate": 0},
    )(mlf),
    order("wfq", patient=False, source="Golestani 1994", options={"aggregate": 0})(wfq),
    order(
        "twins",
        keeps_file_order=True,
        patient=False,
        source=_PAPER,
        options={"window": 1_000_000, "aggregate": 0},
    )(twins),
    order(
        "twins-work-conserving",
        keeps_file_order=True,
        patient=False,
        source=f"{_PAPER}, without its waiting",
        options={"window": 1_000_000, "aggregate": 0},
    )(twins_work_conserving),
)


def number(policy: Policy) -> int:
    """What the kernels know a scheduler by, whatever its options are; OTHER for somebody else's."""
    for which, known in enumerate(ORDERS):
        if policy.decide is known.decide:
            return which
    return OTHER


# Numba can't keep machine code of a function that gets another as an argument, hence numbers.
@kernel
def pick(q: Any, now: int) -> int:
    """The slot that the queue's scheduler would send now, or NONE."""
    scheduler = q[SCHEDULER]
    if scheduler == TWINS:
        return twins(q, now)
    if scheduler == TWINS_WORK_CONSERVING:
        return twins_work_conserving(q, now)
    if scheduler == SJF:
        return sjf(q, now)
    if scheduler == HBRR:
        return hbrr(q, now)
    if scheduler == MLF:
        return mlf(q, now)
    if scheduler == WFQ:
        return wfq(q, now)
    return first(q)  # fifo, to-agg, and a stranger that nobody asked


@kernel
def enter(q: Any, at: int) -> None:
    """A request begins to wait: it enters what its scheduler keeps of those that wait."""
    scheduler = q[SCHEDULER]
    if scheduler in (TWINS, TWINS_WORK_CONSERVING):
        enter_server(q, at)
    elif scheduler in (HBRR, MLF):
        enter_file(q, at)
    elif scheduler == SJF:
        enter_by_size(q, at)
    elif scheduler == WFQ:
        enter_by_finish(q, at)
    if q[AGGREGATE]:
        enlist(q, at)


@kernel
def leave(q: Any, at: int) -> None:
    """A request waits no longer: the reverse of `enter`."""
    scheduler = q[SCHEDULER]
    if scheduler in (TWINS, TWINS_WORK_CONSERVING):
        unlink_from_group(q, at)
    elif scheduler in (HBRR, MLF):
        leave_file(q, at)
    elif scheduler == SJF:
        remove(q, at)
    elif scheduler == WFQ:
        leave_by_finish(q, at)
    if q[AGGREGATE]:
        strike(q, at)
