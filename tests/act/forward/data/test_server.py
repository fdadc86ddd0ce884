"""A data server, for real: on UNIX sockets and loopback TCP, in a thread or as a process that is killed."""

import errno
import os
import socket
import threading
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.forward.data import checkpoints, name_database, name_service
from forebay.act.forward.data.emulation import Disk, Emulation
from forebay.act.forward.data.fences import Fences
from forebay.act.forward.data.server import Server
from forebay.act.forward.data.settings import ServerSettings
from forebay.act.forward.net.address import Address, CantListen
from forebay.act.forward.net.loop import new_loop
from forebay.act.forward.net.wire import LONGEST, Flag, Kind, Message, pack_sessions
from forebay.model.errors import BadInput, UserError
from forebay.model.layout import Layout
from forebay.model.service_time import ServiceTime, new_state, service_time
from support.forward import KEY, LoopThread, ServerProcess, Speaker, data_server, scratch, unix
from support.processes import wait_until

ELSEWHERE = {"path": b"a", "create": True, "layout": [1, 65536, 1]}
"""Creates a file whose object is on server 1."""


@pytest.fixture(params=["unix", "tcp"])
def running(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[LoopThread, Server]]:
    address = unix(tmp_path, "server") if request.param == "unix" else Address(host="127.0.0.1")
    with data_server(tmp_path / "data", address, timeout=60.0) as pair:
        yield pair


@pytest.fixture
def node(running: tuple[LoopThread, Server]) -> Iterator[Speaker]:
    with Speaker(running[1].address) as speaker:
        yield speaker


def test_what_is_written_is_read(node: Speaker) -> None:
    data = os.urandom(3 << 20)
    answer = node.ask(Kind.WRITE, file=5, offset=100, payload=data)
    assert (answer.status, answer.size) == (0, len(data))
    answer = node.ask(Kind.READ, file=5, offset=99, size=len(data) + 10)
    assert (answer.status, answer.payload) == (0, b"\0" + data)
    assert node.words(Kind.SIZE, file=5)["size"] == len(data) + 100


def test_many_requests_may_be_under_way(node: Speaker) -> None:
    for number in range(200):
        node.tell(Kind.WRITE, file=number % 3, offset=number * 1000, payload=bytes([number]) * 1000)
    for number in range(200):
        answer = node.receive()
        assert (answer.tag, answer.size) == (number + 1, 1000)
    for number in range(200):
        node.tell(Kind.READ, file=number % 3, offset=number * 1000, size=1000)
    for number in range(200):
        assert node.receive().payload == bytes([number]) * 1000


def test_checksums_on_request(node: Speaker) -> None:
    assert node.ask(Kind.WRITE, file=5, payload=b"abc" * 1000, flags=Flag.CHECKED).status == 0
    answer = node.ask(Kind.READ, file=5, size=3000, flags=Flag.CHECKED)
    assert answer.flags & Flag.CHECKED
    assert answer.payload == b"abc" * 1000


def test_what_is_not_there_is_empty(node: Speaker) -> None:
    assert node.ask(Kind.READ, file=9, size=10).payload == b""
    assert node.words(Kind.SIZE, file=9) == {
        "size": 0, "mtime": 0, "atime": 0, "allocated": 0, "content": None,
    }  # fmt: skip
    assert node.ask(Kind.FSYNC, file=9).status == 0


def test_an_object_is_cut_extended_and_forgotten(node: Speaker) -> None:
    node.ask(Kind.WRITE, file=5, payload=b"abcdef")
    node.ask(Kind.TRUNCATE, file=5, offset=2)
    node.ask(Kind.TRUNCATE, file=5, offset=4)
    assert node.ask(Kind.READ, file=5, size=10).payload == b"ab\0\0"
    assert node.ask(Kind.FORGET, file=5).status == 0
    assert node.ask(Kind.WRITE, file=5, payload=b"late").status == errno.ESTALE


def test_a_fenced_session_can_do_nothing_any_more(node: Speaker) -> None:
    assert node.ask(Kind.WRITE, file=5, session=77, payload=b"before").status == 0
    assert node.ask(Kind.FENCE, file=77).status == 0
    for kind in (Kind.WRITE, Kind.READ, Kind.TRUNCATE, Kind.FSYNC, Kind.SIZE):
        assert node.ask(kind, file=5, session=77, payload=b"late" if kind == Kind.WRITE else b"").status == errno.ESTALE
    assert node.ask(Kind.READ, file=5, session=78, size=10).payload == b"before"


