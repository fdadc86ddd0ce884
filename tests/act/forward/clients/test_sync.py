"""Both clients, against I/O nodes that go wrong on command: never a false error, never wrong bytes."""

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.act.forward.clients.aio import AsyncClient
from forebay.act.forward.clients.channel import Identity, identify
from forebay.act.forward.clients.operations import Operations
from forebay.act.forward.clients.requests import Handle, Lost, Request
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.wire import AGAIN, LONGEST, Kind, Message, unpack_as
from forebay.model.layout import GRAIN, Layout
from support.examples import examples
from support.forward import KEY, PretendLayer, pretend_layer, scratch, unix
from support.processes import limited

__all__ = ["pretend_layer"]
T = TypeVar("T")
CREATE = os.O_RDWR | os.O_CREAT
WHO = Identity(application="ior", job="77", processes=64, host="cn01", uid=1000)


class Opened(Protocol):
    """What both kinds of files can do, here without waiting."""

    id: int
    pread: Callable[[int, int], bytes]
    preadinto: Callable[[Any, int], int]
    pwrite: Callable[[Any, int], int]
    fsync: Callable[[], None]
    truncate: Callable[[int], None]
    stat: Callable[[], Any]
    chmod: Callable[[int], None]
    utime: Callable[[int], None]
    close: Callable[[], None]


class Blocking:
    """An asyncio client or file as if it were a blocking one, so that one set of tests is for both."""

    def __init__(self, wrapped: Any, layer: PretendLayer) -> None:
        self._wrapped, self._layer = wrapped, layer

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._wrapped, name)
        if not callable(value):
            return value

        def call(*args: Any, **options: Any) -> Any:
            result = value(*args, **options)
            result = self._layer.thread.run(result) if asyncio.iscoroutine(result) else result
            return Blocking(result, self._layer) if name == "open" else result

        return call

    def __enter__(self) -> "Blocking":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Made = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def made(request: pytest.FixtureRequest, pretend_layer: PretendLayer) -> Iterator[Made]:
    """Makes clients of one kind or the other."""
    clients: list[Any] = []

    def make(
        nodes: Sequence[Address] = pretend_layer.addresses, key: bytes = KEY, patience: float = 60.0, **options: Any
    ) -> Any:
        def new(kind: type[Client | AsyncClient]) -> Client | AsyncClient:
            return kind(nodes, key, who=WHO, patience=patience, **options)

        if request.param == "sync":
            clients.append(new(Client))
        else:
            clients.append(Blocking(pretend_layer.thread.call(new, AsyncClient), pretend_layer))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(made: Made) -> Any:
    return made()


def refusal(do: Callable[..., Any], *args: Any) -> int:
    with pytest.raises(OSError) as caught:
        do(*args)
    assert caught.value.errno is not None
    return caught.value.errno


def test_what_is_written_is_read(client: Any) -> None:
    data = os.urandom(700_000)
    with client.open("/a", CREATE) as file:
        assert file.pwrite(data, 5) == len(data)
        file.fsync()
        assert file.pread(800_000, 0) == bytes(5) + data
        room = bytearray(10)
        assert file.preadinto(room, len(data)) == 5
        assert room == data[-5:] + bytes(5)
        assert file.pread(10, 10**9) == b""
        assert file.stat().size == len(data) + 5
        file.truncate(7)
        assert file.pread(100, 0) == bytes(5) + data[:2]
    assert client.stat("a").size == 7
    client.truncate("/a", 3)
    assert client.stat(b"a").size == 3


def test_every_operation_on_names(client: Any) -> None:
    client.mkdir("/d", 0o750, layout=Layout(count=1, size=GRAIN, start=0))
    client.open("/d/f", CREATE, 0o640).close()
    found = client.stat("/d/f")
    assert (oct(found.mode), found.is_folder, found.size) == ("0o100640", False, 0)
    assert found.layout == client.layout("/d/f") == Layout(count=1, size=GRAIN, start=0)
    client.set_layout("/d", Layout(count=1, size=2 * GRAIN))
    assert client.layout(Path("/d")).size == 2 * GRAIN
    client.chmod("/d/f", 0o600)
    client.utime("/d/f", 1234)
    assert (client.stat("/d/f").mode & 0o777, client.stat("/d/f").mtime) == (0o600, 1234)
    client.utime("/d/f", 1 << 64)
    assert client.stat("/d/f").mtime == (1 << 63) - 1
    client.rename("/d/f", "/g")
    assert [(entry.name, entry.is_folder) for entry in client.readdir("/")] == [("d", True), ("g", False)]
    client.unlink("/g")
    client.rmdir("/d")
    assert client.readdir() == []
    assert client.statfs().available == 3
    assert client.stat("/").is_folder


