"""What a scheduler can read about waiting requests, by slot and in the order of arrival.

A slot is a number below `slots`, so that callers can keep more data about a request in their own lists. NONE stands
for no slot.

    slot = first(q)
    while slot != NONE:
        ...
        slot = after(q, slot)
"""

from collections.abc import Callable

from forebay.decide.order import queue_layout as w
from forebay.model.kernels import Array, hot_kernel, name_kernel


@hot_kernel
def address(slot: int) -> int:
    """Return where the record of a slot begins."""
    return w.SLOTS_AT + (slot << w.SLOT_SHIFT)


@hot_kernel
def slot_at(at: int) -> int:
    """Return the slot whose record begins at an address; NONE for 0."""
    return (at - w.SLOTS_AT) >> w.SLOT_SHIFT if at else w.NONE


@hot_kernel
def first(q: Array) -> int:
    """Return the oldest waiting request."""
    return slot_at(q[w.FIRST])


@hot_kernel
def after(q: Array, slot: int) -> int:
    """Return the waiting request that arrived next after `slot`."""
    return slot_at(q[address(slot) + w.S_NEXT])


def _word(which: int, name: str) -> Callable[[Array, int], int]:
    """Return a kernel that reads one word of a slot's record."""

    def read(q: Array, slot: int) -> int:
        return q[address(slot) + which]  # type: ignore[no-any-return]

    return hot_kernel(name_kernel(read, name))


server_of = _word(w.S_SERVER, "server_of")  # its server
file_of = _word(w.S_FILE, "file_of")  # its file
flow_of = _word(w.S_FLOW, "flow_of")  # its job or client
offset_of = _word(w.S_OFFSET, "offset_of")  # its first byte at the server
size_of = _word(w.S_SIZE, "size_of")  # in bytes
arrival_of = _word(w.S_TIME, "arrival_of")  # its time of arrival, in nanoseconds


@hot_kernel
def is_write(q: Array, slot: int) -> bool:
    """Whether the request is a write, not a read."""
    return q[address(slot) + w.S_WRITE] != 0  # type: ignore[no-any-return]


@hot_kernel
def wake_at(q: Array, when: int) -> None:
    """Ask to be called again at a time in nanoseconds; use it before returning NONE."""
    q[w.WAKE] = when


@hot_kernel
def recall(q: Array, which: int) -> int:
    """Return the number that the scheduler stored as note 0 to 15; initially 0."""
    return q[w.NOTES_AT + which % w.NOTES]  # type: ignore[no-any-return]


@hot_kernel
def remember(q: Array, which: int, value: int) -> None:
    """Store a number for later calls, as note 0 to 15."""
    q[w.NOTES_AT + which % w.NOTES] = value
