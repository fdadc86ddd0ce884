"""A hash table of waiting requests by where they begin, to find the one that goes on where another ends.

Two requests are contiguous if they do the same to the same file at the same server and the second begins at the
byte at which the first ends. Of several that begin there, the oldest is found. The table is kept up only while
requests are aggregated.
"""

from __future__ import annotations

from typing import Any

from forebay.decide.order.queue_layout import (
    S_FILE,
    S_OFFSET,
    S_SERVER,
    S_TABLE_NEXT,
    S_TABLE_PREVIOUS,
    S_WRITE,
    TABLE_AT,
    TABLE_MASK,
    TABLE_SHIFT,
)
from forebay.model.kernels import kernel

_ODD = -7046029254386353131  # 2**64 over the golden ratio, as a signed number: spreads every bit over those above it


@kernel
def enlist(q: Any, at: int) -> None:
    """Enter a request into the table."""
    place = _place(q, at, q[at + S_OFFSET])
    last = q[place + 1]
    q[at + S_TABLE_PREVIOUS] = last
    q[at + S_TABLE_NEXT] = 0
    q[place + 1] = at
    if last:
        q[last + S_TABLE_NEXT] = at
    else:
        q[place] = at


@kernel
def strike(q: Any, at: int) -> None:
    """Take a request out of the table."""
    before, behind = q[at + S_TABLE_PREVIOUS], q[at + S_TABLE_NEXT]
    if before and behind:
        q[before + S_TABLE_NEXT] = behind
        q[behind + S_TABLE_PREVIOUS] = before
        return
    place = _place(q, at, q[at + S_OFFSET])
    if before:
        q[before + S_TABLE_NEXT] = 0
    else:
        q[place] = behind
    if behind:
        q[behind + S_TABLE_PREVIOUS] = 0
    else:
        q[place + 1] = before


@kernel
def contiguous(q: Any, like: int, offset: int) -> int:
    """The oldest waiting request that is like that one and begins at `offset`; 0 if there is none."""
    at = q[_place(q, like, offset)]
    while at:
        if (
            q[at + S_OFFSET] == offset
            and q[at + S_FILE] == q[like + S_FILE]
            and q[at + S_SERVER] == q[like + S_SERVER]
            and q[at + S_WRITE] == q[like + S_WRITE]
        ):
            return at  # type: ignore[no-any-return]
        at = q[at + S_TABLE_NEXT]
    return 0


@kernel
def _place(q: Any, like: int, offset: int) -> int:
    """Where in the table requests like that one would stand that begin at `offset`."""
    mixed = (offset * 2 + q[like + S_WRITE]) * _ODD
    mixed = (mixed ^ (mixed >> 29) ^ (q[like + S_FILE] << 16) ^ q[like + S_SERVER]) * _ODD
    mixed ^= mixed >> 32
    return q[TABLE_AT] + ((mixed & q[TABLE_MASK]) << TABLE_SHIFT)  # type: ignore[no-any-return]
