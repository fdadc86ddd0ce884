"""Files that a mount has created: all of a request appear complete, whichever step the server is killed after."""

import errno
import shutil
import stat
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest

from forebay.act.forward.data import objects as objects_module
from forebay.act.forward.data.name_requests import Names
from forebay.act.forward.data.objects import Objects
from forebay.act.forward.data.sole_leases import RANGE, SoleHolder, SoleLeases
from forebay.act.forward.net.payloads import ROOT, Caller, LayoutFields, OnceRequest
from forebay.act.forward.net.sole_payloads import AddAnswer, AddedFile, AddRequest, AloneAnswer, AloneRequest
from forebay.act.forward.net.wire import Kind, Message
from forebay.model.layout import ANY, GRAIN, Layout
from support.forward_names import SteppedStore

HOLDER, OTHER = 7, 8
ME = Caller(uid=5, gid=6, mounter=5, holder=HOLDER)


class Killed(Exception):
    """As by kill -9, after a step."""


class Server:
    """The names and objects of a server."""

    def __init__(self, folder: Path, layout: Layout | None = None) -> None:
        folder.mkdir()
        self.folder, self._layout = folder, layout or Layout(count=2, size=GRAIN)
        self.soles: Mapping[int, SoleHolder] = {}
        self.steps, self.dies_after, self._lives = 0, -1, count(1)
        self._start()

    def _start(self) -> None:
        self.objects = Objects(self.folder / "objects")
        self.leases = SoleLeases([HOLDER] if self.soles else (), former_soles=self.soles, record=self._record)
        self.store = SteppedStore(self.folder, self._step)
        self.names = Names(self.store, 2, self._layout, leases=self.leases, objects=self.objects)
        for file, _ in self.names.list_pending(known=True).forget:
            self.objects.forget(file)
            self.names.forget(file)

    def _record(self, soles: Mapping[int, SoleHolder]) -> None:
        self.soles = soles

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.dies_after:
            left = self.folder.with_name(f"left{next(self._lives)}")
            shutil.copytree(self.folder, left)
            self.folder = left
            raise Killed

    def restart(self) -> None:
        self.close()
        self._start()

    def close(self) -> None:
        self.names.close()
        self.objects.close()

    def hold(self, full: tuple[int, ...] = ()) -> AloneAnswer:
        self.leases.watch(HOLDER)
        return self.names.do_alone(Message(Kind.ALONE), AloneRequest(at=ROOT, caller=ME, full=full))

    def add(self, *files: AddedFile, again: bool = False, caller: Caller = ME, size: int = GRAIN) -> AddAnswer:
        layout: LayoutFields = (2, size, 0)
        request = AddRequest(at=ROOT, files=list(files), layout=layout, time=50, caller=caller, again=again)
        return self.names.do_add(Message(Kind.ADD), request)

    def content(self) -> dict[bytes, tuple[int, bytes]]:
        """The number and the bytes of each file."""
        found = {}
        for name, mode, file in self.names.list_names(ROOT).entries:
            assert stat.S_ISREG(mode)
            found[name] = file, self.objects.size(file, GRAIN).content or b""
        return found

    def stored(self) -> set[int]:
        return {int(path.name, 16) for path in self.folder.glob("objects/*/*")}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(objects_module, "_MUCH", 0)
    monkeypatch.setattr(objects_module, "_MANY", 0)
    made = Server(tmp_path / "first")
    yield made
    made.close()


def new(name: bytes, file: int, data: bytes | None = None, mode: int = 0o640) -> AddedFile:
    return AddedFile(name, file, mode, 20, 30, name if data is None else data)


def raises(number: int) -> pytest.RaisesExc[OSError]:
    return pytest.raises(OSError, check=lambda error: error.errno == number)


def test_added_files_are_what_the_mount_says(server: Server) -> None:
    first = server.hold().first
    answer = server.add(new(b"a", first), new(b"empty", first + 1, b"", 0o4777))
    assert server.content() == {b"a": (first, b"a"), b"empty": (first + 1, b"")}
    assert server.stored() == {first}
    assert [status.refused for status in answer.files] == [False, False]
    assert answer.room
    a, empty = (server.store.read(first + number) for number in range(2))
    assert a is not None
    assert empty is not None
    assert (a.uid, a.gid, a.mode, a.links, a.atime, a.mtime, a.ctime) == (5, 6, stat.S_IFREG | 0o640, 1, 20, 30, 30)
    assert empty.mode == stat.S_IFREG | 0o777  # without set-id bits
    assert server.objects.size(first).mtime == 30