def test_a_write_of_several_sessions_is_refused_if_one_of_them_is(node: Speaker) -> None:
    def write(data: bytes, *sessions: int) -> Message:
        payload = pack_sessions(sessions) + data
        return node.ask(Kind.WRITE, file=5, size=len(sessions), flags=Flag.SESSIONS, payload=payload)

    answer = write(b"together", 77, 78)
    assert (answer.status, answer.size) == (0, 8)
    assert node.ask(Kind.FENCE, file=78).status == 0
    assert write(b"late....", 77, 78).status == errno.ESTALE
    assert write(b"again", 77, 79).status == 0
    assert node.ask(Kind.READ, file=5, size=10).payload == b"againher"


@pytest.mark.parametrize(("kind", "size"), [(Kind.WRITE, 0), (Kind.WRITE, 3), (Kind.READ, 1)])
def test_sessions_that_are_not_there_end_the_connection(node: Speaker, kind: Kind, size: int) -> None:
    node.tell(kind, file=5, size=size, flags=Flag.SESSIONS, payload=b"" if kind == Kind.READ else bytes(23))
    assert node.is_gone()


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(0, 40))
def test_fences_are_remembered_across_restarts_and_the_oldest_go_first(sessions: list[int], restart: int) -> None:
    with scratch() as folder:
        fences = Fences(folder / "fenced", most=3)
        for number, session in enumerate(sessions):
            if number == restart:
                fences.close()
                with (folder / "fenced").open("ab") as file:
                    file.write(b"cut")  # killed in the middle of a write
                fences = Fences(folder / "fenced", most=3)
            fences.add(session)
        latest = list(dict.fromkeys(reversed(sessions)))[:3]
        assert {session for session in range(10) if session in fences} == set(latest)
        assert (folder / "fenced").stat().st_size <= 8 * 7
        fences.close()


def test_a_fence_that_can_not_be_written_down_holds_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    fences = Fences(tmp_path / "fenced")
    monkeypatch.setattr(os, "write", full)
    fences.add(5)
    monkeypatch.undo()
    assert 5 in fences
    fences.close()


def test_the_io_nodes_own_requests_can_not_be_fenced_off(node: Speaker) -> None:
    assert node.ask(Kind.FENCE, file=0).status == errno.EINVAL
    assert node.ask(Kind.SIZE, file=5).status == 0


def test_a_fence_holds_after_a_restart(tmp_path: Path) -> None:
    for expected in (0, errno.ESTALE):
        with data_server(tmp_path / "data") as (_, server), Speaker(server.address) as node:
            assert node.ask(Kind.WRITE, file=5, session=77, payload=b"abc").status == expected
            node.ask(Kind.FENCE, file=77)


def test_an_io_node_that_connects_anew_is_not_heard_on_its_old_connection(
    running: tuple[LoopThread, Server], node: Speaker
) -> None:
    with Speaker(running[1].address, name="ion0") as anew, Speaker(running[1].address, name="ion1") as other:
        assert node.is_gone()
        assert anew.ask(Kind.SIZE).status == other.ask(Kind.SIZE).status == 0
        assert running[0].call(lambda: (sorted(running[1].nodes), running[1].counts["replaced"])) == (
            ["ion0", "ion1"],
            1,
        )


def test_only_io_nodes_with_the_key_get_in(running: tuple[LoopThread, Server]) -> None:
    thread, server = running
    for role, key in (("client", KEY), ("council", KEY), ("node", b"another key, as long")):
        with pytest.raises(Exception, match="refused"):
            Speaker(server.address, role=role, key=key)
    assert thread.call(lambda: dict(server.counts)) == {"denied": 3}


