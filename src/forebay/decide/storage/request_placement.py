"""Places one request: splits it into parts if it is too large, and puts all parts on disks or none.

The simulator and the live service use the same kernel. `at` is a record with (at least) the fields PLACING. It keeps
the progress of a request while a policy of another package chooses a disk.
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
    ("parts", np.int64),  # index of the request's first part
    ("part", np.int64),  # number of the next part to place
    ("answered", np.bool_),  # for a policy of another package: `answer` is the disk that it chose
    ("answer", np.int64),
    ("size", np.int64),  # the bytes of the part in question
    ("start", np.float64),  # the time over which the request holds its space
    ("end", np.float64),
    ("duration", np.float64),
]
ASK_POLICY = -1


@kernel
def pieces_of(size: int, split: int) -> int:
    """Return the number of parts of a request; if `split` is 0, requests are never split."""
    if split == 0 or size <= split:
        return 1
    return (size + split - 1) // split


@kernel
def piece_of(size: int, split: int, part: int, letter: bool) -> int:
    """Return the bytes of part number `part`."""
    pieces = pieces_of(size, split)
    piece = size if pieces == 1 else split if part < pieces - 1 else size - split * (pieces - 1)
    return (piece + GB - 1) // GB * GB if letter else piece


@kernel
def most_parts(size: int, split: int, policy: int, disks: int) -> int:
    """Return the most parts that a request of this size can get."""
    pieces = pieces_of(size, split)
    return max(pieces, disks) if policy == SPREADS else pieces


@kernel
def place(ledger: Array, turn: Array, parts: Array, at: Array, size: int, policy: int, letter: bool, split: int) -> int:
    """Book the request's parts from number `at.part` on, until all have a disk or one is refused.

    Returns the number of parts of the request (`is_placed` says whether all have a disk), or ASK_POLICY: the caller
    must ask a policy of another package for a disk for `at.size` bytes, and then call `place` again.
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
    """Whether every part of the request has a disk."""
    return at.part > 0 and at.part == pieces  # type: ignore[no-any-return]


@kernel
def _grant(ledger: Array, parts: Array, at: Array, disk: int, size: int, held: int) -> None:
    """Record the request's next part, and book `held` bytes for it."""
    part = parts[at.parts + at.part]
    part.bytes, part.disk = size, disk
    part.booking = book(ledger, disk, at.start, at.end, held)
    at.part += 1


@kernel
def take_back(ledger: Array, parts: Array, at: Array) -> None:
    """Remove all bookings of the request."""
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
    """Do what `place` does, but without booking: write to `parts`. Return 0 if the request does not fit."""
    at = cursor[0]
    at.start, at.end, at.duration = start, end, end - start
    pieces = place(ledger, turn, parts, at, size, policy, False, split)
    if pieces == ASK_POLICY:
        return ASK_POLICY
    fits = is_placed(at, pieces)
    for k in range(at.part if fits else 0):  # some policies do not check that every disk has room
        disk = parts[at.parts + k].disk
        most, _ = peak(ledger, disk, start, end)
        fits = fits and most <= ledger.disks[disk].capacity
    take_back(ledger, parts, at)
    return pieces if fits else 0


@kernel
def soonest(ledger: Array, size: int, start: float, duration: float) -> float:
    """Return the first time from `start` on when a disk has `size` bytes free for `duration` seconds; inf if never."""
    first = np.inf
    for disk in range(ledger.disks.size):
        first = min(first, next_free(ledger, disk, size, start, duration))
        if first <= start:
            break
    return first