def test_whichever_step_a_server_is_killed_after_all_files_are_complete_or_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects_module, "_MUCH", 0)
    monkeypatch.setattr(objects_module, "_MANY", 0)
    outcomes = set()
    for step in count(1):
        (tmp_path / str(step)).mkdir()
        server = Server(tmp_path / str(step) / "first")
        first = server.hold().first
        files = [new(b"a", first), new(b"empty", first + 1, b""), new(b"b", first + 2)]
        server.dies_after = server.steps + step
        try:
            server.add(*files)
        except Killed:
            server.restart()
        else:
            assert step > 5
            server.close()
            break
        done = {file.name: (file.file, file.data) for file in files}
        assert server.content() in (done, {})
        assert server.stored() == ({first, first + 2} if server.content() else set())
        outcomes.add(bool(server.content()))
        server.add(*files, again=True)
        assert server.content() == done
        assert not server.names.list_pending().forget
        server.close()
    assert outcomes == {False, True}


def test_a_repeated_request_changes_nothing(server: Server) -> None:
    first = server.hold().first
    server.add(new(b"a", first))
    folder = server.store.read(ROOT)
    answer = server.add(new(b"a", first, b"other"), again=True)
    assert server.content() == {b"a": (first, b"a")}
    assert server.store.read(ROOT) == folder
    assert (answer.files[0].changed, answer.files[0].refused) == (30, False)


def test_a_late_file_is_added_unless_its_name_is_taken_or_it_has_been_there(server: Server) -> None:
    first = server.hold().first
    server.leases.end(HOLDER)
    assert not server.add(new(b"a", first)).files[0].refused
    assert not server.add(new(b"a", first), again=True).files[0].refused
    assert server.add(new(b"a", first + 1)).files[0].refused
    assert not server.add(new(b"b", first + 1), again=True).files[0].refused
    node = server.store.read(first)
    assert node is not None
    assert node.mtime > 30  # by this server's clock, as others may have seen the folder without it
    server.names.do_unlink(Message(Kind.UNLINK), OnceRequest(at=ROOT, path=b"b"))
    for again in (False, True):
        assert server.add(new(b"b", first + 1), again=again).files[0].refused
    assert server.content() == {b"a": (first, b"a")}


def test_after_a_restart_a_late_file_is_added_unless_it_may_have_been_there(server: Server) -> None:
    first = server.hold().first
    server.restart()
    server.leases.end(HOLDER)
    assert not server.add(new(b"a", first)).files[0].refused
    assert server.add(new(b"b", first + 1), again=True).files[0].refused
    assert server.content() == {b"a": (first, b"a")}


def test_files_have_only_numbers_that_came_with_a_folder(server: Server) -> None:
    first = server.hold().first
    server.add(new(b"a", first))
    for number in (first + RANGE, first - 1, 5):
        assert server.add(new(b"b", number)).files[0].refused
    with raises(errno.EEXIST):
        server.add(new(b"b", first))
    with pytest.raises(Exception, match="leases"):
        server.add(new(b"b", first + 1), caller=Caller(uid=0, gid=0, holder=OTHER))
    server.leases.end(HOLDER)
    assert server.add(new(b"b", first + 1), caller=Caller(uid=0, gid=0, holder=OTHER)).files[0].refused
    assert server.content() == {b"a": (first, b"a")}


def test_a_range_is_valid_after_a_restart_and_after_the_next_one(server: Server) -> None:
    first = server.hold().first
    server.restart()
    assert not server.add(new(b"a", first)).files[0].refused
    second = server.hold().first
    assert second != first
    assert not server.add(new(b"b", second)).files[0].refused
    assert not server.add(new(b"c", first + 1)).files[0].refused


def test_requests_with_wrong_names_or_too_long_files_are_refused(server: Server) -> None:
    first = server.hold().first
    for files in ((new(b"a", first), new(b"a", first + 1)), (new(b"a/b", first),), (new(b"", first),)):
        with raises(errno.EINVAL):
            server.add(*files)
    with raises(errno.ENAMETOOLONG):
        server.add(new(b"n" * 256, first))
    with raises(errno.EFBIG):
        server.add(new(b"a", first, bytes(GRAIN + 1)))
    with raises(errno.EACCES):
        server.add(new(b"a", first), caller=Caller(uid=9, gid=9, mounter=5, holder=HOLDER))
    assert server.content() == {}


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (Layout(count=2, size=GRAIN, start=ANY), (2, GRAIN, 0)),
        (Layout(count=9, size=GRAIN, start=ANY), (2, GRAIN, 0)),
        (Layout(count=1, size=GRAIN, start=0), (1, GRAIN, 0)),
        (Layout(count=1, size=GRAIN, start=2), (1, GRAIN, 0)),
        (Layout(count=1, size=GRAIN, start=1), None),
        (Layout(count=1, size=GRAIN, start=ANY), None),
    ],
)
def test_a_mount_creates_files_only_where_their_bytes_belong_to_this_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout, expected: LayoutFields | None
) -> None:
    monkeypatch.setattr(objects_module, "_MUCH", 0)
    monkeypatch.setattr(objects_module, "_MANY", 0)
    server = Server(tmp_path / "first", layout)
    assert server.hold().layout == expected
    assert server.hold(full=(1,)).layout is None
    monkeypatch.setattr(objects_module, "_MUCH", 1 << 62)
    assert server.hold().layout is None
    server.close()
