"""Files that get their names after their bytes: all of a request or none, with the rights of its user."""

import errno
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.forward.data.name_database import NameStore
from forebay.act.forward.data.name_requests import Names
from forebay.act.forward.net.payloads import ROOT, Caller, ForgetList, PlacedFile, PlaceRequest
from forebay.act.forward.net.wire import Kind, Message
from forebay.model.layout import GRAIN, Layout

OWNER = Caller(uid=5, gid=6, mounter=5)


@pytest.fixture
def names(tmp_path: Path) -> Iterator[Names]:
    made = Names(NameStore(tmp_path), 4, Layout(count=4, size=GRAIN))
    yield made
    made.close()


def place(names: Names, *files: tuple[bytes, int], caller: Caller = OWNER, again: bool = False) -> ForgetList:
    placed = [PlacedFile(name, file, (4, GRAIN, 2), 0o6754, 10, 20, 1, 2) for name, file in files]
    return names.do_place(Message(Kind.PLACE), PlaceRequest(at=ROOT, files=placed, caller=caller, again=again))


def listed(names: Names) -> dict[bytes, int]:
    return {name: number for name, _, number in names.list_names(ROOT).entries}


def test_placed_files_have_their_owner_mode_and_times(names: Names) -> None:
    assert place(names, (b"a", 101), (b"b", 102)).forget == []
    assert listed(names) == {b"a": 101, b"b": 102}
    node = names._store.read(101)
    assert node is not None
    assert (node.uid, node.gid, node.mode, node.mtime, node.atime) == (5, 6, stat.S_IFREG | 0o754, 10, 20)


def test_what_had_the_names_is_forgotten(names: Names) -> None:
    place(names, (b"a", 101), (b"b", 102))
    assert [file for file, _ in place(names, (b"b", 103), (b"c", 104)).forget] == [102]
    assert listed(names) == {b"a": 101, b"b": 103, b"c": 104}
    assert place(names, (b"b", 103), (b"c", 104), again=True).forget == []


@pytest.mark.parametrize(
    ("files", "caller", "number"),
    [
        ([(b"new", 103), (b"new", 104)], OWNER, errno.EINVAL),
        ([(b"new", 103), (b"x/y", 104)], OWNER, errno.EINVAL),
        ([(b"new", 103), (b"", 104)], OWNER, errno.EINVAL),
        ([(b"new", 103), (b"old", 101)], OWNER, errno.EEXIST),
        ([(b"new", 103)], Caller(uid=7, gid=7, mounter=5), errno.EACCES),
    ],
)
def test_a_request_that_fails_changes_nothing(
    names: Names, files: list[tuple[bytes, int]], caller: Caller, number: int
) -> None:
    place(names, (b"a", 101))
    with pytest.raises(OSError) as raised:
        place(names, *files, caller=caller)
    assert raised.value.errno == number
    assert listed(names) == {b"a": 101}
