"""The built-in storage policies, and one kernel that dispatches to them."""

import numpy as np

from forebay.decide.policy import Input, Policy, storage
from forebay.decide.storage.forebay import forebay
from forebay.decide.storage.policy_memory import REFUSED, any_best
from forebay.model.kernels import Array, kernel
from forebay.model.ledger import peak, survey, survey_longest, total_overlap
from forebay.model.random_numbers import draw

_PAPER = "Monniot et al. 2023"
_CODE = f"{_PAPER}, as in its code"
_PATIENCE = 5
_GB = 1e9


@kernel
def random(ledger: Array, size: int, start: float, end: float, duration: float, turn: Array) -> int:
    """A random server, node and disk, whether it has room or not."""
    server = ledger.servers[draw(turn.chance, ledger.servers.size)]
    node = ledger.nodes[server.first + draw(turn.chance, server.nodes)]
    return node.first + draw(turn.chance, node.disks)  # type: ignore[no-any-return]


@kernel
def round_robin(ledger: Array, size: int, start: float, end: float, duration: float, turn: Array) -> int:
    """The next disk of the next node with more room than needed; refuses after five disks without room."""
    state = turn.state[0]
    while True:
        which = state.server % ledger.servers.size
        state.server += 1
        if which == 0:
            state.node += 1
        server = ledger.servers[which]
        at = server.first + state.node % server.nodes
        node = ledger.nodes[at]
        disk = node.first + turn.disk[at] % node.disks
        turn.disk[at] += 1
        taken, _ = total_overlap(ledger, disk, start, end)
        if ledger.disks[disk].capacity - taken > size:
            return disk  # type: ignore[no-any-return]
        state.failed += 1  # as in StorAlloc, the count continues over requests
        if state.failed >= _PATIENCE:
            state.failed = 0
            return REFUSED


@kernel
def worst_fit(ledger: Array, size: int, start: float, end: float, duration: float, turn: Array) -> int:
    """The disk with the largest free share, even if it is too small; ties at random."""
    score, taken, disks = turn.score, turn.taken, ledger.disks
    survey(ledger, start, end, False, taken, turn.others)
    for disk in range(score.size):
        capacity = disks[disk].capacity
        score[disk] = (capacity - taken[disk]) * 100.0 / capacity
    return any_best(turn, turn.state[0].letter)


@kernel
def _room(ledger: Array, disk: int, start: float, end: float) -> int:
    most, _ = peak(ledger, disk, start, end)
    return ledger.disks[disk].capacity - most  # type: ignore[no-any-return]


@kernel
def fill(ledger: Array, size: int, start: float, end: float, duration: float, turn: Array) -> int:
    """One disk until it is full, then the next (what the paper's text calls worst-fit)."""
    state = turn.state[0]
    disks = ledger.disks.size
    for _ in range(disks):
        if _room(ledger, state.current, start, end) >= size:
            return state.current  # type: ignore[no-any-return]
        state.current = (state.current + 1) % disks
    return REFUSED


@kernel
def first_fit(ledger: Array, size: int, start: float, end: float, duration: float, turn: Array) -> int:
    """The first disk that has room."""
    for disk in range(ledger.disks.size):
        if _room(ledger, disk, start, end) >= size:
            return disk
    return REFUSED


@kernel
def best_fit(ledger: Array, size: int, start: float, end: float, duration: float, turn: Array) -> int:
    """The disk with the least sufficient room."""
    taken, disks = turn.taken, ledger.disks
    survey(ledger, start, end, True, taken, turn.others)
    chosen, least = REFUSED, 0
    for disk in range(disks.size):
        room = disks[disk].capacity - taken[disk]
        if room >= size and (chosen == REFUSED or room < least):
            chosen, least = disk, room
    return chosen


@kernel
def best_bandwidth(ledger: Array, size: int, start: float, end: float, duration: float, turn: Array) -> int:
    """The disk with room and the most bandwidth, if all overlapping jobs do I/O all the time."""
    disks, letter, score = ledger.disks, turn.state[0].letter, turn.score
    taken, others, shared = turn.taken, turn.others, turn.shared
    survey(ledger, start, end, False, taken, others)
    survey_longest(ledger, start, end, others, shared)
    per_second = 1.0 / duration
    for disk in range(disks.size):  # alone for some of the time, shared for the rest
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
    for index in range(ledger.nodes.size):  # limited by what the other busy disks leave of the node's network
        node = ledger.nodes[index]
        busy, bandwidth = 0, 0.0
        for disk in range(node.first, node.first + node.disks):
            if others[disk] > 0:
                busy += 1
                bandwidth += disks[disk].read_bandwidth
        network = node.network_bandwidth
        limit = network - bandwidth if bandwidth < network else network / (busy + 1)
        for disk in range(node.first, node.first + node.disks):
            score[disk] = min(score[disk], limit)
    return any_best(turn, False)


@kernel
def _to_the_letter(bandwidth: float, others: int, shared: float, duration: float) -> float:
    """Compute the same as StorAlloc does, rounded to 1 MB/s."""
    alone = bandwidth / _GB
    if alone == np.inf:
        return alone
    mean = ((duration - shared) * alone + shared * (alone / (others + 1))) / duration
    return _round_to_three_digits(mean) * _GB


@kernel
def _round_to_three_digits(value: float) -> float:
    """Round to three digits as Python does; numba's `round` treats numbers close to a half as halves."""
    thousands = value * 1000.0
    whole = np.floor(thousands)
    beyond = thousands - whole
    if beyond != 0.5:
        return (whole + (beyond > 0.5)) / 1000.0  # type: ignore[no-any-return]
    high = value * 134217729.0  # Dekker 1971: the rounding error of the product `thousands`
    high -= high - value
    lost = (high * 1000.0 - thousands) + (value - high) * 1000.0
    return (whole + (lost > 0 or (lost == 0 and whole % 2 == 1))) / 1000.0  # type: ignore[no-any-return]


STORAGE = (
    storage("random", source=_PAPER)(random),
    storage("round-robin", inputs=[Input.BOOKED], source=_PAPER)(round_robin),
    storage("worst-fit", inputs=[Input.BOOKED], source=_CODE)(worst_fit),
    storage("best-bandwidth", inputs=[Input.BOOKED, Input.DISK_BANDWIDTH], source=_PAPER)(best_bandwidth),
    storage("fill", inputs=[Input.BOOKED], source=f"{_PAPER}, worst-fit as in its text")(fill),
    storage("first-fit", inputs=[Input.BOOKED], source="textbook")(first_fit),
    storage("best-fit", inputs=[Input.BOOKED], source="textbook")(best_fit),
    storage("forebay", inputs=[Input.BOOKED, Input.DISK_BANDWIDTH], source="Forebay")(forebay),
)
OTHER = -1  # a policy of another package: the caller calls it
SPREADS = [policy.name for policy in STORAGE].index("forebay")  # splits requests itself


def number(policy: Policy) -> int:
    """Return the policy's number for `choose`."""
    return STORAGE.index(policy) if policy in STORAGE else OTHER


# Numba cannot cache a function that takes another function as an argument, so policies have numbers.
@kernel
def choose(policy: int, *request: Array) -> int:
    """Call STORAGE[policy] with (ledger, size, start, end, duration, turn)."""
    if policy <= 1:
        return random(*request) if policy == 0 else round_robin(*request)
    if policy <= 3:
        return worst_fit(*request) if policy == 2 else best_bandwidth(*request)
    if policy <= 5:
        return fill(*request) if policy == 4 else first_fit(*request)
    return best_fit(*request) if policy == 6 else forebay(*request)