def test_names_that_are_no_text(client: Any) -> None:
    name = os.fsdecode(b"\xff\xfe")
    client.open(name, CREATE).close()
    assert [entry.name for entry in client.readdir("/")] == [name]


def test_flags_are_those_of_the_system(client: Any) -> None:
    assert refusal(client.open, "/a") == errno.ENOENT
    with client.open("/a", CREATE | os.O_EXCL) as file:
        file.pwrite(b"abc", 0)
    assert refusal(client.open, "/a", CREATE | os.O_EXCL) == errno.EEXIST
    with client.open("/a", CREATE | os.O_TRUNC) as file:
        assert file.pread(10, 0) == b""
    client.mkdir("/d")
    assert refusal(client.open, "/d", CREATE) == errno.EISDIR


def test_errors_are_those_of_the_servers(client: Any) -> None:
    assert refusal(client.stat, "/none") == errno.ENOENT
    assert refusal(client.unlink, "/none") == errno.ENOENT
    assert refusal(client.rmdir, "/none") == errno.ENOENT
    assert refusal(client.mkdir, "/a/b") == errno.ENOENT
    assert refusal(client.stat, "/../a") == errno.EINVAL
    assert refusal(client.open, "/" + "a" * 256, CREATE) == errno.ENAMETOOLONG


@pytest.mark.parametrize(
    ("offset", "size", "expected"),
    [(-1, 1, (errno.EINVAL, errno.EINVAL)), (2**63 - 1, 2, (errno.EINVAL, errno.EFBIG)), (2**70, 1, (22, 27))],
)
def test_offsets_that_can_not_be_are_refused_without_asking(
    client: Any, pretend_layer: PretendLayer, offset: int, size: int, expected: tuple[int, int]
) -> None:
    file = client.open("/a", CREATE)
    asked = len(pretend_layer.nodes[0].seen)
    assert refusal(file.pread, size, offset) == expected[0]
    assert refusal(file.pwrite, bytes(size), offset) == expected[1]
    assert refusal(file.truncate, offset if offset != 2**63 - 1 else 2**63) in expected
    assert refusal(file.pread, -1, 0) == errno.EINVAL
    assert len(pretend_layer.nodes[0].seen) == asked
    assert file.pread(0, 5) == b""
    assert file.pwrite(b"", 5) == 0


def test_a_request_longer_than_a_message_is_split(client: Any, pretend_layer: PretendLayer) -> None:
    data = os.urandom(1 << 20) * 17 + b"the end"
    with client.open("/a", CREATE) as file:
        assert file.pwrite(data, 3) == len(data)
        assert file.pread(len(data) + 9, 3) == data
    seen = pretend_layer.nodes[0].seen
    assert (seen.count(Kind.WRITE), seen.count(Kind.READ)) == (2, 2)
    assert LONGEST == 16 << 20


def test_with_checksums_on_the_way(made: Made) -> None:
    data = os.urandom(300_000)
    with made(checked=True).open("/a", CREATE) as file:
        file.pwrite(data, 0)
        assert file.pread(400_000, 0) == data


def test_closed_things_say_so(client: Any) -> None:
    file = client.open("/a", CREATE)
    file.close()
    file.close()
    assert refusal(file.pread, 1, 0) == errno.EBADF
    other = client.open("/a")
    client.close()
    client.close()
    other.close()
    assert refusal(client.stat, "/") == errno.EBADF


def test_a_client_says_who_it_is(client: Any, pretend_layer: PretendLayer) -> None:
    client.stat("/")
    peer = pretend_layer.nodes[0].peers[0]
    told = dict(peer.facts)
    assert told.pop("session") > 0
    assert told == {
        "application": "ior",
        "job": "77",
        "processes": 64,
        "host": "cn01",
        "uid": 1000,
        "gid": 0,
        "groups": [],
    }


