import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.forward.node import file_places
from forebay.act.forward.node.file_places import (
    CephObjects,
    Components,
    FilePlaces,
    RoundRobin,
    ceph_places,
    fixed_places,
    lustre_places,
    places_finder,
)
from forebay.model.errors import BadInput, UserError
from forebay.model.layout import GRAIN, Layout

SIZES = st.integers(1, 7)
SERVERS = st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple)
ROUND_ROBIN = st.builds(RoundRobin, SIZES, SERVERS)
OBJECTS = st.builds(
    lambda unit, count, stripes, servers: CephObjects(unit, count, unit * stripes, servers),
    SIZES, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4),
)  # fmt: skip


def byte_by_byte(places: FilePlaces, offset: int, length: int) -> list[tuple[int, int]]:
    return [(p.server, p.offset + i) for p in places.pieces(offset, length) for i in range(p.length)]


@given(ROUND_ROBIN | OBJECTS, st.integers(0, 60), st.integers(0, 60))
def test_pieces_are_the_request_cut_up(places: FilePlaces, offset: int, length: int) -> None:
    pieces = places.pieces(offset, length)
    ends = [0, *(p.at + p.length for p in pieces)]
    assert [p.at for p in pieces] == ends[:-1]
    assert ends[-1] == length
    assert all(p.length > 0 for p in pieces)


@given(ROUND_ROBIN | OBJECTS, st.integers(0, 60), st.integers(1, 60))
def test_a_byte_is_where_it_is_whoever_asks(places: FilePlaces, offset: int, length: int) -> None:
    alone = [byte_by_byte(places, offset + i, 1)[0] for i in range(length)]
    assert byte_by_byte(places, offset, length) == alone


@given(OBJECTS)
def test_no_two_bytes_of_a_file_are_at_one_place(places: CephObjects) -> None:
    found = byte_by_byte(places, 0, 300)
    assert len(set(found)) == len(found)


@given(OBJECTS, st.integers(0, 300))
def test_objects_are_counted_as_ceph_does(places: CephObjects, offset: int) -> None:
    stripe, in_set = offset // places.unit, places.whole // places.unit * places.count
    number = stripe // in_set * places.count + stripe % places.count
    assert byte_by_byte(places, offset, 1)[0][0] == number % places.servers


@given(st.integers(1, 40), ROUND_ROBIN, ROUND_ROBIN, st.integers(0, 60), st.integers(0, 60))
def test_parts_follow_each_other(end: int, first: RoundRobin, then: RoundRobin, offset: int, length: int) -> None:
    parts = Components((end, 1 << 62), (first, then))
    cut = max(0, min(length, end - offset))
    expected = byte_by_byte(first, offset, cut) + byte_by_byte(then, offset + cut, length - cut)
    assert byte_by_byte(parts, offset, length) == expected
    at = [p.at for p in parts.pieces(offset, length)]
    assert at == sorted(set(at))


PLAIN = """
lmm_stripe_count:  2
lmm_stripe_size:   1048576
lmm_pattern:       raid0
lmm_layout_gen:    0
lmm_stripe_offset: 3
lmm_objects:
      - l_ost_idx: 3
        l_fid:     0x100030000:0x2:0x0
      - l_ost_idx: 0
        l_fid:     0x100000000:0x2:0x0
"""
NESTED = """/lustre/a
lmm_stripe_count:  2
lmm_stripe_size:   65536
lmm_pattern:       raid0
lmm_stripe_offset: 5
lmm_objects:
      - 0: { l_ost_idx: 5, l_fid: [0x100000000:0x2:0x0] }
      - 1: { l_ost_idx: 6, l_fid: [0x100000000:0x3:0x0] }
"""
PFL = """
  lcm_layout_gen:    3
  lcm_mirror_count:  1
  lcm_entry_count:   2
  component0:
    lcme_id:             1
    lcme_extent.e_start: 0
    lcme_extent.e_end:   1048576
    sub_layout:
      lmm_stripe_count:  1
      lmm_stripe_size:   1048576
      lmm_pattern:       raid0
      lmm_stripe_offset: 2
      lmm_objects:
      - 0: { l_ost_idx: 2, l_fid: [0x100020000:0x2:0x0] }
  component1:
    lcme_id:             2
    lcme_extent.e_start: 1048576
    lcme_extent.e_end:   EOF
    sub_layout:
      lmm_stripe_count:  -1
      lmm_stripe_size:   4194304
      lmm_pattern:       raid0
      lmm_stripe_offset: -1
"""


def test_lustre_tells_the_osts_of_a_file() -> None:
    assert lustre_places(PLAIN, 4, "x") == RoundRobin(1 << 20, (3, 0))
    assert lustre_places(NESTED, 4, "x") == RoundRobin(65536, (1, 2))  # counted round the four that there are


def test_lustres_components_hold_up_to_their_ends() -> None:
    found = lustre_places(PFL, 4, "x")
    assert found.pieces((1 << 20) - 1, 1)[0].server == 2
    assert found.pieces(1 << 20, 8 << 20)[0][:4] == (0, 1 << 20, 3 << 20, 0)
    assert found.layout == Layout(count=4, size=4 << 20, start=0)


@pytest.mark.parametrize("text", ["", "nothing", "lmm_stripe_count: 1", "component0: 5\n", "lmm_stripe_count: [1"])
def test_what_lustre_does_not_say_is_one_line(text: str) -> None:
    with pytest.raises(BadInput, match=r"^file"):
        lustre_places(text, 4, "file")


def test_lustre_is_asked_for_folders_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(command: tuple[str, ...], *, timeout: float) -> str:
        assert timeout > 0
        asked.append(command[:-1])
        return PLAIN

    monkeypatch.setattr(file_places, "run", run)
    (tmp_path / "f").touch()
    find = places_finder("lustre", 4, Layout(count=1))
    assert find(tmp_path / "f") == find(tmp_path)
    assert asked == [("lfs", "getstripe", "-y"), ("lfs", "getstripe", "-d", "-y")]


def test_cephs_layout_comes_from_the_nearest_folder_that_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"stripe_unit=65536 stripe_count=4 object_size=4194304 pool=data"

    def getxattr(path: Path, name: str) -> bytes:
        if (path, name) != (tmp_path, "ceph.dir.layout"):
            raise OSError(61, "no data available")
        return text

    monkeypatch.setattr(os, "getxattr", getxattr)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "f").touch()
    find = places_finder("ceph", 2, Layout(count=1))
    assert find(tmp_path / "a" / "b") == CephObjects(65536, 4, 4194304, 2)
    assert find(tmp_path / "f") == RoundRobin(1 << 20, (0,))  # what was given, where the file system says nothing


@pytest.mark.parametrize("text", ["", "stripe_unit=1", "stripe_unit=x stripe_count=1 object_size=1"])
def test_a_layout_that_is_not_cephs_is_one_line(text: str) -> None:
    with pytest.raises(BadInput, match=r"^here: is not a Ceph layout"):
        ceph_places(text, 1, "here")


def test_objects_of_part_of_a_stripe_are_refused() -> None:
    with pytest.raises(UserError, match="multiple of the stripe unit"):
        ceph_places("stripe_unit=65536 stripe_count=1 object_size=100000", 1, "here")


def test_a_given_layout_goes_round_the_servers() -> None:
    assert fixed_places(Layout(count=3, size=GRAIN, start=2), 4) == RoundRobin(GRAIN, (2, 3, 0))
    assert places_finder("given", 4, Layout(count=2, size=GRAIN))(Path("any")) == RoundRobin(GRAIN, (0, 1))
