"""Every request scheduler keeps the contract, and one that doesn't is told so by name."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forebay.decide.conformance import check_order
from forebay.decide.order.queue_layout import LEFT, NONE
from forebay.decide.order.slots import (
    after,
    arrival_of,
    file_of,
    first,
    offset_of,
    recall,
    remember,
    server_of,
    size_of,
    wake_at,
)
from forebay.decide.policy import order
from forebay.decide.registry import find, policies
from forebay.model.errors import PolicyError
from forebay.model.kernels import kernel

Pick = Callable[[Any, int], Any]


@pytest.mark.parametrize("name", policies("order"))
def test_every_registered_scheduler_conforms(name: str) -> None:
    check_order(policies("order")[name])


@pytest.mark.parametrize(
    "spec",
    [
        "fifo:aggregate=1048576",
        "sjf:patience=3:aggregate=1048576",
        "hbrr:quantum=1:aggregate=0",
        "mlf:quantum=1:aggregate=1048576",
        "wfq:aggregate=1048576",
        "twins:window=1000",
        "twins:window=125000:aggregate=1048576",
        "twins-work-conserving:window=8000000",
    ],
)
def test_schedulers_conform_with_other_settings(spec: str) -> None:
    check_order(find("order", spec))


@kernel
def newest(q: Any, now: int) -> int:  # noqa: ARG001
    """The newest request."""
    chosen = slot = first(q)
    while slot != NONE:
        chosen, slot = slot, after(q, slot)
    return chosen


@kernel
def lowest_offset(q: Any, now: int) -> int:  # noqa: ARG001
    """The lowest offset."""
    chosen = slot = first(q)
    while slot != NONE:
        if offset_of(q, slot) < offset_of(q, chosen):
            chosen = slot
        slot = after(q, slot)
    return chosen


@kernel
def another_file(q: Any, now: int) -> int:  # noqa: ARG001
    """The oldest of another file than that of the last one."""
    chosen = slot = first(q)
    while slot != NONE:
        if file_of(q, slot) + 1 != recall(q, 0):
            chosen = slot
            break
        slot = after(q, slot)
    remember(q, 0, file_of(q, chosen) + 1)
    return chosen


@kernel
def holds_back(q: Any, now: int) -> int:
    """In the order of arrival, but not before 50 microseconds after it."""
    due = arrival_of(q, first(q)) + 50_000
    if now < due:
        wake_at(q, due)
        return NONE
    return first(q)


@pytest.mark.parametrize("function", [newest, lowest_offset, another_file, holds_back])
def test_a_scheduler_of_somebody_else_conforms_because_the_queue_is_patient_for_it(function: Pick) -> None:
    check_order(order("mine")(function))


def test_a_plain_function_is_compiled() -> None:
    check_order(order("mine", keeps_file_order=True, patient=False)(lambda q, now: first(q)))  # noqa: ARG005


@kernel
def hides_the_first(q: Any, now: int) -> int:  # noqa: ARG001
    """All but the first, which goes alone."""
    slot = after(q, first(q))
    return first(q) if slot == NONE else slot


def not_the_large(q: Any, now: int) -> int:  # noqa: ARG001
    slot = first(q)
    while slot != NONE and size_of(q, slot) > 65536:
        slot = after(q, slot)
    return slot


def only_server_zero(q: Any, now: int) -> int:
    slot = first(q)
    while slot != NONE and server_of(q, slot) != 0:
        slot = after(q, slot)
    if slot == NONE:
        wake_at(q, now + 10)
    return slot


def wants_the_past(q: Any, now: int) -> int:
    wake_at(q, now - 1)
    return NONE


def wants_the_present(q: Any, now: int) -> int:
    wake_at(q, now)
    return NONE


def tampers(q: Any, now: int) -> int:  # noqa: ARG001
    q[LEFT] += 1
    return first(q)


def by_chance(q: Any, now: int) -> int:  # noqa: ARG001
    slot = first(q)
    while np.random.random() < 0.5 and after(q, slot) != NONE:
        slot = after(q, slot)
    return slot


def a_float(q: Any, now: int) -> float:  # noqa: ARG001
    return float(first(q))


def no_kernel(q: Any, now: int) -> int:
    return now[q]  # type: ignore[index]


BROKEN: dict[str, Pick] = {
    "returns a slot in which no request waits": lambda q, now: first(q) + 1,  # noqa: ARG005
    "returns a slot in which no": lambda q, now: 10**9,  # noqa: ARG005
    "returns a slot in which": lambda q, now: -3,  # noqa: ARG005
    r"sends nothing although requests wait .*\(one request\)": lambda q, now: NONE,  # noqa: ARG005
    "sends nothing although requests wait and none are in flight": not_the_large,
    "sends nothing in 1000 calls although requests wait": only_server_zero,
    r"asks to be called again at a time that is not in the future": wants_the_past,
    r"asks to be called again at a time": wants_the_present,
    "changes the queue; only its notes and wake time may change": tampers,
    "sends the same requests in a different order when run again": by_chance,
    "returns 0.0, which is not an int": a_float,
    "breaks its promise to keep the order of requests to a file": newest,
    "lets a request wait while it sends [0-9]+ others": hides_the_first,
    "lets a request wait while": newest,
    "raises .* for one request": no_kernel,
}


@pytest.mark.parametrize("complaint", BROKEN)
def test_a_broken_scheduler_is_caught_and_told_what_it_broke(complaint: str) -> None:
    promises = complaint.startswith("breaks its promise")
    with pytest.raises(PolicyError, match=complaint) as raised:
        check_order(order("mine", keeps_file_order=promises, patient=False)(BROKEN[complaint]))
    assert str(raised.value).startswith("mine: ")
    assert "\n" not in str(raised.value)


def test_a_storage_policy_is_no_scheduler() -> None:
    with pytest.raises(PolicyError, match="random: is of kind 'storage', not 'order'"):
        check_order(policies("storage")["random"])