def test_who_one_is_comes_from_the_batch_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_NTASKS", "32")
    monkeypatch.setattr("sys.argv", ["/opt/bin/gromacs", "-v"])
    found = identify()
    assert (found.application, found.job, found.processes, found.uid) == ("gromacs", "4711", 32, os.getuid())
    assert identify("a", "b", 3).job == "b"
    monkeypatch.setenv("SLURM_NTASKS", "many")
    assert identify().processes == 1
    Identity(application="x" * 10**5, job="y" * 10**5, host="z" * 10**5).peer(5)


def test_another_key_is_an_error_at_once(made: Made) -> None:
    with pytest.raises(PermissionError, match="check the key"):
        made(key=b"not the key of this layer").stat("/")


def test_a_client_needs_a_node(made: Made) -> None:
    with pytest.raises(ValueError, match="at least one I/O node"):
        made(nodes=[])


# Going wrong


def first(kind: Kind, mishap: str) -> Callable[[Kind, int], str]:
    """What happens to the first request of a kind."""
    return lambda asked, number: mishap if asked == kind and number == 1 else ""


MISHAPS = ("drop before", "drop after", "again", "again after")


@pytest.mark.parametrize("mishap", MISHAPS)
def test_nothing_is_lost_and_no_false_error_whatever_happens_to_a_request(
    client: Any, pretend_layer: PretendLayer, mishap: str
) -> None:
    node = pretend_layer.nodes[0]

    def with_mishap(kind: Kind, do: Callable[..., Any], *args: Any) -> Any:
        node.seen.clear()
        node.mishap = first(kind, mishap)
        for other in pretend_layer.nodes[1:]:
            other.mishap = node.mishap  # whichever of them the client is at
            other.seen.clear()
        return do(*args)

    file = with_mishap(Kind.OPEN, client.open, "/a", CREATE | os.O_EXCL)
    assert with_mishap(Kind.WRITE, file.pwrite, b"abcdef" * 1000, 3) == 6000
    assert with_mishap(Kind.READ, file.pread, 10, 0) == b"\0\0\0abcdefa"
    with_mishap(Kind.TRUNCATE, file.truncate, 5)
    with_mishap(Kind.FSYNC, file.fsync)
    assert with_mishap(Kind.STAT, file.stat).size == 5
    with_mishap(Kind.SETATTR, file.chmod, 0o600)
    with_mishap(Kind.CLOSE, file.close)
    with_mishap(Kind.MKDIR, client.mkdir, "/d")
    with_mishap(Kind.RENAME, client.rename, "/a", "/d/b")
    assert [entry.name for entry in with_mishap(Kind.READDIR, client.readdir, "/d")] == ["b"]
    with_mishap(Kind.LAYOUT, client.set_layout, "/d", Layout(count=1))
    with_mishap(Kind.UNLINK, client.unlink, "/d/b")
    with_mishap(Kind.RMDIR, client.rmdir, "/d")
    assert with_mishap(Kind.STATFS, client.statfs).total == 5
    assert client.readdir() == []
    assert {kind for each in pretend_layer.nodes for kind in each.seen}


OPERATIONS = st.tuples(
    st.sampled_from(["pwrite", "pread", "truncate", "stat", "fsync"]),
    st.integers(0, 3000),
    st.binary(min_size=1, max_size=2000),
    st.sampled_from(["", "", *MISHAPS]),
)


@settings(max_examples=examples(25))
@given(st.lists(OPERATIONS, max_size=15), st.booleans())
def test_a_file_is_as_if_nothing_had_gone_wrong(operations: list[tuple[str, int, bytes, str]], checked: bool) -> None:
    with scratch() as folder:
        layer = PretendLayer(folder)
        oracle = bytearray()
        with Client(layer.addresses, KEY, who=WHO, checked=checked) as client, client.open("/a", CREATE) as file:
            for what, offset, data, mishap in operations:
                for node in layer.nodes:
                    node.seen.clear()
                    node.mishap = first(Kind[what.upper().removeprefix("P")], mishap)
                if what == "pwrite":
                    assert file.pwrite(data, offset) == len(data)
                    oracle.extend(bytes(max(0, offset + len(data) - len(oracle))))
                    oracle[offset : offset + len(data)] = data
                elif what == "pread":
                    assert file.pread(len(data), offset) == oracle[offset : offset + len(data)]
                elif what == "truncate":
                    file.truncate(offset)
                    del oracle[offset:]
                    oracle.extend(bytes(offset - len(oracle)))
                elif what == "stat":
                    assert file.stat().size == len(oracle)
                else:
                    file.fsync()
            assert file.pread(10_000, 0) == oracle
        layer.close()


