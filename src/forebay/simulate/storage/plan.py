"""Every request decided, in the order in which they ask, each knowing what was booked before."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from forebay.decide.storage.choose import OTHER, SPREADS, choose
from forebay.decide.storage.forebay import spread
from forebay.model.compiled import kernel
from forebay.model.ledger import book, has_room, survey, unbook
from forebay.simulate.storage.rules import GB

GRANTED, REFUSED = 1, 2
PART = np.dtype(
    [
        ("bytes", np.int64),
        ("disk", np.int32),  # -1 if refused
        ("booking", np.int64),
    ]
)
VERDICT = np.dtype(
    [
        ("first", np.int64),  # its parts are `parts[first:last]`
        ("last", np.int64),
        ("start", np.float64),  # after all delays
        ("tried", np.int64),  # how often it came again
        ("state", np.int8),
        ("roomy", np.bool_),  # refused although some disk had room for the part that was refused
    ]
)
CURSOR = np.dtype(
    [
        ("request", np.int64),  # the next to decide
        ("parts", np.int64),  # parts noted
        ("part", np.int64),  # of the request, the next to place
        ("tried", np.int64),
        ("answered", np.bool_),  # for somebody else's policy: `answer` is the disk that it chose
        ("answer", np.int64),
        ("size", np.int64),  # and this is what it is asked
        ("start", np.float64),
        ("end", np.float64),
        ("duration", np.float64),
    ]
)
DONE, MORE_ROOM, MORE_PARTS, ANSWER = 0, 1, 2, 3


class Plan(NamedTuple):
    """All requests' verdicts and parts so far."""

    verdicts: Any
    parts: Any
    cursor: Any


@kernel
def _pieces(size: int, split: int) -> int:
    """Into how many parts a request is split."""
    if split == 0 or size <= split:
        return 1
    return (size + split - 1) // split


@kernel
def _piece(size: int, split: int, part: int, letter: bool) -> int:
    """How large part number `part` is."""
    pieces = _pieces(size, split)
    own = size if pieces == 1 else split if part < pieces - 1 else size - split * (pieces - 1)
    return (own + GB - 1) // GB * GB if letter else own


@kernel
def decide(
    ledger: Any,
    turn: Any,
    asks: Any,
    until: int,
    plan: Any,
    policy: int,
    letter: bool,
    split: int,
    tries: int,
    interval: float,
) -> int:
    """Decide from where the plan's cursor stands up to request `until`; returns what is needed to go on, or DONE."""
    cursor = plan.cursor[0]
    while cursor.request < until:
        ask = asks[cursor.request]
        pieces = _pieces(ask.bytes, split)
        most = max(pieces, turn.share.size) if policy == SPREADS else pieces
        if cursor.part == 0 and not cursor.answered:
            if cursor.parts + most > plan.parts.size:
                return MORE_PARTS
            if not has_room(ledger, most):
                return MORE_ROOM
            if cursor.tried == 0:
                ledger.horizon[0] = ask.horizon
        start, end, lasts = _window(ask, cursor.tried * interval, letter)
        size = _piece(ask.bytes, split, cursor.part, letter)
        if policy == SPREADS and pieces > 1 and not letter:
            pieces = spread(ledger, ask.bytes, start, end, turn, pieces)
            for disk in range(turn.share.size if pieces > 0 else 0):
                if turn.share[disk] > 0:
                    _grant(ledger, plan, disk, turn.share[disk], turn.share[disk], start, end)
        else:
            if policy != OTHER:
                disk = choose(policy, ledger, size, start, end, lasts, turn)
            elif cursor.answered:
                cursor.answered = False
                disk = cursor.answer
            else:
                cursor.size, cursor.start, cursor.end, cursor.duration = size, start, end, lasts
                return ANSWER
            if disk >= 0:
                held = _piece(ask.bytes, split, pieces - 1, True) if letter else size
                _grant(ledger, plan, disk, size, held, start, end)
                if cursor.part < pieces:
                    continue
        if cursor.part == 0 or cursor.part < pieces:  # not all of it could be placed
            again = cursor.tried < tries and not (letter and (pieces > 1 or start + interval >= end))
            if not again and pieces > 0:
                plan.verdicts[cursor.request].roomy = _is_roomy(ledger, size, start, end, turn)
            if not letter:
                _take_back(ledger, plan, start, end)
            cursor.part = 0
            if again:
                cursor.tried += 1
                continue
            pieces = _note_refused(plan, ask.bytes, split, letter)
        _conclude(plan, start, pieces)
    return DONE


@kernel
def _window(ask: Any, delay: float, letter: bool) -> tuple[float, float, float]:
    """Start, end and duration of what is to be booked for a request that was put off by `delay`."""
    start = ask.start + delay
    if letter:  # StorAlloc moves the start and leaves the end where it was
        return start, ask.start + ask.booked, ask.booked
    end = max(start + ask.booked, np.nextafter(start, np.inf))  # what lasts no time at all must fit for an instant
    return start, end, end - start if ask.booked == 0.0 else ask.booked


@kernel
def _note_refused(plan: Any, size: int, split: int, letter: bool) -> int:
    """The parts that the request would have had, on no disk; returns how many."""
    pieces = _pieces(size, split)
    for k in range(pieces):
        part = plan.parts[plan.cursor[0].parts + k]
        part.bytes, part.disk = _piece(size, split, k, letter), -1
    return pieces


@kernel
def _is_roomy(ledger: Any, size: int, start: float, end: float, turn: Any) -> bool:
    """Whether some disk has room all the time, whatever the policy thinks of it."""
    survey(ledger, start, end, True, turn.taken, turn.others)
    roomy = 0
    for disk in range(ledger.disks.size):
        roomy += ledger.disks[disk].capacity - turn.taken[disk] >= size
    return roomy > 0


@kernel
def _grant(ledger: Any, plan: Any, disk: int, size: int, held: int, start: float, end: float) -> None:
    """Note the request's next part, and book `held` bytes for it."""
    cursor = plan.cursor[0]
    part = plan.parts[cursor.parts + cursor.part]
    part.bytes, part.disk = size, disk
    part.booking = book(ledger, disk, start, end, held)
    cursor.part += 1


@kernel
def _take_back(ledger: Any, plan: Any, start: float, end: float) -> None:
    cursor = plan.cursor[0]
    for k in range(cursor.part):
        part = plan.parts[cursor.parts + k]
        unbook(ledger, part.disk, start, end, part.booking)


@kernel
def _conclude(plan: Any, start: float, pieces: int) -> None:
    """Write the request's verdict, and go on to the next one."""
    cursor = plan.cursor[0]
    verdict = plan.verdicts[cursor.request]
    verdict.state = GRANTED if cursor.part == pieces else REFUSED
    verdict.tried, verdict.start = cursor.tried, start
    verdict.first, verdict.last = cursor.parts, cursor.parts + pieces
    cursor.parts += pieces
    cursor.request += 1
    cursor.part = cursor.tried = 0
