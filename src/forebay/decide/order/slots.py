"""What a scheduler can see of the requests that wait, by slot and in the order of arrival.

A slot is a number from 0 up to `slots`, so that callers can keep what else they know of a request in lists of
their own. NONE is no slot.

    slot = first(q)
    while slot != NONE:
        ...
        slot = after(q, slot)
"""

from collections.abc import Callable

from forebay.decide.order import queue_layout as w
from forebay.model.kernels import Array, hot_kernel


@hot_kernel
def address(slot: int) -> int:
    """Where a slot's record begins."""
    return w.SLOTS_AT + (slot << w.SLOT_SHIFT)


@hot_kernel
def slot_at(at: int) -> int:
    """The slot whose record begins there; NONE for 0."""
    return (at - w.SLOTS_AT) >> w.SLOT_SHIFT if at else w.NONE


@hot_kernel
def first(q: Array) -> int:
    """The oldest request that waits."""
    return slot_at(q[w.FIRST])


@hot_kernel
def after(q: Array, slot: int) -> int:
    """The request that arrived next after that one and waits."""
    return slot_at(q[address(slot) + w.S_NEXT])


def _word(which: int) -> Callable[[Array, int], int]:
    """A kernel that reads one word of a slot's record."""

    @hot_kernel
    def read(q: Array, slot: int) -> int:
        return q[address(slot) + which]  # type: ignore[no-any-return]

    return read


server_of = _word(w.S_SERVER)  # to which it goes
file_of = _word(w.S_FILE)  # that it is about
flow_of = _word(w.S_FLOW)  # the job or client that it comes from
offset_of = _word(w.S_OFFSET)  # the byte at which it begins, at its server
size_of = _word(w.S_SIZE)  # in bytes
arrival_of = _word(w.S_TIME)  # when it came, in nanoseconds


@hot_kernel
def is_write(q: Array, slot: int) -> bool:
    """Whether it writes; else it reads."""
    return q[address(slot) + w.S_WRITE] != 0  # type: ignore[no-any-return]


@hot_kernel
def wake_at(q: Array, when: int) -> None:
    """Where nothing is to be sent now: ask again at that time, in nanoseconds."""
    q[w.WAKE] = when


@hot_kernel
def recall(q: Array, which: int) -> int:
    """What the scheduler remembered as its note 0 to 15; 0 in the beginning."""
    return q[w.NOTES_AT + which % w.NOTES]  # type: ignore[no-any-return]


@hot_kernel
def remember(q: Array, which: int, value: int) -> None:
    """Keep a number for the scheduler's next turn, as its note 0 to 15."""
    q[w.NOTES_AT + which % w.NOTES] = value