def test_a_lost_session_is_fenced_off_before_anything_else_is_asked(client: Any, pretend_layer: PretendLayer) -> None:
    here, there = pretend_layer.nodes
    file = client.open("/a", CREATE)
    here.mishap = first(Kind.WRITE, "drop after")
    file.pwrite(b"abc", 0)
    assert there.seen == [Kind.FENCE, Kind.ATTACH, Kind.WRITE]
    assert pretend_layer.fenced == {here.peers[0].facts["session"]}
    assert there.peers[0].facts["session"] not in pretend_layer.fenced


def test_a_fence_that_can_not_be_set_yet_is_tried_until_it_is(client: Any, pretend_layer: PretendLayer) -> None:
    here, there = pretend_layer.nodes
    file = client.open("/a", CREATE)
    here.mishap = first(Kind.WRITE, "drop before")
    there.mishap = first(Kind.FENCE, "again")
    file.pwrite(b"abc", 0)
    assert there.seen == [Kind.FENCE]
    assert here.seen == [Kind.OPEN, Kind.WRITE, Kind.FENCE, Kind.ATTACH, Kind.WRITE]
    assert file.pread(5, 0) == b"abc"


def test_open_files_are_attached_by_their_ids_at_a_node_that_does_not_know_them(
    client: Any, pretend_layer: PretendLayer
) -> None:
    file = client.open("/a", CREATE)
    file.pwrite(b"abc", 0)
    client.rename("/a", "/b")
    pretend_layer.nodes[0].attached.clear()  # as after its restart
    assert file.pread(5, 0) == b"abc"
    assert pretend_layer.nodes[0].seen[-3:] == [Kind.READ, Kind.ATTACH, Kind.READ]


def test_a_file_is_closed_at_the_node_with_its_last_user(client: Any, pretend_layer: PretendLayer) -> None:
    node = pretend_layer.nodes[0]
    first, second = client.open("/a", CREATE), client.open("/a")
    first.pwrite(b"abc", 0)
    first.close()
    assert second.pread(5, 0) == b"abc"
    assert Kind.CLOSE not in node.seen
    assert Kind.ATTACH not in node.seen
    second.close()
    assert node.seen.count(Kind.CLOSE) == 1
    assert not node.attached


def test_a_file_that_threads_share_is_closed_on_every_connection(pretend_layer: PretendLayer) -> None:
    with Client(pretend_layer.addresses, KEY, who=WHO, connections=4) as client:
        file = client.open("/a", CREATE)
        together = threading.Barrier(4)

        def use() -> None:
            sock = client._take()
            together.wait(60)
            assert run(Operations(sock, 60.0).pwrite(file.handle, b"abc", 0)) == 3
            client._put_back(sock)

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        seen = pretend_layer.nodes[0].seen
        assert seen.count(Kind.ATTACH) == 3
        file.close()
        assert seen.count(Kind.CLOSE) == 4
        assert len(client._idle) == 4


def test_a_file_that_was_unlinked_since_is_still_there_for_who_has_it_open(
    client: Any, pretend_layer: PretendLayer
) -> None:
    file = client.open("/a", CREATE)
    client.unlink("/a")
    client.open("/a", CREATE).close()  # another file of that name
    pretend_layer.nodes[0].attached.clear()
    assert file.pwrite(b"late", 0) == 4
    assert file.pread(9, 0) == b"late"
    assert (file.stat().links, client.stat("/a").size) == (0, 0)


def test_a_file_that_was_removed_is_stale_and_does_not_come_back(client: Any, pretend_layer: PretendLayer) -> None:
    file = client.open("/a", CREATE)
    client.unlink("/a")
    pretend_layer.remove_unnamed()
    assert refusal(file.pwrite, b"late", 0) == errno.ESTALE
    assert client.readdir() == []


