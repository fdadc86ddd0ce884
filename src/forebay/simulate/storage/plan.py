"""Decides every request in the order of arrival, each with the bookings before it."""

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
        ("start", np.float64),  # including delays
        ("tried", np.int64),  # number of retries
        ("put", np.int64),  # parts that found room at the start, including those removed at once
        ("state", np.int8),
        ("roomy", np.bool_),  # refused although a disk had room for the refused part
    ]
)
CURSOR = np.dtype([("request", np.int64), ("tried", np.int64), *placing.PLACING])  # the next request to decide
DONE, MORE_ROOM, MORE_PARTS, MORE_SEATS, ANSWER = range(5)  # what `decide` needs to continue


class Plan(NamedTuple):
    """The verdicts and parts of all requests so far."""

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
    """Decide requests from the plan's cursor up to `until`. Return what it needs to continue, or DONE."""
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
            pieces = placing.pieces_of(ask.bytes, split)  # the parts that it asked for, on no disk
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
    """Return start, end and duration of the booking for a request delayed by `delay`."""
    start = ask.start + delay
    if letter:  # StorAlloc moves the start but not the end
        return start, ask.start + ask.booked, ask.booked
    # A zero duration becomes an instant that policies can divide by; the smallest number after 0 is too small.
    end = max(start + ask.booked, np.nextafter(start, np.inf) if start != 0.0 else 1e-300)
    return start, end, end - start if ask.booked == 0.0 else ask.booked


@kernel
def _is_roomy(ledger: Array, size: int, start: float, end: float, turn: Array) -> bool:
    """Whether a disk has room for the whole time, regardless of the policy."""
    survey(ledger, start, end, True, turn.taken, turn.others)
    return bool((ledger.disks["capacity"] - turn.taken >= size).any())
