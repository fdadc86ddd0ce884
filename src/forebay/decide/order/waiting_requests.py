"""The waiting requests of a queue: lists, a heap, and a table by file and offset.

Every list is doubly linked. Its head is two words: the addresses of its first and last request. `links` is the index
of two words in a request's record: its links to the next and the previous request.
"""

from forebay.decide.order import queue_layout as w
from forebay.model.kernels import Array, hot_kernel

_ODD = -7046029254386353131  # 2**64 / golden ratio, signed: spreads every bit over the higher bits


@hot_kernel
def append(q: Array, head: int, links: int, at: int) -> bool:
    """Add a request at the end of a list. Return whether the list was empty."""
    last = q[head + 1]
    q[at + links], q[at + links + 1] = 0, last
    q[head + 1] = at
    if last:
        q[last + links] = at
    else:
        q[head] = at
    return last == 0  # type: ignore[no-any-return]


@hot_kernel
def unlink(q: Array, head: int, links: int, at: int) -> bool:
    """Remove a request from a list. Return whether the list is empty now."""
    behind, before = q[at + links], q[at + links + 1]
    if before:
        q[before + links] = behind
    else:
        q[head] = behind
    if behind:
        q[behind + links + 1] = before
    else:
        q[head + 1] = before
    return before == 0 and behind == 0  # type: ignore[no-any-return]


# The heap has the smallest key first; of equal keys, the older request. Each request stores its place in the heap.
@hot_kernel
def smallest(q: Array) -> int:
    """Return the address of the first request, or 0."""
    return q[q[w.HEAP_AT]] if q[w.HEAPED] else 0


@hot_kernel
def push(q: Array, at: int, key: int) -> None:
    q[at + w.S_KEY] = key
    place = q[w.HEAPED]
    q[w.HEAPED] += 1
    _rise(q, at, place)


@hot_kernel
def remove(q: Array, at: int) -> None:
    """Remove a request from any place in the heap."""
    q[w.HEAPED] -= 1
    heap, size, place = q[w.HEAP_AT], q[w.HEAPED], q[at + w.S_PLACE]
    if place == size:
        return
    last = q[heap + size]
    if place > 0 and _before(q, last, q[heap + (place - 1 >> 1)]):
        _rise(q, last, place)
    else:
        _sink(q, last, place)


@hot_kernel
def _before(q: Array, at: int, other: int) -> bool:
    a, b = q[at + w.S_KEY], q[other + w.S_KEY]
    return a < b or (a == b and q[at + w.S_SERIAL] < q[other + w.S_SERIAL])  # type: ignore[no-any-return]


@hot_kernel
def _rise(q: Array, at: int, place: int) -> None:
    heap = q[w.HEAP_AT]
    while place > 0 and _before(q, at, q[heap + (place - 1 >> 1)]):
        _set_place(q, q[heap + (place - 1 >> 1)], place)
        place = place - 1 >> 1
    _set_place(q, at, place)


@hot_kernel
def _sink(q: Array, at: int, place: int) -> None:
    heap, size = q[w.HEAP_AT], q[w.HEAPED]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _before(q, q[heap + child + 1], q[heap + child]):
            child += 1
        if not _before(q, q[heap + child], at):
            break
        _set_place(q, q[heap + child], place)
        place = child
    _set_place(q, at, place)


@hot_kernel
def _set_place(q: Array, at: int, place: int) -> None:
    q[q[w.HEAP_AT] + place], q[at + w.S_PLACE] = at, place


# The table finds the request that continues where another ends: same server, file and operation, and beginning at that
# byte. It is maintained only while requests are aggregated.
@hot_kernel
def table_place(q: Array, like: int, offset: int) -> int:
    """Return the head of the list for requests like `like` that begin at `offset`."""
    mixed = (offset * 2 + q[like + w.S_WRITE]) * _ODD
    mixed = (mixed ^ (mixed >> 29) ^ (q[like + w.S_FILE] << 16) ^ q[like + w.S_SERVER]) * _ODD
    mixed ^= mixed >> 32
    return q[w.TABLE_AT] + ((mixed & q[w.TABLE_MASK]) << w.TABLE_SHIFT)  # type: ignore[no-any-return]


@hot_kernel
def enlist(q: Array, at: int) -> None:
    append(q, table_place(q, at, q[at + w.S_OFFSET]), w.S_TABLE_NEXT, at)


@hot_kernel
def strike(q: Array, at: int) -> None:
    """Remove a request from the table. If it has neighbours on both sides, this does not need the head."""
    is_between = q[at + w.S_TABLE_NEXT] != 0 and q[at + w.S_TABLE_PREVIOUS] != 0
    head = 0 if is_between else table_place(q, at, q[at + w.S_OFFSET])
    unlink(q, head, w.S_TABLE_NEXT, at)


@hot_kernel
def contiguous(q: Array, like: int, offset: int) -> int:
    """Return the oldest waiting request like `like` that begins at `offset`; 0 if there is none."""
    at = q[table_place(q, like, offset)]
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
