"""One request placed: split into parts where it is too large for one, each part on a disk, all or nothing.

The simulator and the live service place by the same kernel. `at` is a record of (at least) PLACING's fields, in
which a request that waits for the answer of somebody else's policy keeps its place.
"""

import numpy as np

from forebay.decide.storage.forebay import spread
from forebay.decide.storage.policies import OTHER, SPREADS, choose
from forebay.model.kernels import Array, kernel
from forebay.model.ledger import book, next_free, peak, unbook

GB = 10**9
PART = np.dtype(
    [
        ("bytes", np.int64),
        ("disk", np.int32),  # -1 if refused
        ("booking", np.int64),
    ]
)
PLACING = [
    ("parts", np.int64),  # the request's parts are noted from here on
    ("part", np.int64),  # of the request, the next to place
    ("answered", np.bool_),  # for somebody else's policy: `answer` is the disk that it chose
    ("answer", np.int64),
    ("size", np.int64),  # and this is what it is asked
    ("start", np.float64),  # from when to when the request is to hold its space
    ("end", np.float64),
    ("duration", np.float64),
]
ASK_POLICY = -1


@kernel
def pieces_of(size: int, split: int) -> int:
    """Into how many parts a request is split; 0 bytes for `split` means never."""
    if split == 0 or size <= split:
        return 1
    return (size + split - 1) // split


@kernel
def piece_of(size: int, split: int, part: int, letter: bool) -> int:
    """How large part number `part` is."""
    pieces = pieces_of(size, split)
    piece = size if pieces == 1 else split if part < pieces - 1 else size - split * (pieces - 1)
    return (piece + GB - 1) // GB * GB if letter else piece


@kernel
def most_parts(size: int, split: int, policy: int, disks: int) -> int:
    """No request gets more parts than this."""
    pieces = pieces_of(size, split)
    return max(pieces, disks) if policy == SPREADS else pieces


@kernel
def place(ledger: Array, turn: Array, parts: Array, at: Array, size: int, policy: int, letter: bool, split: int) -> int:
    """Book the request's parts from number `at.part` on, until all have a disk or one is refused.

    `at` says from when to when. Returns how many parts there are to be (`is_placed` tells whether there are), or
    ASK_POLICY: somebody else's policy must say which disk it chooses for `at.size` bytes, and `place` be called again.
    """
    pieces = pieces_of(size, split)
    if policy == SPREADS and pieces > 1 and not letter:
        pieces = spread(ledger, size, at.start, at.end, turn, pieces)
        for disk in range(turn.share.size if pieces > 0 else 0):
            if turn.share[disk] > 0:
                _grant(ledger, parts, at, disk, turn.share[disk], turn.share[disk])
        return pieces
    while at.part < pieces:
        piece = piece_of(size, split, at.part, letter)
        if policy != OTHER:
            disk = choose(policy, ledger, piece, at.start, at.end, at.duration, turn)
        elif at.answered:
            at.answered = False
            disk = at.answer
        else:
            at.size = piece
            return ASK_POLICY
        if disk < 0:
            break
        # StorAlloc books all parts with the last one's size.
        held = piece_of(size, split, pieces - 1, True) if letter else piece
        _grant(ledger, parts, at, disk, piece, held)
    return pieces


@kernel
def is_placed(at: Array, pieces: int) -> bool:
    """Whether all of the request has a disk."""
    return at.part > 0 and at.part == pieces  # type: ignore[no-any-return]


@kernel
def _grant(ledger: Array, parts: Array, at: Array, disk: int, size: int, held: int) -> None:
    """Note the request's next part, and book `held` bytes for it."""
    part = parts[at.parts + at.part]
    part.bytes, part.disk = size, disk
    part.booking = book(ledger, disk, at.start, at.end, held)
    at.part += 1


@kernel
def take_back(ledger: Array, parts: Array, at: Array) -> None:
    """Unbook what the request has so far."""
    for k in range(at.part):
        part = parts[at.parts + k]
        unbook(ledger, part.disk, at.start, at.end, part.booking)


@kernel
def try_place(
    ledger: Array,
    turn: Array,
    parts: Array,
    cursor: Array,
    size: int,
    start: float,
    end: float,
    policy: int,
    split: int,
) -> int:
    """What `place` would do, noted in `parts` and not booked; 0 if there is no room for all of it."""
    at = cursor[0]
    at.start, at.end, at.duration = start, end, end - start
    pieces = place(ledger, turn, parts, at, size, policy, False, split)
    if pieces == ASK_POLICY:
        return ASK_POLICY
    fits = is_placed(at, pieces)
    for k in range(at.part if fits else 0):  # whether every disk really has the room: some policies don't look
        disk = parts[at.parts + k].disk
        most, _ = peak(ledger, disk, start, end)
        fits = fits and most <= ledger.disks[disk].capacity
    take_back(ledger, parts, at)
    return pieces if fits else 0


@kernel
def soonest(ledger: Array, size: int, start: float, duration: float) -> float:
    """When, from `start` on, some disk first has `size` bytes free for `duration` seconds; inf if never."""
    first = np.inf
    for disk in range(ledger.disks.size):
        first = min(first, next_free(ledger, disk, size, start, duration))
        if first <= start:
            break
    return first
