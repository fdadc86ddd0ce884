"""Two mounts of one layer that keep what they have leases on: what they ask, and what each sees of the other."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forebay.act.forward.clients.node_socket import NodeSocket
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.data.server import Server
from forebay.act.forward.mount import sole_folders
from forebay.act.forward.mount.file_system import Change, NameAbsent
from forebay.act.forward.net.payloads import ROOT
from forebay.act.forward.net.wire import Kind
from support.forward import KEY
from support.forward_mounts import ME, ROOM, Mount
from support.forward_nodes import NodeThread, node_thread
from support.processes import wait_until


@pytest.fixture
def layer(tmp_path: Path) -> Iterator[NodeThread]:
    with node_thread(tmp_path) as made:
        made.node(made.serve(2))
        yield made


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Messages of mounts, and of I/O nodes to servers, by kind."""
    counts: Counter[str] = Counter()
    exchange, receive = NodeSocket._exchange, Server._receive

    async def counting_exchange(self: NodeSocket, link: object, request: object, session: int) -> object:
        counts[Kind(request.kind).name] += 1  # type: ignore[attr-defined]
        return await exchange(self, link, request, session)  # type: ignore[arg-type]

    def counting_receive(self: Server, connection: object, message: object) -> None:
        if message.kind not in (Kind.STATFS, Kind.PENDING, Kind.CLOSED):  # type: ignore[attr-defined]
            counts[f"server {Kind(message.kind).name}"] += 1  # type: ignore[attr-defined]
        receive(self, connection, message)  # type: ignore[arg-type]

    monkeypatch.setattr(NodeSocket, "_exchange", counting_exchange)
    monkeypatch.setattr(Server, "_receive", counting_receive)
    return counts


@contextmanager
def messages(sent: Counter[str], **expected: int) -> Iterator[None]:
    """Exactly these messages of a mount are sent, and each leads to as many from the I/O node to servers."""
    sent.clear()
    yield
    assert {kind: count for kind, count in sent.items() if " " not in kind} == expected


def test_small_files_cost_a_message_for_each_change_and_none_to_look(
    sent: Counter[str], mounts: tuple[Mount, Mount], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sole_folders, "_FIRST", 100)  # else the mount changes the folder by itself
    mount, _ = mounts
    with messages(sent, MKDIR=1):
        folder = mount.files.mkdir(ME, ROOT, b"d", 0o755).node
    mount.create("first", b"", folder)  # with it, a server takes over the folder
    with messages(sent, OPEN=1, WRITE=1):
        with pytest.raises(NameAbsent):
            mount.lookup("a", folder)
        mount.create("a", b"hello", folder)
        after = mount.files.getattr(ME, folder)
    assert sent["server OPEN"] == sent["server WRITE"] == 1
    assert after.mtime == mount.client.stat("/d").mtime
    with messages(sent):
        assert mount.lookup("a", folder).size == 5
        handle = mount.open("a", folder=folder)
        assert mount.files.read(handle, ROOM, 0) == 5
        mount.files.release(handle)
    with messages(sent, CLOSE=1):
        mount.files.keep_house()
    with messages(sent, UNLINK=1):
        mount.files.unlink(ME, folder, b"a")
        assert mount.files.getattr(ME, folder).mtime > after.mtime
    with messages(sent), pytest.raises(NameAbsent):
        mount.lookup("a", folder)


