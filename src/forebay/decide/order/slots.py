"""What a scheduler can see of the requests that wait, by slot and in the order of arrival.

A slot is a number from 0 up to `slots`, so that callers can keep what else they know of a request in lists of
their own. NONE is no slot.

    slot = first(q)
    while slot != NONE:
        ...
        slot = after(q, slot)
"""

from __future__ import annotations

from typing import Any

from forebay.decide.order.queue_layout import (
    FIRST,
    NONE,
    NOTES,
    NOTES_AT,
    S_FILE,
    S_FLOW,
    S_NEXT,
    S_OFFSET,
    S_SERVER,
    S_SIZE,
    S_TIME,
    S_WRITE,
    SLOT_SHIFT,
    SLOTS_AT,
    WAKE,
)
from forebay.model.kernels import kernel


@kernel
def address(slot: int) -> int:
    """Where a slot's record begins."""
    return SLOTS_AT + (slot << SLOT_SHIFT)


@kernel
def slot_at(at: int) -> int:
    """The slot whose record begins there; NONE for 0."""
    return (at - SLOTS_AT) >> SLOT_SHIFT if at else NONE


@kernel
def first(q: Any) -> int:
    """The oldest request that waits."""
    return slot_at(q[FIRST])


@kernel
def after(q: Any, slot: int) -> int:
    """The request that arrived next after that one and waits."""
    return slot_at(q[address(slot) + S_NEXT])


@kernel
def server_of(q: Any, slot: int) -> int:
    """The server that it goes to."""
    return q[address(slot) + S_SERVER]  # type: ignore[no-any-return]


@kernel
def file_of(q: Any, slot: int) -> int:
    """The file that it is about."""
    return q[address(slot) + S_FILE]  # type: ignore[no-any-return]


@kernel
def flow_of(q: Any, slot: int) -> int:
    """The job or client that it comes from."""
    return q[address(slot) + S_FLOW]  # type: ignore[no-any-return]


@kernel
def offset_of(q: Any, slot: int) -> int:
    """The byte at which it begins, at its server."""
    return q[address(slot) + S_OFFSET]  # type: ignore[no-any-return]


@kernel
def size_of(q: Any, slot: int) -> int:
    """Its bytes."""
    return q[address(slot) + S_SIZE]  # type: ignore[no-any-return]


@kernel
def is_write(q: Any, slot: int) -> bool:
    """Whether it writes; else it reads."""
    return q[address(slot) + S_WRITE] != 0  # type: ignore[no-any-return]


@kernel
def arrived(q: Any, slot: int) -> int:
    """When it came, in nanoseconds."""
    return q[address(slot) + S_TIME]  # type: ignore[no-any-return]


@kernel
def wake_at(q: Any, when: int) -> None:
    """Where nothing is to be sent now: ask again at that time, in nanoseconds."""
    q[WAKE] = when


@kernel
def recall(q: Any, which: int) -> int:
    """What the scheduler remembered as its note 0 to 15; 0 in the beginning."""
    return q[NOTES_AT + which % NOTES]  # type: ignore[no-any-return]


@kernel
def remember(q: Any, which: int, value: int) -> None:
    """Keep a number for the scheduler's next turn, as its note 0 to 15."""
    q[NOTES_AT + which % NOTES] = value
