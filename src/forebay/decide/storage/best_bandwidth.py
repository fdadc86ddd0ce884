"""`best-bandwidth`."""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.decide.storage.policy_memory import any_best
from forebay.model.kernels import kernel
from forebay.model.ledger import survey, survey_longest

_GB = 1e9


@kernel
def best_bandwidth(ledger: Any, size: int, start: float, end: float, duration: float, turn: Any) -> int:
    """The disk with room that promises most bandwidth if everybody who overlaps does I/O all the time."""
    survey(ledger, start, end, False, turn.taken, turn.others)
    survey_longest(ledger, start, end, turn.others, turn.shared)
    _promise(ledger.disks, size, duration, turn.state[0].letter, turn.taken, turn.others, turn.shared, turn.score)
    _throttle(ledger.disks, ledger.nodes, turn.others, turn.score)
    return any_best(turn, False)


@kernel
def _promise(
    disks: Any, size: int, duration: float, letter: bool, taken: Any, others: Any, shared: Any, score: Any
) -> None:
    """The bandwidth of every disk with room: alone for part of the time, one of several while that is shared."""
    per_second = 1.0 / duration
    for disk in range(disks.size):
        record = disks[disk]
        if record.capacity - taken[disk] < size:
            score[disk] = -np.inf
        elif others[disk] == 0:
            score[disk] = record.write_bandwidth
        elif letter:
            score[disk] = _to_the_letter(record.write_bandwidth, others[disk], shared[disk], duration)
        else:
            lost = shared[disk] * per_second * (others[disk] / (others[disk] + 1.0))
            score[disk] = record.write_bandwidth * (1.0 - lost)


@kernel
def _throttle(disks: Any, nodes: Any, others: Any, score: Any) -> None:
    """No disk can promise more than its node's network has left beside the other busy disks."""
    for index in range(nodes.size):
        node = nodes[index]
        busy, bandwidth = 0, 0.0
        for disk in range(node.first, node.first + node.disks):
            if others[disk] > 0:
                busy += 1
                bandwidth += disks[disk].read_bandwidth
        network = node.network_bandwidth
        limit = network - bandwidth if bandwidth < network else network / (busy + 1)
        for disk in range(node.first, node.first + node.disks):
            score[disk] = min(score[disk], limit)


@kernel
def _to_the_letter(bandwidth: float, others: int, shared: float, duration: float) -> float:
    """The same in StorAlloc's own steps, rounded to 1 MB/s."""
    alone = bandwidth / _GB
    if alone == np.inf:
        return alone
    mean = ((duration - shared) * alone + shared * (alone / (others + 1))) / duration
    return _round_to_three_digits(mean) * _GB


@kernel
def _round_to_three_digits(value: float) -> float:
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
