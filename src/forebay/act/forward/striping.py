"""Computes where the bytes of a striped file are.

Stripe k of a file is on the server `(start + k % count) % servers`, in that server's object at `(k // count) * size`:
an object holds its stripes in order, without gaps.
"""

from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from forebay.model.layout import ANY, MOST_PIECE, Layout


class Piece(NamedTuple):
    """Bytes of a file that are contiguous in one server's object; offsets and length in bytes."""

    server: int
    offset: int
    length: int
    at: int
    """Where the piece begins within the request."""
    cuts: tuple[tuple[int, int], ...] = ()
    """Where its bytes are within the request: (at, length) of each part; empty if they are contiguous."""


def pieces(layout: Layout, servers: int, offset: int, length: int) -> list[Piece]:
    """Cut a request of `length` bytes at `offset` into pieces, in the order in which they begin.

    >>> [tuple(piece) for piece in pieces(Layout(count=2, size=65536, start=3), 4, 65530, 10)]
    [(3, 65530, 6, 0, ()), (0, 0, 4, 6, ())]
    >>> pieces(Layout(count=2, size=65536, start=0), 2, 0, 3 * 65536)[0]
    Piece(server=0, offset=0, length=131072, at=0, cuts=((0, 65536), (131072, 65536)))
    """
    size, count, start = layout.size, layout.count, layout.start
    if count == 1:
        return [Piece(start % servers, offset, length, 0)] if length else []
    cut: list[Piece] = []
    latest: dict[int, int] = {}  # the last piece of each place
    stripe, within = divmod(offset, size)
    done = 0
    while done < length:
        row, place = divmod(stripe, count)
        part = min(size - within, length - done)
        known = latest.get(place)
        if known is not None and cut[known].length + part <= MOST_PIECE:
            piece = cut[known]
            cuts = (*(piece.cuts or ((piece.at, piece.length),)), (done, part))
            cut[known] = piece._replace(length=piece.length + part, cuts=cuts)
        else:
            latest[place] = len(cut)
            cut.append(Piece((start + place) % servers, row * size + within, part, done))
        done += part
        stripe += 1
        within = 0
    return cut


def parts_of(piece: Piece, whole: Any) -> list[Any]:
    """The bytes of a piece, given those of its request."""
    return [whole[at : at + length] for at, length in piece.cuts or ((piece.at, piece.length),)]


def sort_parts(answers: Iterable[tuple[Piece, Any]]) -> list[tuple[int, int, Any]]:
    """Sort the answers of servers into file order: offset in the request, expected length, and bytes of each part."""
    parts = []
    for piece, data in answers:
        begin = 0
        for at, length in piece.cuts or ((piece.at, piece.length),):
            parts.append((at, length, data[begin : begin + length]))
            begin += length
    return sorted(parts, key=itemgetter(0))


def file_offset(layout: Layout, place: int, offset: int) -> int:
    """The offset in the file of the byte at `offset` in the object on the layout's server number `place`."""
    row, within = divmod(offset, layout.size)
    return (row * layout.count + place) * layout.size + within


def servers_of(layout: Layout, servers: int) -> list[int]:
    """The servers of a layout, in the order of its places."""
    return [(layout.start + place) % servers for place in range(layout.count)]


def file_size(layout: Layout, objects: Sequence[int]) -> int:
    """The size of a file, given the sizes of its objects in the order of the layout's places.

    >>> file_size(Layout(count=2, size=65536, start=0), (65536, 4))
    65540
    """
    return max((file_offset(layout, place, size - 1) + 1 for place, size in enumerate(objects) if size > 0), default=0)


def shares(layout: Layout, size: int) -> list[int]:
    """The sizes of the objects of a file of `size` bytes, in the order of the layout's places.

    >>> shares(Layout(count=2, size=65536, start=0), 65540)
    [65536, 4]
    """
    rows, remainder = divmod(size, layout.size * layout.count)
    return [
        rows * layout.size + min(max(remainder - place * layout.size, 0), layout.size) for place in range(layout.count)
    ]


def settle_layout(layout: Layout, servers: int, file: int, full: Collection[int] = ()) -> Layout:
    """Limit a layout to the number of servers; if its first server is ANY, the file's id decides.

    Servers that are `full` get nothing, if others have space and the layout does not name its first server: the layout
    then takes neighbours with space, and may become narrower.

    >>> settle_layout(Layout(count=4, size=65536), 4, 6, full=[1]) == Layout(count=3, size=65536, start=2)
    True
    """
    count = min(layout.count, servers)
    if layout.start != ANY:
        return Layout(count=count, size=layout.size, start=layout.start % servers)
    start = file % servers
    if full:
        runs = [
            (_run_with_space(first % servers, count, servers, full), first) for first in range(start, start + servers)
        ]
        widest = max(run for run, _ in runs)
        if widest:
            count, start = next((run, first % servers) for run, first in runs if run == widest)
    return Layout(count=count, size=layout.size, start=start)


def _run_with_space(first: int, most: int, servers: int, full: Collection[int]) -> int:
    """How many servers from `first` on have space, up to `most`."""
    return next((i for i in range(most) if (first + i) % servers in full), most)
