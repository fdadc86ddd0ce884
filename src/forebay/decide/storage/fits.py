"""`fill`, `first-fit` and `best-fit`: they know how full a disk really gets, not only who overlaps."""

from __future__ import annotations

from typing import Any

from forebay.decide.storage.policy_memory import REFUSED
from forebay.model.kernels import kernel
from forebay.model.ledger import peak, survey


@kernel
def _room(ledger: Any, disk: int, start: float, end: float) -> int:
    most, _ = peak(ledger, disk, start, end)
    return ledger.disks[disk].capacity - most  # type: ignore[no-any-return]


@kernel
def fill(ledger: Any, size: int, start: float, end: float, duration: float, turn: Any) -> int:
    """One disk until it is full, then the next (what the paper's text calls worst-fit)."""
    state = turn.state[0]
    disks = ledger.disks.size
    for _ in range(disks):
        if _room(ledger, state.current, start, end) >= size:
            return state.current  # type: ignore[no-any-return]
        state.current = (state.current + 1) % disks
    return REFUSED


@kernel
def first_fit(ledger: Any, size: int, start: float, end: float, duration: float, turn: Any) -> int:
    """The first disk that has room."""
    for disk in range(ledger.disks.size):
        if _room(ledger, disk, start, end) >= size:
            return disk
    return REFUSED


@kernel
def best_fit(ledger: Any, size: int, start: float, end: float, duration: float, turn: Any) -> int:
    """The disk with the least room that is enough."""
    taken, disks = turn.taken, ledger.disks
    survey(ledger, start, end, True, taken, turn.others)
    chosen, least = REFUSED, 0
    for disk in range(disks.size):
        room = disks[disk].capacity - taken[disk]
        if room >= size and (chosen == REFUSED or room < least):
            chosen, least = disk, room
    return chosen
