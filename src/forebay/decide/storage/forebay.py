"""The storage policy `forebay`."""

import numpy as np

from forebay.decide.storage.policy_memory import REFUSED
from forebay.model.kernels import Array, kernel
from forebay.model.ledger import survey

_FINER = 8  # idle disks add parts up to this many times the number by the threshold
_ANY = 1e18  # bytes per second; stands in for infinity


@kernel
def _look(ledger: Array, start: float, end: float, turn: Array) -> None:
    """Compute, for every disk, the room over all of [start, end) and the bandwidth that a new request can expect."""
    share, score, taken, others, disks = turn.share, turn.score, turn.taken, turn.others, ledger.disks
    survey(ledger, start, end, True, taken, others)
    for node in ledger.nodes:
        network = min(_ANY, node.network_bandwidth / node.disks)
        for disk in range(node.first, node.first + node.disks):
            record = disks[disk]
            share[disk] = record.capacity - taken[disk]
            score[disk] = min(record.write_bandwidth, network) / (others[disk] + 1)


@kernel
def forebay(ledger: Array, size: int, start: float, end: float, duration: float, turn: Array) -> int:
    """The disk with room and the most bandwidth at its busiest time; of equal disks, the best fit."""
    _look(ledger, start, end, turn)
    room, score, state = turn.share, turn.score, turn.state[0]
    chosen, best, least = REFUSED, -np.inf, np.int64(0)
    disk = state.current  # after the last choice, so that equal disks take turns
    for _ in range(score.size):
        disk = 0 if disk == score.size else disk
        if room[disk] >= size and (score[disk] > best or (score[disk] == best and room[disk] < least)):
            chosen, best, least = disk, score[disk], room[disk]
        disk += 1
    state.current = chosen + 1
    return chosen


@kernel
def spread(ledger: Array, size: int, start: float, end: float, turn: Array, pieces: int) -> int:
    """Split a request so that all parts finish together: write the bytes for every disk to `turn.share`.

    Parts go to the disks with the most expected bandwidth: to at least `pieces` disks, to all idle
    disks, and to as many as the size needs. Each disk gets bytes in proportion to its bandwidth, up
    to its room. Returns the number of parts; 0 if all disks together have too little room.
    """
    _look(ledger, start, end, turn)
    room, score, others = turn.share, turn.score, turn.others
    parts, free = 0, np.int64(0)
    for disk in np.argsort(-score):
        idle = others[disk] == 0 and parts < _FINER * pieces
        if room[disk] > 0 and (parts < pieces or idle or free < size):
            parts += 1
            free += room[disk]
        else:
            room[disk] = 0
    if free < size:
        return 0
    # Fill the disk with the least room for its bandwidth first; the others share what is left.
    order = np.argsort(room / score)
    bandwidth = np.zeros(order.size + 1)  # of a disk and all after it; subtraction would not be exact
    for k in range(order.size - 1, -1, -1):
        bandwidth[k] = bandwidth[k + 1] + (score[order[k]] if room[order[k]] > 0 else 0.0)
    parts, left = 0, size
    for k in range(order.size):
        disk = order[k]
        if room[disk] > 0:
            part = min(left, min(room[disk], np.int64(np.ceil(left * (score[disk] / bandwidth[k])))))
            left -= part
            room[disk] = part
            parts += part > 0
    for disk in order:  # rounding of doubles may leave a few bytes
        if left > 0 and room[disk] > 0:
            more = min(left, ledger.disks[disk].capacity - turn.taken[disk] - room[disk])
            left -= more
            room[disk] += more
    return parts