def test_a_node_that_is_gone_is_replaced_by_the_next_of_the_list(made: Made, tmp_path: Path) -> None:
    nodes = [unix(tmp_path, "nobody"), unix(tmp_path, "ion1")]
    client = made(nodes=nodes)
    with client.open("/a", CREATE) as file:
        file.pwrite(b"abc", 0)
        assert file.pread(5, 0) == b"abc"


def test_without_any_node_there_is_an_error_with_the_reason(made: Made, tmp_path: Path) -> None:
    client = made(nodes=[unix(tmp_path, "nobody")], patience=0.0)
    with pytest.raises(OSError, match=r"unix:.*nobody: .*no such file.*\(gave up after 0 s\)") as caught:
        client.stat("/")
    assert caught.value.errno == errno.EIO


def test_a_node_that_never_answers_counts_as_gone(made: Made, pretend_layer: PretendLayer) -> None:
    client = made(timeout=0.05)
    client.open("/a", CREATE).close()
    pretend_layer.nodes[0].mishap = first(Kind.MKDIR, "silent")
    client.mkdir("/d")
    assert [(entry.name, entry.is_folder) for entry in client.readdir()] == [("a", False), ("d", True)]


def test_a_node_that_talks_nonsense_counts_as_gone(made: Made, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as liar:
        liar.bind(str(tmp_path / "liar"))
        liar.listen()
        liar.settimeout(60)

        def lie() -> None:
            peer, _ = liar.accept()
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n" * 5)
            peer.close()

        thread = threading.Thread(target=lie)
        thread.start()
        client = made(nodes=[unix(tmp_path, "liar"), unix(tmp_path, "ion0")])
        assert client.readdir() == []
        thread.join(60)


def test_a_server_that_is_away_for_too_long_is_an_error(made: Made, pretend_layer: PretendLayer) -> None:
    client = made(patience=0.0)
    pretend_layer.nodes[0].mishap = lambda kind, _: "again" if kind == Kind.STAT else ""
    assert refusal(client.stat, "/") == errno.EIO


def test_threads_share_a_client(pretend_layer: PretendLayer) -> None:
    with Client(pretend_layer.addresses, KEY, who=WHO, connections=3) as client, client.open("/a", CREATE) as file:
        failures: list[str] = []

        def work(number: int) -> None:
            for turn in range(20):
                place = (number * 20 + turn) * 3000
                file.pwrite(bytes([number, turn]) * 1500, place)
                if file.pread(3000, place) != bytes([number, turn]) * 1500:
                    failures.append(f"{number} {turn}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert file.stat().size == 200 * 3000
        assert len(pretend_layer.nodes[0].peers) <= 3


def test_more_threads_than_connections_wait_for_their_turn_and_a_closed_client_lets_them_go(
    pretend_layer: PretendLayer,
) -> None:
    client = Client(pretend_layer.addresses, KEY, who=WHO, connections=1)
    client.open("/a", CREATE).close()
    pretend_layer.nodes[0].mishap = lambda kind, _: "silent" if kind == Kind.STAT else ""
    ends: list[int] = []

    def ask() -> None:
        ends.append(refusal(client.stat, "/a"))

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    while Kind.STAT not in pretend_layer.nodes[0].seen or client._waiting < 4:
        pass
    client.close()
    for thread in threads:
        thread.join(60)
    assert ends == [errno.EBADF] * 5


def test_a_client_can_be_used_on_both_sides_of_a_fork(pretend_layer: PretendLayer) -> None:
    with Client(pretend_layer.addresses, KEY, who=WHO) as client, client.open("/a", CREATE) as file:
        file.pwrite(b"parent", 0)
        child = os.fork()
        if not child:
            os._exit(0 if file.pread(9, 0) == b"parent" and file.pwrite(b"child", 10) == 5 else 1)
        assert os.waitstatus_to_exitcode(limited(lambda: os.waitpid(child, 0))[1]) == 0
        assert file.pread(20, 0) == b"parent\0\0\0\0child"
    assert len(pretend_layer.nodes[0].peers) == 2
    assert not pretend_layer.fenced


def test_many_requests_of_an_asyncio_client_are_under_way_at_once(pretend_layer: PretendLayer) -> None:
    async def work() -> bool:
        async with AsyncClient(pretend_layer.addresses, KEY, who=WHO) as client:
            file = await client.open("/a", CREATE)
            blocks = [bytes([number]) * 5000 for number in range(200)]
            pretend_layer.nodes[0].mishap = lambda _kind, number: "drop after" if number == 100 else ""
            await asyncio.gather(*(file.pwrite(block, 5000 * place) for place, block in enumerate(blocks)))
            found = await asyncio.gather(*(file.pread(5000, 5000 * place) for place in range(200)))
            return found == blocks

    assert pretend_layer.thread.run(work())
    assert len(pretend_layer.nodes[0].peers) == 1


def test_an_operation_that_is_given_up_leaves_the_client_usable(pretend_layer: PretendLayer) -> None:
    async def work() -> bytes:
        async with AsyncClient(pretend_layer.addresses, KEY, who=WHO) as client:
            file = await client.open("/a", CREATE)
            pretend_layer.nodes[0].mishap = first(Kind.WRITE, "silent")
            late = asyncio.create_task(file.pwrite(b"abc", 0))
            while Kind.WRITE not in pretend_layer.nodes[0].seen:
                await asyncio.sleep(0)
            late.cancel()
            await asyncio.gather(late, return_exceptions=True)
            return await file.pread(5, 0)

    assert pretend_layer.thread.run(work()) == b"abc"


# What is asked, without any connection


HANDLE = Handle(file=5, layout=Layout(count=1, start=0))


class Script:
    """A channel that answers as a test says (None: the connection is lost); `now` is its clock."""

    def __init__(self, *answers: Message | None) -> None:
        self.requests: list[Request] = []
        self.payloads: list[Any] = []
        self.pauses: list[float] = []
        self.now = 0.0
        self._answers = iter(answers)

    async def exchange(self, request: Request) -> Message:
        self.requests.append(request)
        self.payloads.append(request.payload)
        answer = next(self._answers, None)
        if answer is None:
            raise Lost("gone")
        return answer

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def run(operation: Coroutine[Any, Any, T]) -> T:
    """The result of an operation whose channel does not wait."""
    try:
        operation.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it waits")


def test_waiting_grows_and_ends_with_the_patience() -> None:
    script = Script()
    with pytest.raises(OSError, match="gave up after 10 s"):
        run(Operations(script, 10.0, now=lambda: script.now).fsync(HANDLE))
    assert script.pauses[:5] == [0.05, 0.1, 0.2, 0.4, 0.8]
    assert max(script.pauses) == 1.0
    assert sum(script.pauses) == pytest.approx(10.0)


@given(st.lists(st.sampled_from([None, AGAIN]), max_size=6))
def test_a_request_that_must_not_be_done_twice_keeps_its_key_and_says_that_it_comes_again(
    troubles: list[int | None],
) -> None:
    answers = [None if trouble is None else Message(Kind.RMDIR, status=trouble) for trouble in troubles]
    script = Script(*answers, Message(Kind.RMDIR))
    run(Operations(script, 60.0, now=lambda: 0.0).rmdir("/d"))
    asks = [unpack_as(dict[str, Any], payload) for payload in script.payloads]
    assert len(asks) == len(troubles) + 1
    assert len({words["key"] for words in asks}) == 1
    assert [words["again"] for words in asks] == [False, *[True] * len(troubles)]


def test_an_error_that_is_an_answer_is_not_asked_again() -> None:
    script = Script(Message(Kind.FSYNC, status=errno.ENOSPC, payload=b"full"))
    with pytest.raises(OSError, match="full") as caught:
        run(Operations(script, 60.0).fsync(HANDLE))
    assert len(script.requests) == 1
    assert (caught.value.errno, caught.value.strerror) == (errno.ENOSPC, "full")


def test_a_node_that_never_knows_a_file_is_not_asked_for_ever() -> None:
    stale, fine = Message(Kind.FSYNC, status=errno.ESTALE), Message(Kind.ATTACH)
    script = Script(*[stale, fine] * 100)
    assert refusal(run, Operations(script, 60.0).fsync(HANDLE)) == errno.ESTALE
    assert len(script.requests) < 30


def test_a_write_of_which_less_was_written_is_an_error() -> None:
    script = Script(Message(Kind.WRITE, size=2))
    assert refusal(run, Operations(script, 60.0).pwrite(HANDLE, b"abc", 0)) == errno.EIO
