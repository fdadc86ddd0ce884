"""Against an oracle that goes byte by byte (stripe by stripe)."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from forebay.act.forward.striping import (
    Piece,
    file_offset,
    file_size,
    pieces,
    servers_of,
    settle_layout,
    shares,
    sort_parts,
)
from forebay.model.layout import ANY, GRAIN, MOST_PIECE, Layout


def server_of(layout: Layout, servers: int, offset: int) -> int:
    """The server that holds the byte at `offset` of the file."""
    return (layout.start + offset // layout.size % layout.count) % servers


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Layout, int]:
    servers = draw(st.integers(1, 9))
    count = draw(st.integers(1, servers))
    return Layout(count=count, size=draw(st.integers(1, 3)) * GRAIN, start=draw(st.integers(0, servers - 1))), servers


OFFSETS = st.integers(0, 40 * GRAIN) | st.integers(0, 2**62)


@given(layouts(), OFFSETS, st.integers(0, 20 * GRAIN))
def test_every_byte_of_a_request_is_in_one_piece_at_its_place_on_its_server(
    given_layout: tuple[Layout, int], offset: int, length: int
) -> None:
    layout, servers = given_layout
    # In place of its bytes, a piece has the numbers of their places: server and offset.
    found = [
        (p, range((p.server << 63) + p.offset, (p.server << 63) + p.offset + p.length))
        for p in pieces(layout, servers, offset, length)
    ]
    at = 0
    for begin, long, part in sort_parts(found):
        server, there = divmod(part[0], 1 << 63)
        assert (begin, long) == (at, len(part))
        assert long <= layout.size or layout.count == 1
        assert server == server_of(layout, servers, offset + at)
        place = servers_of(layout, servers).index(server)
        assert file_offset(layout, place, there) == offset + at
        assert file_offset(layout, place, there + long - 1) == offset + at + long - 1
        at += long
    assert at == length


@given(layouts(), OFFSETS, st.integers(0, 20 * GRAIN))
def test_neighbours_on_a_server_are_one_piece_up_to_a_limit(
    given_layout: tuple[Layout, int], offset: int, length: int
) -> None:
    layout, servers = given_layout
    found = pieces(layout, servers, offset, length)
    assert sum(piece.length for piece in found) == length
    assert [piece.at for piece in found] == sorted(piece.at for piece in found)
    for piece in found:
        assert sum(part for _, part in piece.cuts) in (0, piece.length)
        assert not piece.cuts or (piece.length <= MOST_PIECE and piece.cuts[0][0] == piece.at)
    by_server: dict[int, list[Piece]] = {}
    for piece in found:
        by_server.setdefault(piece.server, []).append(piece)
    for own in by_server.values():
        for one, other in pairwise(own):
            assert one.offset + one.length == other.offset
            first = other.cuts[0][1] if other.cuts else other.length
            assert one.length + first > MOST_PIECE


@given(layouts(), OFFSETS)
def test_objects_as_long_as_their_shares_make_the_file(given_layout: tuple[Layout, int], size: int) -> None:
    layout, _ = given_layout
    assert file_size(layout, shares(layout, size)) == size
    assert sum(shares(layout, size)) == size


@given(layouts(), st.lists(st.tuples(st.integers(0, 30 * GRAIN), st.integers(1, 5 * GRAIN)), max_size=5))
def test_the_size_is_the_end_of_the_last_write(given_layout: tuple[Layout, int], writes: list[tuple[int, int]]) -> None:
    layout, servers = given_layout
    objects = dict.fromkeys(servers_of(layout, servers), 0)
    for offset, length in writes:
        for piece in pieces(layout, servers, offset, length):
            objects[piece.server] = max(objects[piece.server], piece.offset + piece.length)
    assert file_size(layout, list(objects.values())) == max((offset + length for offset, length in writes), default=0)


@given(layouts(), OFFSETS, OFFSETS)
def test_a_file_cut_to_its_shares_has_no_byte_beyond(given_layout: tuple[Layout, int], size: int, offset: int) -> None:
    layout, servers = given_layout
    piece = pieces(layout, servers, offset, 1)[0]
    share = shares(layout, size)[servers_of(layout, servers).index(piece.server)]
    assert (piece.offset < share) == (offset < size)


def test_a_layout_is_no_wider_than_the_layer_and_begins_where_the_id_says() -> None:
    assert settle_layout(Layout(count=8, start=ANY), 4, 7) == Layout(count=4, start=3)
    assert settle_layout(Layout(count=2, start=1), 4, 7) == Layout(count=2, start=1)
