"""Doubly linked lists in the queue's array: all that waits in the order of arrival, and a list for each group."""

from __future__ import annotations

from forebay.decide.order import queue_layout as w
from forebay.model.kernels import Array, kernel


@kernel
def append(q: Array, at: int) -> None:
    """The request at that address arrived last."""
    last = q[w.LAST]
    q[at + w.S_PREVIOUS] = last
    q[at + w.S_NEXT] = 0
    if last:
        q[last + w.S_NEXT] = at
    else:
        q[w.FIRST] = at
    q[w.LAST] = at


@kernel
def unlink(q: Array, at: int) -> None:
    """The request waits no longer."""
    before, behind = q[at + w.S_PREVIOUS], q[at + w.S_NEXT]
    if before:
        q[before + w.S_NEXT] = behind
    else:
        q[w.FIRST] = behind
    if behind:
        q[behind + w.S_PREVIOUS] = before
    else:
        q[w.LAST] = before


@kernel
def append_to_group(q: Array, group: int, at: int) -> bool:
    """Whether the group was empty before."""
    last = q[group + w.G_LAST]
    q[at + w.S_GROUP] = group
    q[at + w.S_GROUP_PREVIOUS] = last
    q[at + w.S_GROUP_NEXT] = 0
    q[group + w.G_LAST] = at
    if last:
        q[last + w.S_GROUP_NEXT] = at
        return False
    q[group + w.G_FIRST] = at
    return True


@kernel
def unlink_from_group(q: Array, at: int) -> bool:
    """Whether the group is empty now."""
    group = q[at + w.S_GROUP]
    before, behind = q[at + w.S_GROUP_PREVIOUS], q[at + w.S_GROUP_NEXT]
    if before:
        q[before + w.S_GROUP_NEXT] = behind
    else:
        q[group + w.G_FIRST] = behind
    if behind:
        q[behind + w.S_GROUP_PREVIOUS] = before
    else:
        q[group + w.G_LAST] = before
    return before == 0 and behind == 0  # type: ignore[no-any-return]


@kernel
def smallest(q: Array) -> int:
    """The address of the first request, or 0."""
    return q[q[w.HEAP_AT]] if q[w.HEAPED] else 0


@kernel
def push(q: Array, at: int, key: int) -> None:
    """Enter a request."""
    q[at + w.S_KEY] = key
    place = q[w.HEAPED]
    q[w.HEAPED] += 1
    _rise(q, at, place)


@kernel
def remove(q: Array, at: int) -> None:
    """Take a request out, wherever it stands."""
    q[w.HEAPED] -= 1
    heap, size, place = q[w.HEAP_AT], q[w.HEAPED], q[at + w.S_PLACE]
    if place == size:
        return
    last = q[heap + size]
    if place > 0 and _before(q, last, q[heap + (place - 1 >> 1)]):
        _rise(q, last, place)
    else:
        _sink(q, last, place)


@kernel
def _before(q: Array, one: int, other: int) -> bool:
    a, b = q[one + w.S_KEY], q[other + w.S_KEY]
    return a < b or (a == b and q[one + w.S_SERIAL] < q[other + w.S_SERIAL])  # type: ignore[no-any-return]


@kernel
def _rise(q: Array, at: int, place: int) -> None:
    heap = q[w.HEAP_AT]
    while place > 0:
        parent = place - 1 >> 1
        above = q[heap + parent]
        if not _before(q, at, above):
            break
        q[heap + place] = above
        q[above + w.S_PLACE] = place
        place = parent
    q[heap + place] = at
    q[at + w.S_PLACE] = place


@kernel
def _sink(q: Array, at: int, place: int) -> None:
    heap, size = q[w.HEAP_AT], q[w.HEAPED]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _before(q, q[heap + child + 1], q[heap + child]):
            child += 1
        below = q[heap + child]
        if not _before(q, below, at):
            break
        q[heap + place] = below
        q[below + w.S_PLACE] = place
        place = child
    q[heap + place] = at
    q[at + w.S_PLACE] = place


_ODD = -7046029254386353131  # 2**64 over the golden ratio, as a signed number: spreads every bit over those above it


@kernel
def enlist(q: Array, at: int) -> None:
    """Enter a request into the table."""
    place = _place(q, at, q[at + w.S_OFFSET])
    last = q[place + 1]
    q[at + w.S_TABLE_PREVIOUS] = last
    q[at + w.S_TABLE_NEXT] = 0
    q[place + 1] = at
    if last:
        q[last + w.S_TABLE_NEXT] = at
    else:
        q[place] = at


@kernel
def strike(q: Array, at: int) -> None:
    """Take a request out of the table."""
    before, behind = q[at + w.S_TABLE_PREVIOUS], q[at + w.S_TABLE_NEXT]
    if before and behind:
        q[before + w.S_TABLE_NEXT] = behind
        q[behind + w.S_TABLE_PREVIOUS] = before
        return
    place = _place(q, at, q[at + w.S_OFFSET])
    if before:
        q[before + w.S_TABLE_NEXT] = 0
    else:
        q[place] = behind
    if behind:
        q[behind + w.S_TABLE_PREVIOUS] = 0
    else:
        q[place + 1] = before


@kernel
def contiguous(q: Array, like: int, offset: int) -> int:
    """The oldest waiting request that is like that one and begins at `offset`; 0 if there is none."""
    at = q[_place(q, like, offset)]
    while at:
        if (
            q[at + w.S_OFFSET] == offset
            and q[at + w.S_FILE] == q[like + w.S_FILE]
            and q[at + w.S_SERVER] == q[like + w.S_SERVER]
            and q[at + w.S_WRITE] == q[like + w.S_WRITE]
        ):
            return at  # type: ignore[no-any-return]
        at = q[at + w.S_TABLE_NEXT]
    return 0


@kernel
def _place(q: Array, like: int, offset: int) -> int:
    """Where in the table requests like that one would stand that begin at `offset`."""
    mixed = (offset * 2 + q[like + w.S_WRITE]) * _ODD
    mixed = (mixed ^ (mixed >> 29) ^ (q[like + w.S_FILE] << 16) ^ q[like + w.S_SERVER]) * _ODD
    mixed ^= mixed >> 32
    return q[w.TABLE_AT] + ((mixed & q[w.TABLE_MASK]) << w.TABLE_SHIFT)  # type: ignore[no-any-return]
