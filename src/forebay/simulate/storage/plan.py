"""Every request decided, in the order in which they ask, each knowing what was booked before."""

from typing import NamedTuple

import numpy as np

from forebay.decide.storage import request_placement as placing
from forebay.model.kernels import Array, kernel
from forebay.model.ledger import has_room, survey

GRANTED, REFUSED = 1, 2
VERDICT = np.dtype(
    [
        ("first", np.int64),  # its parts are `parts[first:last]`
        ("last", np.int64),
        ("start", np.float64),  # after all delays
        ("tried", np.int64),  # how often it came again
        ("put", np.int64),  # parts that found room when they started, those taken back at once included
        ("state", np.int8),
        ("roomy", np.bool_),  # refused although some disk had room for the part that was refused
    ]
)
CURSOR = np.dtype([("request", np.int64), ("tried", np.int64), *placing.PLACING])  # the next request to decide
DONE, MORE_ROOM, MORE_PARTS, MORE_SEATS, ANSWER = range(5)  # what is needed to go on


class Plan(NamedTuple):
    """All requests' verdicts and parts so far."""

    verdicts: Array
    parts: Array
    cursor: Array


@kernel
def decide(
    ledger: Array,
    turn: Array,
    asks: Array,
    until: int,
    plan: Array,
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
        if cursor.part == 0 and not cursor.answered:
            most = placing.most_parts(ask.bytes, split, policy, turn.share.size)
            if cursor.parts + most > plan.parts.size:
                return MORE_PARTS
            if not has_room(ledger, most):
                return MORE_ROOM
            if cursor.tried == 0:
                ledger.horizon[0] = ask.horizon
        start, end, cursor.duration = _window(ask, cursor.tried * interval, letter)
        cursor.start, cursor.end = start, end
        pieces = placing.place(ledger, turn, plan.parts, cursor, ask.bytes, policy, letter, split)
        if pieces == placing.ASK_POLICY:
            return ANSWER
        if not placing.is_placed(cursor, pieces):
            again = cursor.tried < tries and not (letter and (pieces > 1 or start + interval >= end))
            if not again and pieces > 0:
                refused = placing.piece_of(ask.bytes, split, cursor.part, letter)
                plan.verdicts[cursor.request].roomy = _is_roomy(ledger, refused, start, end, turn)
            if not letter:
                placing.take_back(ledger, plan.parts, cursor)
            cursor.part = 0
            if again:
                cursor.tried += 1
                continue
            pieces = placing.pieces_of(ask.bytes, split)  # that it would have had, on no disk
            for k in range(pieces):
                part = plan.parts[cursor.parts + k]
                part.bytes, part.disk = placing.piece_of(ask.bytes, split, k, letter), -1
        verdict = plan.verdicts[cursor.request]
        verdict.state = GRANTED if cursor.part == pieces else REFUSED
        verdict.tried, verdict.start = cursor.tried, start
        verdict.first, verdict.last = cursor.parts, cursor.parts + pieces
        cursor.parts += pieces
        cursor.request += 1
        cursor.part = cursor.tried = 0
    return DONE


@kernel
def _window(ask: Array, delay: float, letter: bool) -> tuple[float, float, float]:
    """Start, end and duration of what is to be booked for a request that was put off by `delay`."""
    start = ask.start + delay
    if letter:  # StorAlloc moves the start and leaves the end where it was
        return start, ask.start + ask.booked, ask.booked
    # What lasts no time must fit for an instant that policies can divide by; the next number after 0 is too small.
    end = max(start + ask.booked, np.nextafter(start, np.inf) if start != 0.0 else 1e-300)
    return start, end, end - start if ask.booked == 0.0 else ask.booked


@kernel
def _is_roomy(ledger: Array, size: int, start: float, end: float, turn: Array) -> bool:
    """Whether some disk has room all the time, whatever the policy thinks of it."""
    survey(ledger, start, end, True, turn.taken, turn.others)
    return bool((ledger.disks["capacity"] - turn.taken >= size).any())
