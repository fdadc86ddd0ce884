"""Files that a mount creates before the layer hears of them: what others see, and what becomes of late messages."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.act.forward.clients.requests import Place
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.data import objects, sole_leases
from forebay.act.forward.data.objects import Objects
from forebay.act.forward.data.server import Server
from forebay.act.forward.mount import creations, reports, sole_folders
from forebay.act.forward.mount.file_system import Attributes, Change, User
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.payloads import ROOT, ObjectSize
from forebay.act.forward.net.wire import Kind, Message
from forebay.model.layout import Layout
from support.examples import examples
from support.forward import KEY
from support.forward_changes import (
    ADMIN,
    LOOKS,
    NEVER,
    OTHER,
    STEPS,
    USER,
    compare,
    create,
    end_leases,
    names,
    outcome,
    raises,
    wait_until_closed,
)
from support.forward_mounts import ME, ROOM, Mount
from support.forward_nodes import NodeThread, node_thread
from support.processes import wait_until

STRIPE = 64 << 10


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeThread]:
    """Mounts tell the layer of new files only if somebody waits for it."""
    monkeypatch.setattr(reports, "_SOON", NEVER)
    monkeypatch.setattr(objects, "_MUCH", 0)  # however full this disk is
    monkeypatch.setattr(objects, "_MANY", 0)
    with node_thread(tmp_path) as made:
        made.node(made.serve(2))
        yield made


def hold(mount: Mount, name: bytes = b"d", user: User = ME, mode: int = 0o755) -> int:
    """Make a folder that the mount has alone."""
    folder = mount.files.mkdir(ME, ROOT, name, mode).node
    if user != ME:
        mount.files.setattr(ADMIN, folder, Change(uid=user.uid, gid=user.gid))
    for number in range(2):
        create(mount, folder, f"first{number}", user)
    mount.files.reports.settle_all()
    for number in range(2):
        mount.files.unlink(user, folder, f"first{number}".encode())
    mount.files.reports.settle_all()
    return folder


def create_early(mount: Mount, folder: int, name: str, user: User = ME) -> int:
    """Create a file that has its name as content; the layer does not hear of it yet."""
    node = create(mount, folder, name, user)
    assert mount.files.reports.is_new(folder, name.encode())
    return node


def begin(mount: Mount, folder: int, name: str, flags: int = os.O_WRONLY, mode: int = 0o644) -> tuple[int, int]:
    """Create a file, and leave it open."""
    attributes, handle = mount.files.create(ME, folder, name.encode(), flags, mode)
    return attributes.node, handle


def write(mount: Mount, node: int, handle: int, data: bytes, offset: int = 0) -> None:
    assert mount.files.write(node, handle, memoryview(data), offset, False) == len(data)


def read(mount: Mount, node: int) -> bytes:
    handle = mount.files.open(ME, node, os.O_RDONLY)
    try:
        return bytes(ROOM[: mount.files.read(handle, ROOM, 0)])
    finally:
        mount.files.release(handle)


def pending(mount: Mount) -> int:
    return len(mount.files.reports._new)


def stored(layer: NodeThread) -> set[int]:
    """All files of which a server has an object."""
    return {int(path.name, 16) for path in layer.folder.glob("data*/objects/*/*")}


def test_many_files_cost_one_message_and_are_then_what_they_were(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = hold(one)
    before = one.files.getattr(ME, folder)
    nodes = {name: create_early(one, folder, name) for name in ("a", "b", "long" * 50)}
    shown = {name: one.lookup(name, folder) for name in nodes}
    above = one.files.getattr(ME, folder)
    assert pending(one) == 3
    assert above.mtime == above.ctime > before.mtime
    for name, node in nodes.items():
        attributes = one.files.getattr(ME, node)
        assert attributes == shown[name]
        assert read(one, node) == name.encode()
        assert attributes.node == node
        assert (attributes.mode, attributes.size, attributes.links) == (stat.S_IFREG | 0o666, len(name), 1)
        assert (attributes.uid, attributes.gid) == ME[:2]
        assert before.mtime < attributes.atime <= attributes.mtime == attributes.ctime
    one.files.sync_folder(folder)
    assert pending(one) == 0
    assert {name: one.lookup(name, folder) for name in nodes} == shown  # from what it keeps
    assert one.files.cache.attributes(folder) == above
    assert not one.recalled
    for name, node in nodes.items():
        assert other.lookup(name, folder) == shown[name]
        assert read(other, node) == name.encode()
    assert other.files.getattr(ME, folder).mtime == above.mtime


BY_NAME = [
    look for look in LOOKS if look not in ("status of the file", "open of the file", "link", "chmod", "attribute")
]


@pytest.mark.parametrize("look", BY_NAME)
def test_another_mount_sees_at_once_what_was_created(mounts: tuple[Mount, Mount], look: str) -> None:
    one, other = mounts
    folder = hold(one)
    file = create_early(one, folder, "a")
    changed = one.files.getattr(ME, folder).mtime
    seen = outcome(lambda: LOOKS[look](other, folder, file))
    assert pending(one) == 0
    assert one.recalled[0] == folder
    if look == "lookup":
        assert isinstance(seen, Attributes)
        assert (seen.node, seen.size) == (file, 1)
    if look in ("status of the folder", "lookup of the folder"):
        assert isinstance(seen, Attributes)
        assert seen.mtime == changed
    expected = {"list": ["a"], "create": "EEXIST", "removal of the folder": "ENOTEMPTY", "rename": None, "unlink": None}
    if look in expected:
        assert seen == expected[look]
    create(one, folder, "b")
    assert pending(one) == 0  # others use the folder
    assert "b" in names(other, folder)


def test_a_client_without_leases_sees_it_too(layer: NodeThread, mounts: tuple[Mount, Mount]) -> None:
    one, _ = mounts
    create_early(one, hold(one), "a")
    with Client(layer.nodes[0].addresses, KEY) as library, library.open("/d/a") as file:
        assert file.pread(10, 0) == b"a"
        assert library.stat("/d/a").size == 1


def test_without_a_request_the_layer_hears_of_it_soon(layer: NodeThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_SOON", 0.0)
    mount = Mount(layer)
    folder = hold(mount)
    create(mount, folder, "a")
    node, handle = begin(mount, folder, "b")
    wait_until(lambda: not pending(mount), "the layer has not heard of it, though it is open")
    write(mount, node, handle, b"later")
    mount.files.release(handle)
    assert sorted(entry.name for entry in mount.client.readdir("/d")) == ["a", "b"]
    assert mount.client.stat("/d/b").size == 5
    mount.close()


def test_a_file_that_is_open_is_reported_with_the_next_ones(mounts: tuple[Mount, Mount]) -> None:
    one, _ = mounts
    folder = hold(one)
    node, handle = begin(one, folder, "open")
    create_early(one, folder, "a")
    queue = one.files.reports._queues[folder]
    one.files.reports._report(folder, queue, only_due=True)
    assert pending(one) == 1
    write(one, node, handle, b"bytes")
    assert pending(one) == 1
    one.files.reports._report(folder, queue, only_due=True)
    assert pending(one) == 0
    assert one.client.stat("/d/open").size == 5
    one.files.release(handle)


def test_writes_in_any_order_give_the_same_bytes(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = hold(one)
    node, handle = begin(one, folder, "a", os.O_RDWR)
    write(one, node, handle, b"end", 10)
    write(one, node, handle, b"begin")
    assert pending(one) == 1
    assert read(one, node) == b"begin\0\0\0\0\0end"
    one.files.reports.settle_all()
    write(one, node, handle, b"B")
    assert read(one, node) == b"Begin\0\0\0\0\0end"
    one.files.release(handle)
    assert read(other, node) == b"Begin\0\0\0\0\0end"


def test_a_file_that_grows_goes_on_at_the_layer(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = hold(one)
    node, handle = begin(one, folder, "a")
    write(one, node, handle, b"a" * STRIPE)
    assert pending(one) == 1
    write(one, node, handle, b"b", STRIPE)
    assert pending(one) == 0
    one.files.release(handle)
    assert other.files.getattr(ME, node).size == STRIPE + 1
    assert read(other, node) == b"a" * STRIPE + b"b"


OPEN_FILES: dict[str, Callable[[Mount, int, int], object]] = {
    "append": lambda mount, node, handle: mount.files.append(node, handle, memoryview(b"x"), False),
    "truncate": lambda mount, node, handle: mount.files.setattr(ME, node, Change(size=0, handle=handle)),
    "allocate": lambda mount, _, handle: mount.files.allocate(handle, 0, 100, 0),
    "sync": lambda mount, _, handle: mount.files.sync(handle),
    "chmod": lambda mount, node, _: mount.files.setattr(ME, node, Change(mode=0o600)),
    "link": lambda mount, node, _: mount.files.link(ME, node, ROOT, b"link"),
    "open to write": lambda mount, node, _: mount.files.release(mount.files.open(ME, node, os.O_WRONLY)),
    "attribute": lambda mount, node, _: mount.files.setxattr(ME, node, b"user.x", b"y", 0),
    "space": lambda mount, _, __: mount.files.statfs(),
    "list": lambda mount, _, __: names(mount, mount.lookup("d").node),
}


@pytest.mark.parametrize("what", OPEN_FILES)
def test_whatever_else_is_done_with_an_open_file_is_done_at_the_layer(mounts: tuple[Mount, Mount], what: str) -> None:
    one, other = mounts
    folder = hold(one)
    node, handle = begin(one, folder, "a")
    write(one, node, handle, b"a")
    OPEN_FILES[what](one, node, handle)
    assert pending(one) == 0
    write(one, node, handle, b"b")
    one.files.release(handle)
    expected = {"append": b"bx", "allocate": b"b".ljust(100, b"\0")}
    assert read(other, node) == expected.get(what, b"b")
    assert other.lookup("a", folder).mode & 0o777 == (0o600 if what == "chmod" else 0o644)


def test_what_the_kernel_asks_for_at_each_write_does_not_wait(mounts: tuple[Mount, Mount]) -> None:
    one, _ = mounts
    node = create_early(one, hold(one), "a")
    with raises(errno.ENODATA):
        one.files.getxattr(ME, node, b"security.capability")
    assert pending(one) == 1


@pytest.mark.parametrize("flags", [os.O_APPEND, os.O_SYNC, os.O_DSYNC])
def test_files_that_would_make_programs_wait_are_created_at_the_layer(mounts: tuple[Mount, Mount], flags: int) -> None:
    one, _ = mounts
    folder = hold(one)
    _, handle = begin(one, folder, "a", os.O_WRONLY | flags)
    assert pending(one) == 0
    one.files.release(handle)


def test_a_name_is_created_once(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = hold(one)
    create_early(one, folder, "a")
    with raises(errno.EEXIST):
        create(one, folder, "a")
    one.files.getattr(ME, folder)
    create_early(one, folder, "b")
    with raises(errno.EEXIST):
        create(other, folder, "b")
    with raises(errno.ENAMETOOLONG):
        create(one, folder, "n" * 256)


def test_names_that_others_have_given_are_looked_up_first(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = other.files.mkdir(ME, ROOT, b"d", 0o755).node
    create(other, folder, "theirs")
    other.files.give_up_all()
    one.lookup("d")
    for name in ("x", "y", "z"):
        with pytest.raises(FileNotFoundError):
            one.lookup(name, folder)
        create(one, folder, name)
    assert pending(one) > 0
    with raises(errno.EEXIST):
        create(one, folder, "theirs")


def test_a_file_can_go_before_the_layer_has_heard_of_it(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = hold(one)
    node, handle = begin(one, folder, "open", os.O_RDWR)
    write(one, node, handle, b"still there")
    one.files.unlink(ME, folder, b"open")
    assert bytes(ROOM[: one.files.read(handle, ROOM, 0)]) == b"still there"
    one.files.release(handle)
    for turn in range(3):
        file = create(one, folder, "a")
        assert one.lookup("a", folder).node == file
        one.files.unlink(ME, folder, b"a")
        with pytest.raises(FileNotFoundError):
            one.lookup("a", folder)
        create(one, folder, f"kept{turn}")
    assert names(other, folder) == ["kept0", "kept1", "kept2"]


def test_a_new_file_can_be_renamed_at_once(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder, into = hold(one), one.files.mkdir(ME, ROOT, b"into", 0o755).node
    node = create_early(one, folder, "new.tmp")
    one.files.rename(ME, folder, b"new.tmp", folder, b"new", 0)
    assert read(other, other.lookup("new", folder).node) == b"new.tmp"
    moved = create(one, folder, "b")
    one.files.rename(ME, folder, b"b", into, b"b", 0)
    assert (one.lookup("new", folder).node, one.lookup("b", into).node) == (node, moved)
    assert names(other, into) == ["b"]


def test_whoever_has_a_new_file_open_keeps_it_though_others_remove_it(
    layer: NodeThread, mounts: tuple[Mount, Mount]
) -> None:
    one, other = mounts
    folder = hold(one)
    node, handle = begin(one, folder, "a", os.O_RDWR)
    write(one, node, handle, b"kept")
    other.files.unlink(ME, folder, b"a")
    write(one, node, handle, b"K")
    assert bytes(ROOM[: one.files.read(handle, ROOM, 0)]) == b"Kept"
    one.files.release(handle)
    wait_until_closed(layer, one, node)
    with raises(errno.ESTALE):
        read(other, node)


def test_files_have_the_owner_and_the_group_that_the_folder_gives_them(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = hold(one, user=USER)
    one.files.setattr(ADMIN, folder, Change(gid=99, mode=0o2777))
    create(one, folder, "mine", USER)
    create_early(one, folder, "mine too", USER)
    create(one, folder, "theirs", OTHER)  # another user waits for the first one's files
    assert pending(one) == 0
    shown = {name: one.lookup(name, folder) for name in ("mine", "mine too", "theirs")}
    assert [(each.uid, each.gid) for each in shown.values()] == [(USER.uid, 99), (USER.uid, 99), (OTHER.uid, 99)]
    assert {name: other.lookup(name, folder) for name in shown} == shown
    _, handle = begin(one, folder, "with group", mode=0o2755)
    assert pending(one) == 0
    one.files.release(handle)


def test_what_one_user_may_not_create_is_not_there(mounts: tuple[Mount, Mount]) -> None:
    one, _ = mounts
    folder = hold(one, user=USER)
    with raises(errno.EACCES):
        create(one, folder, "a", OTHER)
    one.files.setattr(USER, folder, Change(mode=0o555))
    with raises(errno.EACCES):
        create(one, folder, "a", USER)
    assert names(one, folder) == []


def test_a_new_layout_of_the_folder_counts_for_the_next_file(mounts: tuple[Mount, Mount]) -> None:
    one, _ = mounts
    folder = hold(one)
    create_early(one, folder, "a")
    one.files.setxattr(ME, folder, b"user.forebay.layout", b"count=1 size=128KiB", 0)
    create(one, folder, "b")
    for number in range(4):
        create(one, folder, f"{number}")
    assert pending(one) == 0  # where large files are must not depend on who creates them
    assert one.client.layout(Place(one.lookup("a", folder).node)).size == STRIPE
    assert one.client.layout(Place(one.lookup("b", folder).node)) == Layout(
        count=1, size=2 * STRIPE, start=one.lookup("b", folder).node % 2
    )


def test_whoever_creates_too_many_waits_for_the_layer(layer: NodeThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_MOST", 4)
    monkeypatch.setattr(reports, "_MOST_BYTES", 3 * STRIPE)
    monkeypatch.setattr(reports, "_BATCH", 3)
    monkeypatch.setattr(reports, "_SOON", 0.0)
    mount = Mount(layer)
    folder = hold(mount)
    nodes = []
    for number in range(10):
        create(mount, folder, f"small{number}")
        node, handle = begin(mount, folder, f"large{number}")
        write(mount, node, handle, bytes([number]) * STRIPE)
        mount.files.release(handle)
        nodes.append(node)
        assert pending(mount) <= 4
        assert mount.files.reports._bytes <= 3 * STRIPE
    assert len(names(mount, folder)) == 20
    assert [read(mount, node) for node in nodes] == [bytes([number]) * STRIPE for number in range(10)]
    assert mount.files.reports._bytes == 0
    mount.close()


def test_a_mount_that_ends_tells_all(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = hold(one)
    create_early(one, folder, "a")
    one.files.reports.end()
    create(one, folder, "b")
    assert pending(one) == 0
    assert names(other, folder) == ["a", "b"]


def test_with_little_space_files_are_created_at_the_layer(
    layer: NodeThread, mounts: tuple[Mount, Mount], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = mounts
    folder = hold(one)
    create_early(one, folder, "a")
    monkeypatch.setattr(objects, "_MUCH", 1 << 62)
    one.files.reports.settle_all()
    for number in range(4):
        create(one, folder, f"{number}")
        assert pending(one) == 0
    monkeypatch.setattr(objects, "_MUCH", 0)
    layer.nodes[0].backend.space._full = {1}  # type: ignore[attr-defined]
    for number in range(4, 12):
        create(one, folder, f"{number}")
        assert pending(one) == 0


def test_a_disk_that_is_full_all_the_same_is_told_of_and_nothing_is_left(
    layer: NodeThread,
    mounts: tuple[Mount, Mount],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = mounts
    folder = hold(one)
    before = stored(layer)
    nodes = [create_early(one, folder, name) for name in "abc"]
    put = Objects.put

    def fail(self: Objects, file: int, data: bytes, changed: int) -> ObjectSize:
        if file == nodes[1]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return put(self, file, data, changed)

    monkeypatch.setattr(Objects, "put", fail)
    dropped: list[int] = []
    one.files.reports.drop = dropped.extend
    with raises(errno.ENOSPC):
        one.files.sync_folder(folder)
    assert "3 new files are missing" in capsys.readouterr().err
    assert dropped == [folder, *nodes]
    one.files.sync_folder(folder)
    assert names(one, folder) == names(other, folder) == []
    assert stored(layer) <= before
    left = [each for server in layer.servers.values() for each in server._names._names.list_pending().forget]
    assert not {file for file, _ in left} & {*nodes}
    create(one, folder, "a")
    assert names(other, folder) == ["a"]


def test_a_lost_server_waits_for_what_was_created_before_it_answers_others(
    layer: NodeThread, mounts: tuple[Mount, Mount]
) -> None:
    one, other = mounts
    folder = hold(one)
    files = [create_early(one, folder, name) for name in "ab"]
    for index in range(2):
        layer.stop_server(index)
    for index in range(2):
        layer.start_server(index)
    assert other.files.getattr(ME, files[0]).size == 1
    assert names(other, folder) == ["a", "b"]
    assert [read(other, file) for file in files] == [b"a", b"b"]
    assert pending(one) == 0


def test_a_message_whose_answer_is_lost_is_repeated_without_harm(
    layer: NodeThread, mounts: tuple[Mount, Mount], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = mounts
    folder = hold(one)
    files = [create_early(one, folder, name) for name in "ab"]
    lost: list[Message] = []

    def answer(server: Server, connection: Connection, message: Message) -> None:
        if lost:
            answers[server](connection, message)
            return
        lost.append(message)
        server._names._names.answer(message)
        connection.close()

    answers = {server: server._handlers[Kind.ADD] for server in layer.servers.values()}
    for server in answers:
        monkeypatch.setitem(server._handlers, Kind.ADD, partial(answer, server))
    shown = [one.files.getattr(ME, file) for file in files]
    one.files.reports.settle_all()
    assert lost
    assert [other.files.getattr(ME, file) for file in files] == shown
    assert [read(other, file) for file in files] == [b"a", b"b"]


def test_a_late_file_spares_what_others_have_created_meanwhile(
    layer: NodeThread, mounts: tuple[Mount, Mount], capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = mounts
    folder = hold(one)
    late = [create_early(one, folder, name) for name in "ab"]
    end_leases(layer, one)
    assert names(other, folder) == []
    theirs = create(other, folder, "a")
    one.files.reports.settle_all()
    assert "1 new files are missing" in capsys.readouterr().err
    assert other.lookup("a", folder).node == theirs
    assert other.lookup("b", folder).node == late[1]
    assert read(other, late[1]) == b"b"
    assert one.lookup("a", folder).node == theirs
    assert names(one, folder) == ["a", "b"]
    with raises(errno.EEXIST):
        one.files.sync_folder(folder)
    assert late[0] not in stored(layer)


def test_files_in_a_folder_that_is_gone_are_told_of(
    layer: NodeThread, mounts: tuple[Mount, Mount], capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = mounts
    folder = hold(one)
    file = create_early(one, folder, "a")
    end_leases(layer, one)
    other.files.rmdir(ME, ROOT, b"d")
    one.files.reports.settle_all()
    assert "1 new files are missing" in capsys.readouterr().err
    assert file not in stored(layer)


# Random operations of two mounts, beside a plain folder

FIRST = [
    (mount, (step.split()[0], f"{folder}/{step[-1]}"))
    for mount, folder in ((0, "d"), (1, "e"))
    for step in ("create x", "create y", "unlink x", "create a", "create b", "unlink y")
]
"""Steps after which a mount has a folder alone, and has created files there in advance."""


def test_two_mounts_that_create_in_advance_give_what_a_plain_folder_gives(
    mounts: tuple[Mount, Mount], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_advance: Counter[int] = Counter()
    create_alone, numbers = creations.Creations.create, count()

    def create(
        self: creations.Creations, user: User, folder: int, name: bytes, flags: int, mode: int
    ) -> tuple[Attributes, int] | None:
        created = create_alone(self, user, folder, name, flags, mode)
        in_advance[(mounts[1].files._creations is self) if created is not None else -1] += 1
        return created

    monkeypatch.setattr(creations.Creations, "create", create)
    monkeypatch.setattr(sole_folders, "_FIRST", 1)
    monkeypatch.setattr(sole_folders, "_LAST", 1)
    monkeypatch.setattr(sole_leases, "_SHARED", 0.0)

    @settings(max_examples=examples(60), suppress_health_check=list(HealthCheck), deadline=None)
    @given(steps=st.lists(st.tuples(st.integers(0, 1), STEPS), max_size=40))
    def run(steps: list[tuple[int, tuple[str, ...]]]) -> None:
        compare(mounts, f"base{next(numbers)}", FIRST, steps)

    run()
    assert min(in_advance[0], in_advance[1]) >= next(numbers)  # at least one of each mount in each example
