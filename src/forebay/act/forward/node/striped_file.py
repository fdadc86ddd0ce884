"""A file that is striped over data servers, while clients of an I/O node have it open."""

from collections.abc import Sequence
from functools import partial

from forebay.act.forward.net.wire import LAST_OFFSET
from forebay.act.forward.striping import Piece, pieces
from forebay.model.layout import Layout

_piece = partial(tuple.__new__, Piece)  # faster than the call of the class


class StripedFile:
    """An open file; every request calls `pieces`. Its `reach` ends with its first stripe until it is spread."""

    __slots__ = ("_count", "_servers", "_size", "_start", "file", "layout", "number", "reach")

    def __init__(self, file: int, number: int, layout: Layout, servers: int, *, spread: bool = False) -> None:
        self.file, self.number, self.layout = file, number, layout
        self._size, self._count, self._start, self._servers = layout.size, layout.count, layout.start, servers
        self.reach = LAST_OFFSET if spread or layout.count == 1 else layout.size

    def pieces(self, offset: int, length: int) -> Sequence[Piece]:
        """Cut a request as `striping.pieces` does, with a shortcut for requests within one stripe."""
        stripe, within = divmod(offset, self._size)
        if not 0 < length <= self._size - within:
            return pieces(self.layout, self._servers, offset, length)
        row, place = divmod(stripe, self._count)
        return (_piece(((self._start + place) % self._servers, row * self._size + within, length, 0, ())),)
