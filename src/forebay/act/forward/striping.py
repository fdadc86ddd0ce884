"""Where the bytes of a striped file are: arithmetic, and nothing else.

Stripe k of a file is on the server `(start + k % count) % servers`, in that server's object at
`(k // count) * size`: each server's object holds its stripes one after the other, without holes between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from forebay.model.layout import ANY, Layout


class Piece(NamedTuple):
    """Some bytes of a file that are one piece in one server's object; offsets and length in bytes."""

    server: int
    offset: int
    length: int
    at: int
    """Where the piece begins within the request."""
    cuts: tuple[tuple[int, int], ...] = ()
    """Where within the request its bytes are, in turn: (at, length); none where they are in one place."""


MOST = 256 << 10
"""Bytes up to which stripes of one request that are neighbours on their server make one piece."""


def pieces(layout: Layout, servers: int, offset: int, length: int) -> list[Piece]:
    """What a request of `length` bytes at `offset` is on the servers, in the order in which the pieces begin.

    >>> [tuple(piece) for piece in pieces(Layout(count=2, size=65536, start=3), 4, 65530, 10)]
    [(3, 65530, 6, 0, ()), (0, 0, 4, 6, ())]
    >>> pieces(Layout(count=2, size=65536, start=0), 2, 0, 3 * 65536)[0]
    Piece(server=0, offset=0, length=131072, at=0, cuts=((0, 65536), (131072, 65536)))
    """
    size, count, start = layout.size, layout.count, layout.start
    if count == 1:
        return [Piece(start % servers, offset, length, 0)] if length else []
    found: list[Piece] = []
    latest: dict[int, int] = {}  # of each place, which piece was its last
    stripe, within = divmod(offset, size)
    done = 0
    while done < length:
        row, place = divmod(stripe, count)
        part = min(size - within, length - done)
        known = latest.get(place)
        if known is not None and found[known].length + part <= MOST:
            found[known] = _longer(found[known], done, part)
        else:
            latest[place] = len(found)
            found.append(Piece((start + place) % servers, row * size + within, part, done))
        done += part
        stripe += 1
        within = 0
    return found


def _longer(piece: Piece, at: int, part: int) -> Piece:
    cuts = piece.cuts or ((piece.at, piece.length),)
    return Piece(piece.server, piece.offset, piece.length + part, piece.at, (*cuts, (at, part)))


def parts_of(piece: Piece, whole: Any) -> list[Any]:
    """The bytes of a piece, of all those of its request."""
    return [whole[at : at + length] for at, length in piece.cuts or ((piece.at, piece.length),)]


def in_order(found: Iterable[tuple[Piece, Any]]) -> list[tuple[int, int, Any]]:
    """What servers gave for pieces, in the file's order: where each part is in the request, how long it should be, and
    the bytes that are there of it."""
    parts = []
    for piece, given in found:
        begin = 0
        for at, length in piece.cuts or ((piece.at, piece.length),):
            parts.append((at, length, given[begin : begin + length]))
            begin += length
    return sorted(parts, key=itemgetter(0))


def file_offset(layout: Layout, place: int, offset: int) -> int:
    """Where in the file the byte at `offset` of the object on the layout's server number `place` is."""
    row, within = divmod(offset, layout.size)
    return (row * layout.count + place) * layout.size + within


def server_of(layout: Layout, servers: int, offset: int) -> int:
    """The server that holds the byte at `offset` of the file."""
    return (layout.start + offset // layout.size % layout.count) % servers


def servers_of(layout: Layout, servers: int) -> list[int]:
    """The servers of a layout in the order of its places, the first one first."""
    return [(layout.start + place) % servers for place in range(layout.count)]


def file_size(layout: Layout, objects: Sequence[int]) -> int:
    """How long the file is whose objects, in the order of the layout's places, are so long.

    >>> file_size(Layout(count=2, size=65536, start=0), (65536, 4))
    65540
    """
    return max((file_offset(layout, place, size - 1) + 1 for place, size in enumerate(objects) if size > 0), default=0)


def shares(layout: Layout, size: int) -> list[int]:
    """How long each object of a file of `size` bytes is, in the order of the layout's places.

    >>> shares(Layout(count=2, size=65536, start=0), 65540)
    [65536, 4]
    """
    rows, rest = divmod(size, layout.size * layout.count)
    return [rows * layout.size + min(max(rest - place * layout.size, 0), layout.size) for place in range(layout.count)]


def settle_layout(layout: Layout, servers: int, file: int) -> Layout:
    """The layout as it is used: no wider than there are servers, its first server taken from the file's id where the
    layout leaves it open."""
    start = file % servers if layout.start == ANY else layout.start % servers
    return Layout(count=min(layout.count, servers), size=layout.size, start=start)