@pytest.mark.parametrize(
    "message",
    [
        Message(Kind.ANNOUNCE),
        Message(Kind.READ, flags=Flag.REPLY),
        Message(Kind.HELLO),
        Message(Kind.OPEN, payload=b"\xc1"),
        Message(Kind.SETXATTR, payload=b"\x80"),
        Message(Kind.MKDIR, payload=b"\x81\xa4path\xa1a"),
        Message(Kind.STAT, payload=b"\x07"),
        Message(Kind.LAYOUT, payload=b"\x82\xa4path\xc4\x00\xa6layout\x93\x00\x01\x02"),
    ],
    ids=repr,
)
def test_a_peer_that_makes_no_sense_is_dropped_and_counted_and_others_go_on(
    running: tuple[LoopThread, Server], message: Message
) -> None:
    thread, server = running
    with Speaker(server.address, name="bad") as bad, Speaker(server.address, name="good") as good:
        bad.send(message)
        assert bad.is_gone()
        assert good.ask(Kind.SIZE).status == 0
    assert thread.call(lambda: server.counts["malformed"]) == 1


def test_more_than_a_message_can_hold_is_refused(node: Speaker) -> None:
    assert node.ask(Kind.READ, file=5, size=LONGEST + 1).status == errno.EINVAL
    assert node.ask(Kind.WRITE, file=5, offset=2**63 - 1, payload=b"ab").status == errno.EFBIG