def test_what_a_mount_knows_of_a_folder_is_what_the_server_says(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = one.files.mkdir(ME, ROOT, b"d", 0o755).node
    changes: list[Callable[[Mount], object]] = [
        lambda mount: mount.create("a", b"x", folder),
        lambda mount: mount.files.mkdir(ME, folder, b"below", 0o755),
        lambda mount: mount.files.symlink(ME, folder, b"link", b"target"),
        lambda mount: mount.files.unlink(ME, folder, b"link"),
        lambda mount: mount.files.rmdir(ME, folder, b"below"),
        lambda mount: mount.files.rename(ME, folder, b"a", folder, b"b", 0),
    ]
    library = one.client
    for mount in (one, one, other, one):
        for change in changes:
            change(mount)
            names = {os.fsdecode(name) for name, _, _ in one.files.readdir(ME, folder)}
            truth = library.stat("/d")
            for each in mounts:
                known = each.files.getattr(ME, folder)
                assert (known.mtime, known.ctime, known.links) == (truth.mtime, truth.ctime, truth.links)
                assert {name for name in ("a", "b", "below", "link") if _exists(each, name, folder)} == names
        mount.files.unlink(ME, folder, b"b")


def _exists(mount: Mount, name: str, folder: int) -> bool:
    try:
        mount.lookup(name, folder)
    except NameAbsent:
        return False
    return True


def test_another_mount_asks_once(sent: Counter[str], mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    one.create("a", b"hello")
    one.files.keep_house()
    other.lookup("a")
    _until_leased(other, "a")
    with messages(sent):
        assert other.lookup("a").size == 5
    with messages(sent, ATTACH=1):
        assert other.read("a") == b"hello"
    with messages(sent):
        assert other.read("a") == b"hello"


def create_closed(layer: NodeThread, mount: Mount, names: str, data: bytes) -> None:
    """Create files, and wait until the server of the names knows that nobody has them open."""
    for name in names:
        mount.create(name, data)
    mount.files.keep_house()
    third = Mount(layer)
    for name in names:
        _until_leased(third, name)
    third.close()


def test_where_files_are_read_one_message_brings_the_status_and_the_bytes(
    layer: NodeThread, sent: Counter[str], mounts: tuple[Mount, Mount]
) -> None:
    one, other = mounts
    create_closed(layer, one, "abcd", b"hello")
    assert other.read("a") == b"hello"
    with messages(sent, STAT=1):
        assert other.read("b") == b"hello"
    with messages(sent, STAT=1, CLOSE=1, TOUCH=1):
        assert other.read("c") == b"hello"
        other.files.keep_house()
    one.rewrite("c", b"H")
    assert other.read("c") == b"Hello"
    assert other.read("d") == b"hello"


def test_a_read_without_a_message_counts_and_a_look_does_not(layer: NodeThread, mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    create_closed(layer, one, "abc", b"hello")

    def accessed(name: str) -> int:
        status = one.client.stat(f"/{name}")
        return status.atime if status.atime > status.mtime else 0

    assert other.read("a") == b"hello"
    assert other.lookup("b").size == 5  # its bytes came along
    assert other.read("c") == b"hello"
    other.files.keep_house()
    assert accessed("a")
    assert accessed("c")
    assert not accessed("b")


def test_one_server_that_holds_all_of_a_file_is_asked_once(tmp_path: Path, sent: Counter[str]) -> None:
    with node_thread(tmp_path) as layer:
        layer.node(layer.serve(1))
        one, other = Mount(layer), Mount(layer)
        sent.clear()
        one.create("b", b"hello")
        assert _at_servers(sent) == {"OPEN": 1, "WRITE": 1}
        sent.clear()
        one.files.unlink(ME, ROOT, b"b")
        one.files.keep_house()
        wait_until(lambda: not list((tmp_path / "data0" / "objects").glob("*/*")), "the object is still there")
        assert _at_servers(sent) == {"UNLINK": 1}
        create_closed(layer, one, "a", b"hello")
        sent.clear()
        assert other.lookup("a").size == 5
        assert _at_servers(sent) == {"STAT": 1}
        assert other.read("a") == b"hello"
        assert _at_servers(sent) == {"STAT": 1, "ATTACH": 1}
        one.close()
        other.close()


def _at_servers(sent: Counter[str]) -> dict[str, int]:
    return {
        kind.removeprefix("server "): count
        for kind, count in sent.items()
        if kind.startswith("server ") and "WATCH" not in kind
    }


def _until_leased(mount: Mount, name: str) -> None:
    """Look until the server of the names knows that nobody else has the file open to write."""

    def is_leased() -> bool:
        mount.files.keep_house()
        return mount.files.cache.attributes(mount.lookup(name).node) is not None

    wait_until(is_leased, "no lease")


def create_and_rename(mount: Mount, flags: int) -> None:
    mount.create("b", b"other")
    mount.files.rename(ME, ROOT, b"b", ROOT, b"a", flags)


CHANGES: dict[str, Callable[[Mount], object]] = {
    "write": lambda mount: mount.rewrite("a", b"HELLO world"),
    "truncate": lambda mount: mount.files.setattr(ME, mount.lookup("a").node, Change(size=2)),
    "chmod": lambda mount: mount.files.setattr(ME, mount.lookup("a").node, Change(mode=0o600)),
    "times": lambda mount: mount.files.setattr(ME, mount.lookup("a").node, Change(mtime=7)),
    "unlink": lambda mount: mount.files.unlink(ME, ROOT, b"a"),
    "rename": lambda mount: mount.files.rename(ME, ROOT, b"a", ROOT, b"b", 0),
    "replace": lambda mount: create_and_rename(mount, 0),
    "exchange": lambda mount: create_and_rename(mount, 2),
    "link": lambda mount: mount.files.link(ME, mount.lookup("a").node, ROOT, b"b"),
    "attribute": lambda mount: mount.files.setxattr(ME, mount.lookup("a").node, b"user.x", b"y", 0),
    "create": lambda mount: mount.create("b"),
    "folder": lambda mount: mount.files.mkdir(ME, ROOT, b"b", 0o755),
}


def view(mount: Mount) -> list[object]:
    """All that a mount shows of the names a and b."""
    shown: list[object] = []
    for name in ("a", "b"):
        try:
            attributes = mount.lookup(name)
            is_file = attributes.mode & 0o170000 == 0o100000
            shown.append((attributes, mount.read(name) if is_file else None))
        except FileNotFoundError:
            shown.append(None)
    return shown


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_seen_at_once_by_a_mount_that_has_kept_what_it_changes(
    layer: NodeThread, mounts: tuple[Mount, Mount], change: str
) -> None:
    one, other = mounts
    one.create("a", b"hello")
    one.files.keep_house()
    view(other)
    _until_leased(other, "a")
    before = view(other)
    CHANGES[change](one)
    assert other.recalled
    fresh = Mount(layer, watches=False)
    try:
        shown = view(other)
        assert shown != before
        for mine, theirs in zip(shown, view(fresh), strict=True):
            assert _without_access_time(mine) == _without_access_time(theirs)
    finally:
        fresh.close()


def _without_access_time(shown: object) -> object:
    if not isinstance(shown, tuple):
        return shown
    attributes, data = shown
    return attributes._replace(atime=0), data


def test_clients_without_leases_are_waited_for_too(layer: NodeThread, mounts: tuple[Mount, Mount]) -> None:
    one, _ = mounts
    one.create("a", b"hello")
    assert one.read("a") == b"hello"
    with Client(layer.nodes[0].addresses, KEY) as library, library.open("/a", os.O_RDWR) as file:
        file.pwrite(b"HELLO", 0)
        assert one.read("a") == b"HELLO"
        file.pwrite(b"hello", 0)
        assert one.read("a") == b"hello"  # nothing is kept of a file that others have open to write


def test_a_file_that_is_open_without_a_message_outlives_its_name(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    one.create("a", b"hello")
    handle = one.open("a")
    other.files.unlink(ME, ROOT, b"a")
    assert bytes(ROOM[: one.files.read(handle, ROOM, 0)]) == b"hello"
    one.files.release(handle)


def test_two_mounts_that_create_in_one_folder_do_not_wait_for_each_other(mounts: tuple[Mount, Mount]) -> None:
    for number in range(20):
        for mount in mounts:
            mount.create(f"{id(mount)}-{number}", b"x")
    for mount in mounts:
        assert len(mount.files.readdir(ME, ROOT)) == 40


def test_without_the_server_of_the_names_nothing_is_kept(layer: NodeThread, mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    one.create("a", b"hello")
    assert one.read("a") == b"hello"
    losses = one.losses
    layer.stop_server(0)
    wait_until(lambda: one.losses > losses, "the mount has not heard of it")
    assert one.files.cache.attributes(2) is None
    assert one.files.cache.find(ROOT, b"a") is None
    layer.start_server(0)
    other.rewrite("a", b"HELLO")  # as soon as both mounts watch again
    assert one.read("a") == b"HELLO"


def test_a_mount_that_ends_is_not_waited_for(layer: NodeThread, mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    ending = Mount(layer)
    ending.create("a", b"hello")
    ending.files.keep_house()
    ending.close()
    other.rewrite("a", b"HELLO")
    assert one.read("a") == b"HELLO"
