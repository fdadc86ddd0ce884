"""A binary heap of waiting requests, smallest key first and the older of two equals; each knows its place in it."""

from __future__ import annotations

from typing import Any

from forebay.decide.order.queue_layout import HEAP_AT, HEAPED, S_KEY, S_PLACE, S_SERIAL
from forebay.model.kernels import kernel


@kernel
def smallest(q: Any) -> int:
    """The address of the first request, or 0."""
    return q[q[HEAP_AT]] if q[HEAPED] else 0


@kernel
def push(q: Any, at: int, key: int) -> None:
    """Enter a request."""
    q[at + S_KEY] = key
    place = q[HEAPED]
    q[HEAPED] += 1
    _rise(q, at, place)


@kernel
def remove(q: Any, at: int) -> None:
    """Take a request out, wherever it stands."""
    q[HEAPED] -= 1
    heap, size, place = q[HEAP_AT], q[HEAPED], q[at + S_PLACE]
    if place == size:
        return
    last = q[heap + size]
    if place > 0 and _before(q, last, q[heap + (place - 1 >> 1)]):
        _rise(q, last, place)
    else:
        _sink(q, last, place)


@kernel
def _before(q: Any, one: int, other: int) -> bool:
    a, b = q[one + S_KEY], q[other + S_KEY]
    return a < b or (a == b and q[one + S_SERIAL] < q[other + S_SERIAL])  # type: ignore[no-any-return]


@kernel
def _rise(q: Any, at: int, place: int) -> None:
    heap = q[HEAP_AT]
    while place > 0:
        parent = place - 1 >> 1
        above = q[heap + parent]
        if not _before(q, at, above):
            break
        q[heap + place] = above
        q[above + S_PLACE] = place
        place = parent
    q[heap + place] = at
    q[at + S_PLACE] = place


@kernel
def _sink(q: Any, at: int, place: int) -> None:
    heap, size = q[HEAP_AT], q[HEAPED]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _before(q, q[heap + child + 1], q[heap + child]):
            child += 1
        below = q[heap + child]
        if not _before(q, below, at):
            break
        q[heap + place] = below
        q[below + S_PLACE] = place
        place = child
    q[heap + place] = at
    q[at + S_PLACE] = place