def test_a_full_disk_reaches_the_asker_and_the_server_goes_on(node: Speaker, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        assert node.ask(Kind.WRITE, file=5, payload=b"x" * 5000).status == errno.ENOSPC
    assert node.ask(Kind.WRITE, file=5, payload=b"x" * 5000).status == 0


def test_a_mistake_of_ours_fails_one_request_alone(
    running: tuple[LoopThread, Server],
    node: Speaker,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", lambda *_: 1 // 0)
        assert node.ask(Kind.WRITE, file=5, payload=b"x" * 5000).status == errno.EIO
    assert node.ask(Kind.WRITE, file=5, payload=b"x" * 5000).status == 0
    assert "ZeroDivisionError" in capfd.readouterr().err
    assert running[0].call(lambda: running[1].buffers.out) <= 3 * 4096


def test_an_fsync_is_answered_when_it_is_done_and_others_are_not_held_up(
    node: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = threading.Event()
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (let_go.wait(60), real(handle)))
    node.ask(Kind.WRITE, file=5, payload=b"abc")
    late = node.tell(Kind.FSYNC, file=5)
    assert node.ask(Kind.READ, file=5, size=3).payload == b"abc"
    let_go.set()
    answer = node.receive()
    assert (answer.kind, answer.tag, answer.status) == (Kind.FSYNC, late, 0)


def test_an_fsync_that_fails_says_so(node: Speaker, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> None:
        raise OSError(errno.EIO, "broken")

    node.ask(Kind.WRITE, file=5, payload=b"abc")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        assert node.ask(Kind.FSYNC, file=5).status == errno.EIO
    assert node.ask(Kind.FSYNC, file=5).status == 0


def test_more_fsyncs_than_may_be_under_way_are_all_answered(node: Speaker) -> None:
    node.ask(Kind.WRITE, file=5, payload=b"abc")
    tags = [node.tell(Kind.FSYNC, file=5) for _ in range(300)]
    assert sorted(node.receive().tag for _ in tags) == tags


def test_a_peer_that_does_not_read_its_answers_is_not_served_further(
    running: tuple[LoopThread, Server], node: Speaker
) -> None:
    thread, server = running
    node.ask(Kind.WRITE, file=5, payload=bytes(4 << 20))
    for _ in range(100):
        node.tell(Kind.READ, file=5, size=4 << 20)
    with Speaker(server.address, name="other") as other:
        assert other.ask(Kind.SIZE, file=5).status == 0
    # What waits is bounded, though 400 MB were asked for.
    assert thread.call(lambda: server.buffers.out) < 40 << 20
    assert all(len(node.receive().payload) == 4 << 20 for _ in range(100))
    assert node.ask(Kind.SIZE, file=5).status == 0
    assert thread.call(lambda: server.buffers.out) <= 3 * 4096


def test_space_is_told(node: Speaker, tmp_path: Path) -> None:
    words = node.words(Kind.STATFS)
    assert words["total"] == os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize
    assert words["total"] >= words["free"] >= words["available"] > 0


# Names, over the wire


def test_names_over_the_wire(node: Speaker) -> None:
    node.words(Kind.MKDIR, words={"path": b"d", "layout": [2, 65536, 0]})
    opened = node.ask(Kind.OPEN, words={"path": b"d/f", "create": True})
    file = opened.file
    assert file
    record = node.words(Kind.STAT, words={"path": b"d/f"})
    assert record == node.words(Kind.STAT, file=file)
    assert (record["id"], record["layout"], record["mode"]) == (file, [1, 65536, 0], 0o100644)
    folder = node.words(Kind.STAT, words={"path": b"d"})["id"]
    assert node.words(Kind.READDIR, words={"path": b""}) == {"entries": [[b"d", 0o40755, folder]], "more": False}
    assert node.words(Kind.STAT, words={"at": folder, "path": b"f"}) == record
    assert node.words(Kind.STAT, words={"at": file}) == record
    node.words(Kind.CLOSED, words={"files": [[file, 1]]})
    node.words(Kind.SETATTR, words={"path": b"d/f", "mode": 0o600, "mtime": 5, "stamp": 4})
    attached = node.words(Kind.ATTACH, file=file)
    assert (attached["mode"], attached["mtime"], attached["stamp"]) == (0o100600, 5, 4)
    node.words(Kind.CLOSED, words={"files": [[file, 1]]})
    assert node.words(Kind.LAYOUT, words={"path": b"d", "layout": [4, 131072, -1]}) == {"layout": [4, 131072, -1]}
    assert node.words(Kind.RENAME, words={"path": b"d/f", "to": b"g"}) == {"forget": []}
    assert node.words(Kind.UNLINK, words={"path": b"g"}) == {"forget": []}  # this server has removed its object
    assert node.words(Kind.PENDING) == {"forget": []}
    assert node.ask(Kind.ATTACH, file=file).status == errno.ESTALE
    node.words(Kind.RMDIR, words={"path": b"d"})
    assert node.ask(Kind.STAT, words={"path": b"d"}).status == errno.ENOENT


def test_the_log_of_the_names_stays_short_while_requests_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_database, "_LOG", 64 << 10)
    monkeypatch.setattr(checkpoints, "_PAUSE", 0.0)
    log = tmp_path / "data" / "names.db-wal"
    with data_server(tmp_path / "data") as (_, server), Speaker(server.address) as node:
        for number in range(300):
            node.tell(Kind.MAKE, words={"path": b"%d" % number, "mode": 0o100644})
        assert {node.receive().status for _ in range(300)} == {0}

        def is_empty() -> bool:
            node.words(Kind.STAT, words={"path": b"0"})
            return not log.stat().st_size

        wait_until(is_empty, "the log is not empty")
        assert len(node.words(Kind.READDIR, words={"path": b""})["entries"]) == 300
    with data_server(tmp_path / "data") as (_, server), Speaker(server.address) as node:
        assert len(node.words(Kind.READDIR, words={"path": b""})["entries"]) == 300


def test_objects_on_other_servers_are_pending_until_they_are_removed(tmp_path: Path) -> None:
    with data_server(tmp_path / "data", servers=2) as (_, server), Speaker(server.address) as node:
        file = node.ask(Kind.OPEN, words=ELSEWHERE).file
        node.words(Kind.CLOSED, words={"files": [[file, 1]]})
        forget = {"forget": [[file, [1, 65536, 1]]]}
        assert node.words(Kind.UNLINK, words={"path": b"a"}) == forget
        assert node.words(Kind.PENDING) == forget
        node.words(Kind.FORGOTTEN, file=file)
        assert node.words(Kind.PENDING) == {"forget": []}
        assert node.ask(Kind.ATTACH, file=file).status == errno.ESTALE


@pytest.mark.parametrize("spread", [False, True])
def test_a_file_has_one_object_until_it_is_spread(tmp_path: Path, spread: bool) -> None:
    with data_server(tmp_path / "data", servers=3) as (_, server), Speaker(server.address) as node:
        file = node.ask(Kind.OPEN, words={"path": b"a", "create": True, "layout": [2, 65536, 0]}).file
        node.ask(Kind.WRITE, file=file, payload=b"hello")
        if spread:
            assert node.ask(Kind.SPREAD, file=file).status == 0
        for _ in range(2):
            status = node.words(Kind.STAT, file=file)
            assert (status["spread"], status["measured"], status["size"]) == (spread, not spread, 0 if spread else 5)
        node.words(Kind.CLOSED, words={"files": [[file, 1]]})
        forget = node.words(Kind.UNLINK, words={"path": b"a"})["forget"]
        assert forget == ([[file, [2, 65536, 0]]] if spread else [])
        assert node.ask(Kind.SPREAD, file=file).status == errno.ESTALE


def test_the_bytes_of_a_small_file_come_with_its_status_if_the_caller_may_read_them(node: Speaker) -> None:
    file = node.ask(Kind.OPEN, words={"path": b"a", "create": True, "mode": 0o600}).file
    node.ask(Kind.WRITE, file=file, payload=b"hello")
    assert node.words(Kind.ATTACH, file=file, words={"content": 5})["content"] == b"hello"
    assert node.words(Kind.ATTACH, file=file, words={"content": 4})["content"] is None
    stranger = {"content": 5, "caller": [4711, 4711, [], 0, 0]}
    assert node.words(Kind.ATTACH, file=file, words=stranger)["content"] is None
    assert node.words(Kind.STAT, file=file, words={"content": 5})["content"] is None  # there is no lease
    assert node.ask(Kind.TOUCH, words={"nodes": [file, 12345]}).status == 0


def test_a_request_with_a_key_is_done_once_and_answered_as_often_as_it_comes(node: Speaker) -> None:
    once = {"path": b"a", "create": True, "exclusive": True, "key": 5}
    first = node.words(Kind.OPEN, words=once)
    assert node.words(Kind.OPEN, words=once) == first
    assert node.ask(Kind.OPEN, words=once | {"key": 6}).status == errno.EEXIST
    gone = node.words(Kind.UNLINK, words={"path": b"a", "key": 7})
    node.words(Kind.OPEN, words={"path": b"a", "create": True})  # by somebody else, since
    assert node.words(Kind.UNLINK, words={"path": b"a", "key": 7, "again": True}) == gone
    assert node.ask(Kind.STAT, words={"path": b"a"}).status == 0


def test_only_the_first_server_has_the_root_and_locks(tmp_path: Path) -> None:
    with data_server(tmp_path / "data", index=1, servers=2) as (_, server), Speaker(server.address) as node:
        assert node.ask(Kind.STAT, words={"path": b""}).status == errno.EREMCHG
        node.tell(Kind.LEASE, words={"client": 1})
        assert node.is_gone()


# Starting


def listening(tmp_path: Path, **settings: object) -> ServerSettings:
    values = {"folder": tmp_path / "data", "address": unix(tmp_path, "server"), "key": KEY} | settings
    return ServerSettings(**values)  # type: ignore[arg-type]


def refusal(tmp_path: Path, **settings: object) -> str:
    """One line that says why a server does not start; what it held is free again."""
    thread = LoopThread()
    try:
        with pytest.raises(UserError) as caught:
            thread.call(Server, listening(tmp_path, **settings))
    finally:
        thread.close()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_two_servers_can_not_use_one_folder(tmp_path: Path) -> None:
    with data_server(tmp_path / "data"):
        assert "another server uses this folder" in refusal(tmp_path)
    with data_server(tmp_path / "data"):
        pass


def test_an_address_in_use_is_one_line_and_the_folder_is_free_again(tmp_path: Path) -> None:
    with data_server(tmp_path / "one", unix(tmp_path, "server")):
        assert refusal(tmp_path).endswith("the address is in use")
    with data_server(tmp_path / "data"):
        pass
    assert issubclass(CantListen, UserError)


def test_the_folder_of_another_server_is_refused(tmp_path: Path) -> None:
    with data_server(tmp_path / "data", index=1, servers=4):
        pass
    assert "belongs to server 1 of 4, not to server 2 of 4" in refusal(tmp_path, index=2, servers=4)
    assert "belongs to server 1 of 4, not to server 1 of 5" in refusal(tmp_path, index=1, servers=5)


def test_a_folder_with_something_else_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.tex").write_text("precious")
    assert "contains 'thesis.tex', but is not a server's folder" in refusal(tmp_path)
    (tmp_path / "data" / "server.json").write_text("{")
    assert "is unreadable or damaged" in refusal(tmp_path)
    (tmp_path / "data" / "server.json").write_text("[]")
    assert "belongs to something else" in refusal(tmp_path)
    assert (tmp_path / "data" / "thesis.tex").read_text() == "precious"


def test_a_folder_that_can_not_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    assert "cannot use it as a server's folder: " in refusal(tmp_path)


@pytest.mark.parametrize("wrong", [{"index": -1}, {"index": 1}, {"servers": 0}, {"servers": 5000}])
def test_settings_that_can_not_be_are_refused(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(BadInput):
        listening(tmp_path, **wrong)


def test_half_done_unlinks_are_finished_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_service, "_A_MOMENT", 3600.0)  # the server ends before it removes the object
    with data_server(tmp_path / "data") as (_, server), Speaker(server.address) as node:
        file = node.ask(Kind.OPEN, words={"path": b"a", "create": True}).file
        node.ask(Kind.WRITE, file=file, payload=b"abc")
        node.words(Kind.CLOSED, words={"files": [[file, 1]]})
        node.words(Kind.UNLINK, words={"path": b"a"})
    with data_server(tmp_path / "data") as (_, server), Speaker(server.address) as node:
        assert node.words(Kind.PENDING) == {"forget": []}
        assert node.ask(Kind.WRITE, file=file, payload=b"abc").status == errno.ESTALE
    assert not list((tmp_path / "data" / "objects").glob("*/*"))


def test_in_a_layer_of_several_half_done_unlinks_wait_for_an_io_node(tmp_path: Path) -> None:
    with data_server(tmp_path / "data", servers=2) as (_, server), Speaker(server.address) as node:
        file = node.ask(Kind.MAKE, words={"path": b"a", "mode": 0o100644, "layout": [1, 65536, 1]}).file
        assert node.words(Kind.PENDING) == {"forget": []}
        node.words(Kind.UNLINK, words={"path": b"a"})
    with data_server(tmp_path / "data", servers=2) as (_, server), Speaker(server.address) as node:
        assert [pending for pending, _ in node.words(Kind.PENDING)["forget"]] == [file]


def test_an_open_file_outlives_its_name_until_the_last_io_node_has_closed_it(tmp_path: Path) -> None:
    with (
        data_server(tmp_path / "data", servers=2) as (_, server),
        Speaker(server.address) as node,
        Speaker(server.address, name="ion1") as other,
    ):
        file = node.ask(Kind.OPEN, words=ELSEWHERE).file
        assert other.ask(Kind.ATTACH, file=file).file == file
        assert node.words(Kind.UNLINK, words={"path": b"a"}) == {"forget": []}
        assert node.words(Kind.STAT, words={"at": file})["links"] == 0
        assert node.words(Kind.CLOSED, words={"files": [[file, 1]]}) == {"forget": []}
        assert node.words(Kind.PENDING) == {"forget": []}
        assert other.words(Kind.CLOSED, words={"files": [[file, 1]]})["forget"][0][0] == file
        assert other.ask(Kind.ATTACH, file=file).status == errno.ESTALE


def test_an_answer_that_crosses_a_report_of_closed_files_keeps_the_file_open(tmp_path: Path) -> None:
    with data_server(tmp_path / "data", servers=2) as (_, server), Speaker(server.address) as node:
        file = node.ask(Kind.OPEN, words=ELSEWHERE).file
        node.ask(Kind.OPEN, words={"path": b"a"})  # its answer arrives after the node has reported the first open
        node.words(Kind.CLOSED, words={"files": [[file, 1]]})
        assert node.words(Kind.UNLINK, words={"path": b"a"}) == {"forget": []}
        assert node.words(Kind.CLOSED, words={"files": [[file, 1]]})["forget"][0][0] == file


def test_after_a_restart_io_nodes_say_what_is_open_and_the_others_files_go(tmp_path: Path) -> None:
    with data_server(tmp_path / "data", servers=2) as (_, server), Speaker(server.address) as node:
        files = [node.ask(Kind.OPEN, words=ELSEWHERE | {"path": path}).file for path in (b"a", b"b")]
        for path in (b"a", b"b"):
            node.words(Kind.UNLINK, words={"path": path})
    with data_server(tmp_path / "data", servers=2, grace=0.0) as (_, server), Speaker(server.address) as node:
        node.words(Kind.OPENED, words={"files": [[files[0], 1]]})
        assert [file for file, _ in node.words(Kind.PENDING)["forget"]] == [files[1]]
        assert node.ask(Kind.ATTACH, file=files[0]).status == 0


def test_what_a_lost_io_node_had_open_goes_after_a_while(tmp_path: Path) -> None:
    with (
        data_server(tmp_path / "data", servers=2, grace=0.05) as (_, server),
        Speaker(server.address) as node,
        Speaker(server.address, name="ion1") as other,
    ):
        file = node.ask(Kind.OPEN, words=ELSEWHERE).file
        node.words(Kind.UNLINK, words={"path": b"a"})
        node.close()
        wait_until(lambda: other.words(Kind.PENDING)["forget"], "the file is still open")
        assert other.ask(Kind.ATTACH, file=file).status == errno.ESTALE


def test_a_killed_server_has_all_that_it_answered_for_and_an_ended_one_says_nothing(tmp_path: Path) -> None:
    process = ServerProcess(tmp_path / "data", unix(tmp_path, "server"))
    with Speaker(process.address) as node:
        file = node.ask(Kind.OPEN, words={"path": b"a", "create": True}).file
        for number in range(50):
            assert node.ask(Kind.WRITE, file=file, offset=number * 5000, payload=bytes([number]) * 5000).size == 5000
        node.tell(Kind.WRITE, file=file, offset=250_000, payload=b"under way")
        process.kill()
    process.start()
    with Speaker(process.address) as node:
        assert node.ask(Kind.OPEN, words={"path": b"a"}).file == file
        found = node.ask(Kind.READ, file=file, size=250_000).payload
        assert found == b"".join(bytes([number]) * 5000 for number in range(50))
    assert process.stop() == 0


def test_a_server_ends_while_peers_are_connected_and_an_fsync_is_under_way(tmp_path: Path) -> None:
    with data_server(tmp_path / "data") as (thread, server), Speaker(server.address) as node:
        node.ask(Kind.WRITE, file=5, payload=b"abc")
        node.tell(Kind.FSYNC, file=5)
        thread.run(server.close())
        with socket.socket(socket.AF_UNIX) as late, pytest.raises(FileNotFoundError):
            late.connect(server.address.path)


# A disk that is emulated


MODEL = ServiceTime(sigma=0.0)


def test_answers_wait_for_their_turn_at_the_emulated_disk() -> None:
    now = [1_000_000]
    loop = new_loop()
    disk = Disk(loop, Emulation(model=MODEL, dilation=2.0), clock=lambda: now[0])
    answered: deque[int] = deque()
    requests: list[tuple[str, int, int, int, bool]] = [
        ("ion0", 1, 0, 65536, False),
        ("ion0", 1, 65536, 65536, False),
        ("ion1", 1, 0, 4096, True),
        ("ion1", 2, 0, 0, True),
    ]
    for number, request in enumerate(requests):
        disk.serve(*request, partial(answered.append, number))
    state, due = new_state(), 1_000_000
    for number, (node, file, offset, size, write) in enumerate(requests):
        present = 1 if number < 2 else 2
        due += int(2 * service_time(MODEL.pack(), state, int(node[-1]), file, offset, size, write, present))
        now[0] = due - 1
        disk.ring()
        assert list(answered) == list(range(number))
        now[0] = due
        disk.ring()
        assert list(answered) == list(range(number + 1))
    disk.close()
    loop.close()


def test_an_emulated_server_answers_right_if_late(tmp_path: Path) -> None:
    emulation = Emulation(model=ServiceTime(start=1e-6, file=0.0), dilation=1.0)
    with data_server(tmp_path / "data", emulation=emulation) as (_, server), Speaker(server.address) as node:
        for number in range(20):
            node.tell(Kind.WRITE, file=5, offset=number * 2000, payload=bytes([number]) * 2000)
        assert [node.receive().tag for _ in range(20)] == list(range(1, 21))
        assert node.ask(Kind.READ, file=5, offset=2000, size=2000).payload == b"\1" * 2000


@pytest.mark.parametrize("dilation", [0, -1, 1e9, float("nan")])
def test_a_dilation_that_can_not_be_is_refused(dilation: float) -> None:
    with pytest.raises(ValueError, match="dilation"):
        Emulation(dilation=dilation)


def test_the_layout_of_a_layer_is_what_its_files_get(tmp_path: Path) -> None:
    layout = Layout(count=3, size=131072, start=1)
    with data_server(tmp_path / "data", servers=4, layout=layout) as (_, server), Speaker(server.address) as node:
        opened = node.words(Kind.OPEN, words={"path": b"a", "create": True})
    assert opened["layout"] == [3, 131072, 1]
