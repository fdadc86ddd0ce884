"""`forebay`."""

import numpy as np

from forebay.decide.storage.policy_memory import REFUSED
from forebay.model.kernels import Array, kernel
from forebay.model.ledger import survey

_FINER = 8  # parts are on average no smaller than the threshold by more than this
_ANY = 1e18  # bytes per second that are as good as infinitely many


@kernel
def _look(ledger: Array, start: float, end: float, turn: Array) -> None:
    """For every disk, the room that is left over all of [start, end), and the bandwidth that a newcomer can expect."""
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
    """The disk with room where the newcomer gets most bandwidth when it is most crowded; then the best fit."""
    _look(ledger, start, end, turn)
    room, score, state = turn.share, turn.score, turn.state[0]
    chosen, best, least = REFUSED, -np.inf, np.int64(0)
    disk = state.current  # after the last one that was chosen, so that equal disks take turns
    for _ in range(score.size):
        disk = 0 if disk == score.size else disk
        if room[disk] >= size and (score[disk] > best or (score[disk] == best and room[disk] < least)):
            chosen, best, least = disk, score[disk], room[disk]
        disk += 1
    state.current = chosen + 1
    return chosen


@kernel
def spread(ledger: Array, size: int, start: float, end: float, turn: Array, pieces: int) -> int:
    """Split a request so that all parts are done at the same time: `turn.share` becomes the bytes for every disk.

    Parts go to the disks with most bandwidth to expect: to as many as the threshold makes
    `pieces`, to all that nobody else uses, and to as many as it takes to find the room. Each gets
    bytes in proportion to its bandwidth, but no more than it has room for. Returns the number of
    parts; 0 if the room of all disks together is not enough.
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
    # Who has least room for its bandwidth is filled first; the others share what is left.
    order = np.argsort(room / score)
    bandwidth = np.zeros(order.size + 1)  # of a disk and all that come after it; to subtract it would not be exact
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
    for disk in order:  # a few bytes of very many may be left, where doubles are too coarse
        if left > 0 and room[disk] > 0:
            more = min(left, ledger.disks[disk].capacity - turn.taken[disk] - room[disk])
            left -= more
            room[disk] += more
    return parts
