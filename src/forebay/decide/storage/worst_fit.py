"""`worst-fit`."""

from __future__ import annotations

from typing import Any

from forebay.decide.storage.policy_memory import any_best
from forebay.model.kernels import kernel
from forebay.model.ledger import survey


@kernel
def worst_fit(ledger: Any, size: int, start: float, end: float, duration: float, turn: Any) -> int:
    """The disk with the largest part of it free, even if that is too little; ties by chance."""
    score, taken, disks = turn.score, turn.taken, ledger.disks
    survey(ledger, start, end, False, taken, turn.others)
    for disk in range(score.size):
        capacity = disks[disk].capacity
        score[disk] = (capacity - taken[disk]) * 100.0 / capacity
    return any_best(turn, turn.state[0].letter)
