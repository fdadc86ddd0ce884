"""`best-bandwidth`."""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.decide.storage.turn import any_best
from forebay.model.compiled import kernel
from forebay.model.ledger import survey, survey_longest

_GB = 1e9


@kernel
def best_bandwidth(ledger: Any, size: int, start: float, end: float, duration: float, turn: Any) -> int:
    """The disk with room that promises most bandwidth if everybody who overlaps does I/O all the time."""
    letter = turn.state[0].letter
    score, taken, others, shared, disks = turn.score, turn.taken, turn.others, turn.shared, ledger.disks
    survey(ledger, start, end, False, taken, others)
    survey_longest(ledger, start, end, others, shared)
    per_second = 1.0 / duration
    for node in ledger.nodes:
        busy, busy_bandwidth = 0, 0.0
        for disk in range(node.first, node.first + node.disks):
            record = disks[disk]
            promise = record.write_bandwidth
            if others[disk] > 0:
                busy += 1
                busy_bandwidth += record.read_bandwidth
                if letter:
                    promise = _to_the_letter(promise, others[disk], shared[disk], duration)
                else:  # alone for the rest of the time, one of several while shared
                    promise *= 1.0 - shared[disk] * per_second * (others[disk] / (others[disk] + 1.0))
            score[disk] = promise if record.capacity - taken[disk] >= size else -np.inf
        network = node.network_bandwidth
        limit = network - busy_bandwidth if busy_bandwidth < network else network / (busy + 1)
        for disk in range(node.first, node.first + node.disks):
            score[disk] = min(score[disk], limit)
    return any_best(turn, False)


@kernel
def _to_the_letter(bandwidth: float, others: int, shared: float, duration: float) -> float:
    """The same in StorAlloc's own steps, rounded to 1 MB/s."""
    alone = bandwidth / _GB
    if alone == np.inf:
        return alone
    mean = ((duration - shared) * alone + shared * (alone / (others + 1))) / duration
    return _rounded(mean) * _GB


@kernel
def _rounded(value: float) -> float:
    """To three digits, as Python does it: numba's `round` takes what only comes close to a half for one."""
    thousands = value * 1000.0
    whole = np.floor(thousands)
    beyond = thousands - whole
    if beyond != 0.5:
        return (whole + (beyond > 0.5)) / 1000.0  # type: ignore[no-any-return]
    high = value * 134217729.0  # Dekker 1971: of the product, what the double `thousands` has lost
    high -= high - value
    lost = (high * 1000.0 - thousands) + (value - high) * 1000.0
    return (whole + (lost > 0 or (lost == 0 and whole % 2 == 1))) / 1000.0  # type: ignore[no-any-return]
