"""Every storage policy keeps the contract, and one that doesn't is told so by name."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forebay.decide.conformance import check_storage
from forebay.decide.policy import Input, storage
from forebay.decide.registry import policies
from forebay.model.errors import PolicyError
from forebay.model.kernels import kernel
from forebay.model.ledger import book, total_overlap

Decide = Callable[..., Any]
ALL = [Input.BOOKED, Input.DISK_BANDWIDTH]


@pytest.mark.parametrize("name", policies("storage"))
def test_every_registered_storage_policy_conforms(name: str) -> None:
    check_storage(policies("storage")[name])


@kernel
def always_the_first(ledger: Any, size: int, start: float, end: float, duration: float, turn: Any) -> int:  # noqa: ARG001
    """The first disk."""
    return 0


def test_kernels_and_numbers_of_numpy_will_do() -> None:
    check_storage(storage("mine")(always_the_first))
    check_storage(storage("mine")(lambda ledger, *_: np.argmax(ledger.disks["capacity"])))
    check_storage(storage("mine", prepares=True)(lambda _: always_the_first))


def remembers() -> Decide:
    seen: list[int] = []

    def decide(ledger: Any, *_: Any) -> int:
        seen.append(1)
        return len(seen) * 7 // 100 % len(ledger.disks)

    return decide


def books(ledger: Any, size: int, start: float, end: float, *_: Any) -> int:
    book(ledger, 0, start, end, size)
    return 0


def moves_the_horizon(ledger: Any, _: int, start: float, *__: Any) -> int:
    ledger.horizon[0] = max(ledger.horizon[0], start)
    return 0


def speeds_up(ledger: Any, *_: Any) -> int:
    ledger.disks["write_bandwidth"] *= 2
    return 0


def makes_room(ledger: Any, *_: Any) -> int:
    ledger.disks["level"][-1] -= 1
    return 0


def by_booking(ledger: Any, size: int, start: float, end: float, *_: Any) -> int:  # noqa: ARG001
    taken = [total_overlap(ledger, disk, start, end)[0] for disk in range(len(ledger.disks))]
    return taken.index(min(taken))


def by_bandwidth(ledger: Any, *_: Any) -> int:
    return int(np.argmax(ledger.disks["write_bandwidth"]))


def fails_when_full(ledger: Any, size: int, start: float, end: float, *_: Any) -> int:
    free = int(ledger.disks["capacity"][0]) - int(total_overlap(ledger, 0, start, end)[0])
    return 0 * (size // free)


def divides_by_the_duration(_: Any, size: int, start: float, end: float, duration: float, turn: Any) -> int:  # noqa: ARG001
    return int(size / duration) * 0


def only_while_it_fits_on_the_last(ledger: Any, size: int, *_: Any) -> int:
    return len(ledger.disks) - 1 if size > 50 else -1


BROKEN: dict[str, Decide] = {
    "returns disk 1; expected 0 to 0, or -1 to refuse": lambda *_: 1,
    "returns disk -2; expected 0 to 0, or -1": lambda *_: -2,
    "returns 0.0, which is not an int": lambda *_: 0.0,
    "returns None, which is not an int": lambda *_: None,
    "returns True, which is not an int": lambda *_: True,
    "returns '0', which is not an int": lambda *_: "0",
    "refuses a request although nothing is booked": lambda *_: -1,
    "every disk has room for it": only_while_it_fits_on_the_last,
    "returns different answers for the same ledger": lambda ledger, *_: random.randrange(len(ledger.disks)),
    "same ledger, request and seed": remembers(),
    r"changes the ledger, which is read-only \(one disk\)": books,
    "changes the ledger, which is": moves_the_horizon,
    "changes the ledger, which": speeds_up,
    "changes the ledger": makes_room,
    "raises ZeroDivisionError for disks that are full": fails_when_full,
    "raises ZeroDivisionError for requests for no time at all": divides_by_the_duration,
    "depends on the space booked": by_booking,
    "depends on the disk bandwidths": by_bandwidth,
}


@pytest.mark.parametrize("complaint", BROKEN)
def test_a_broken_storage_policy_is_caught_and_told_what_it_broke(complaint: str) -> None:
    inputs = [] if complaint.startswith("depends") else ALL
    with pytest.raises(PolicyError, match=complaint) as raised:
        check_storage(storage("mine", inputs=inputs)(BROKEN[complaint]))
    assert str(raised.value).startswith("mine: ")


@pytest.mark.parametrize(("function", "inputs"), [(by_booking, [Input.BOOKED]), (by_bandwidth, [Input.DISK_BANDWIDTH])])
def test_what_is_declared_may_be_used(function: Decide, inputs: list[Input]) -> None:
    check_storage(storage("mine", inputs=inputs)(function))


def test_a_placer_is_no_storage_policy() -> None:
    with pytest.raises(PolicyError, match="random: is of kind 'place', not 'storage'"):
        check_storage(policies("place")["random"])
