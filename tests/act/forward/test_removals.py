"""Names that a mount removes before the layer hears of it: what others see, and what becomes of late messages."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.act.forward.clients.requests import Place
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.data import objects, sole_leases
from forebay.act.forward.mount import removals, reports, sole_folders
from forebay.act.forward.mount.file_system import Change, NameAbsent, User
from forebay.act.forward.net.payloads import ROOT, Caller
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


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeThread]:
    """Mounts tell the layer of removals only if somebody waits for it. They create no files in advance."""
    monkeypatch.setattr(reports, "_SOON", NEVER)
    monkeypatch.setattr(objects, "_MUCH", 1 << 62)
    with node_thread(tmp_path) as made:
        made.node(made.serve(2))
        yield made


def hold(mount: Mount, files: str = "abc", name: bytes = b"d", user: User = ME) -> int:
    """Make a folder that the mount has alone, with these files."""
    folder = mount.files.mkdir(ME, ROOT, name, 0o755).node
    if user != ME:
        mount.files.setattr(ADMIN, folder, Change(uid=user.uid, gid=user.gid))
    for number in range(2):
        create(mount, folder, f"first{number}", user)
        mount.files.unlink(user, folder, f"first{number}".encode())
    for each in files:
        create(mount, folder, each, user)
    return folder


def remove(mount: Mount, folder: int, name: str, user: User = ME) -> None:
    """Remove a file; the layer does not hear of it yet."""
    mount.files.unlink(user, folder, name.encode())
    assert mount.files.reports.is_removed(folder, name.encode())


def pending(mount: Mount) -> int:
    return len(mount.files.reports._folders)


def test_many_removals_cost_one_message(mounts: tuple[Mount, Mount]) -> None:
    one, _ = mounts
    folder = hold(one)
    before = one.files.getattr(ME, folder)
    for name in "abc":
        remove(one, folder, name)
        with pytest.raises(NameAbsent):
            one.lookup(name, folder)
    after = one.files.getattr(ME, folder)
    assert pending(one) == 3
    assert after.mtime == after.ctime > before.mtime
    one.files.sync_folder(folder)
    assert pending(one) == 0
    assert one.client.stat("/d").mtime == after.mtime  # and what the mount keeps of it stays valid
    assert one.files.cache.attributes(folder) == after


EXPECTED: dict[str, object] = {
    "lookup": "ENOENT", "open": "ENOENT", "rename": "ENOENT", "unlink": "ENOENT", "list": [],
    "status of the file": "ESTALE", "open of the file": "ESTALE", "link": "ESTALE", "chmod": "ESTALE",
    "attribute": "ESTALE", "removal of the folder": None,
}  # fmt: skip


@pytest.mark.parametrize("look", LOOKS)
def test_another_mount_sees_at_once_what_was_removed(layer: NodeThread, mounts: tuple[Mount, Mount], look: str) -> None:
    one, other = mounts
    folder = hold(one, "a")
    file, changed = one.lookup("a", folder).node, one.files.getattr(ME, folder).mtime
    wait_until_closed(layer, one, file)
    remove(one, folder, "a")
    seen = outcome(lambda: LOOKS[look](other, folder, file))
    assert pending(one) == 0
    assert one.recalled[0] == folder
    if look in EXPECTED:
        assert seen == EXPECTED[look]
    if look in ("status of the folder", "lookup of the folder"):
        assert seen.mtime > changed  # type: ignore[attr-defined]
    create(one, folder, "b") if look != "removal of the folder" else None
    assert not one.files.reports.is_removed(folder, b"a")


def test_a_client_without_leases_sees_it_too(layer: NodeThread, mounts: tuple[Mount, Mount]) -> None:
    one, _ = mounts
    folder = hold(one, "ab")
    remove(one, folder, "a")
    with Client(layer.nodes[0].addresses, KEY) as library:
        assert [entry.name for entry in library.readdir("/d")] == ["b"]
        one.files.unlink(ME, folder, b"b")
        with raises(errno.ENOENT):
            library.stat("/d/b")


def test_a_folder_that_others_use_is_not_asked_for_again_at_once(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = hold(one, "a")
    remove(one, folder, "a")
    assert names(other, folder) == []
    for number in range(10):
        create(one, folder, f"{number}")
        one.files.unlink(ME, folder, f"{number}".encode())
        assert pending(one) == 0


def test_files_that_were_there_before_are_removed_so_too_unless_somebody_has_them_open(
    layer: NodeThread, mounts: tuple[Mount, Mount], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sole_leases, "_SHARED", 0.0)
    one, other = mounts
    folder = one.files.mkdir(ME, ROOT, b"d", 0o755).node
    for name in ("first", "open", "second", "third"):
        create(one, folder, name)
    with Client(layer.nodes[0].addresses, KEY) as library, library.open("/d/open") as opened:
        assert set(names(one, folder)) == {"first", "open", "second", "third"}
        one.lookup("d")
        for name in ("open", "third"):
            one.lookup(name, folder)
        wait_until_closed(layer, one, one.lookup("third", folder).node)
        for name in ("first", "second"):
            one.files.unlink(ME, folder, name.encode())
        remove(one, folder, "third")
        one.files.unlink(ME, folder, b"open")
        assert pending(one) == 0  # the layer has done this one
        assert opened.pread(4, 0) == b"open"
    assert names(other, folder) == []


def test_a_file_that_is_open_here_stays_until_it_is_closed(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = hold(one, "a")
    handle = one.open("a", folder=folder)
    one.files.unlink(ME, folder, b"a")
    assert pending(one) == 0
    assert bytes(ROOM[: one.files.read(handle, ROOM, 0)]) == b"a"
    one.files.release(handle)
    assert names(other, folder) == []


def test_of_a_hard_link_the_other_name_is_right(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = hold(one, "ab")
    file = one.lookup("a", folder).node
    one.files.link(ME, file, folder, b"second")
    one.files.unlink(ME, folder, b"a")
    assert one.lookup("second", folder).links == 1
    assert other.lookup("second", folder).links == 1
    assert other.files.getattr(ME, file).links == 1


def test_the_same_name_can_be_used_again_at_once(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = hold(one, "ab")
    remove(one, folder, "a")
    remove(one, folder, "b")
    new = create(one, folder, "a")
    assert pending(one) == 0
    assert one.lookup("a", folder).node == new
    one.files.rename(ME, folder, b"a", folder, b"b", 0)
    assert other.lookup("b", folder).node == new
    assert names(other, folder) == ["b"]


def test_a_folder_goes_right_after_its_files(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = hold(one)
    for name in "abc":
        remove(one, folder, name)
    one.files.rmdir(ME, ROOT, b"d")
    assert not one.recalled  # its own request does not wait for its own lease
    with pytest.raises(NameAbsent):
        other.lookup("d")
    replaced, empty = hold(one, "a"), one.files.mkdir(ME, ROOT, b"new", 0o755).node
    remove(one, replaced, "a")
    one.files.rename(ME, ROOT, b"new", ROOT, b"d", 0)
    assert other.lookup("d").node == empty


def test_what_one_user_may_not_remove_stays(mounts: tuple[Mount, Mount]) -> None:
    one, _ = mounts
    folder = hold(one, "ab", user=USER)
    one.files.setattr(USER, folder, Change(mode=0o1777))
    with raises(errno.EPERM):
        one.files.unlink(OTHER, folder, b"a")  # sticky
    create(one, folder, "c", OTHER)
    one.lookup("a", folder)
    remove(one, folder, "a", USER)
    remove(one, folder, "c", USER)  # the folder is that user's
    one.files.setattr(USER, folder, Change(mode=0o755))
    with raises(errno.EACCES):
        one.files.unlink(OTHER, folder, b"b")
    one.files.setattr(USER, folder, Change(mode=0o555))
    with raises(errno.EACCES):
        one.files.unlink(USER, folder, b"b")
    assert names(one, folder) == ["b"]


def test_who_may_not_change_a_folder_cannot_keep_others_from_looking_at_it(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = one.files.mkdir(ME, ROOT, b"d", 0o755).node
    create(one, folder, "a")
    one.files.give_up_all()
    with raises(errno.EACCES):
        one.client.hold_alone(Place(folder), b"", caller=Caller(OTHER.uid, OTHER.gid))
    assert names(other, folder) == ["a"]
    assert not one.recalled


def test_users_take_turns_in_one_folder(mounts: tuple[Mount, Mount]) -> None:
    one, _ = mounts
    folder = hold(one, "abcd", user=USER)
    one.files.setattr(USER, folder, Change(mode=0o777))
    remove(one, folder, "a", USER)
    one.files.unlink(OTHER, folder, b"b")  # the layer hears of the first one before
    assert pending(one) == 0
    remove(one, folder, "c", OTHER)
    assert names(one, folder) == ["d"]


def test_whoever_removes_too_many_waits_for_the_layer(layer: NodeThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_MOST", 4)
    monkeypatch.setattr(reports, "_BATCH", 3)
    monkeypatch.setattr(reports, "_SOON", 0.0)
    mount = Mount(layer)
    folder = hold(mount, "abcdefghijklm")
    for name in "abcdefghijkl":
        mount.files.unlink(ME, folder, name.encode())
        assert pending(mount) <= 4
    assert names(mount, folder) == ["m"]
    mount.close()


def test_without_a_request_the_layer_hears_of_it_soon(layer: NodeThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_SOON", 0.0)
    mount = Mount(layer)
    folder = hold(mount, "ab")
    mount.files.unlink(ME, folder, b"a")
    wait_until(lambda: not pending(mount), "the layer has not heard of it")
    assert [entry.name for entry in mount.client.readdir("/d")] == ["b"]
    mount.close()


def test_a_mount_that_ends_tells_all(mounts: tuple[Mount, Mount]) -> None:
    one, other = mounts
    folder = hold(one, "ab")
    remove(one, folder, "a")
    one.files.reports.end()
    one.files.unlink(ME, folder, b"b")
    assert pending(one) == 0
    assert names(other, folder) == []


def test_a_lost_server_waits_for_what_was_removed_before_it_answers_others(
    layer: NodeThread, mounts: tuple[Mount, Mount]
) -> None:
    one, other = mounts
    folder = hold(one, "ab")
    file = one.lookup("a", folder).node
    remove(one, folder, "a")
    for index in range(2):
        layer.stop_server(index)
    for index in range(2):
        layer.start_server(index)
    assert other.files.getattr(ME, file).links == 0  # servers cannot know yet whether somebody has it open
    assert names(other, folder) == ["b"]
    assert pending(one) == 0


def test_a_late_removal_spares_what_others_have_created_meanwhile(
    layer: NodeThread, mounts: tuple[Mount, Mount]
) -> None:
    one, other = mounts
    folder = hold(one, "abc")
    for name in "abc":
        remove(one, folder, name)
    end_leases(layer, one)
    assert names(other, folder) == ["a", "b", "c"]
    other.files.unlink(ME, folder, b"a")
    new = create(other, folder, "a")
    other.files.rename(ME, folder, b"b", folder, b"renamed", 0)
    assert other.lookup("c", folder)
    one.files.reports.settle_all()
    assert other.lookup("a", folder).node == new
    assert names(other, folder) == ["a", "renamed"]
    with pytest.raises(NameAbsent):
        other.lookup("c", folder)


def test_a_late_removal_that_is_refused_is_told_of_and_what_the_mount_kept_is_dropped(
    layer: NodeThread,
    mounts: tuple[Mount, Mount],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reports, "_BATCH", 1)
    one, other = mounts
    dropped: list[int] = []
    one.files.reports.drop = dropped.extend
    folder = hold(one, "ab", user=USER)
    remove(one, folder, "a", USER)
    remove(one, folder, "b", USER)
    end_leases(layer, one)
    other.files.setattr(USER, folder, Change(mode=0o555))
    one.files.reports.settle_all()
    assert "2 removed names may be back" in capsys.readouterr().err
    assert dropped == [folder]
    with raises(errno.EACCES):
        one.files.sync_folder(folder)
    one.files.sync_folder(folder)
    assert one.lookup("a", folder)
    assert one.files.getattr(ME, folder).mode & 0o777 == 0o555


# Random operations of two mounts, beside a plain folder

FIRST = [
    (mount, (step.split()[0], f"{folder}/{step[-1]}"))
    for mount, folder in ((0, "d"), (1, "e"))
    for step in ("create x", "unlink x", "create a", "create b", "unlink a")
]
"""Steps after which a mount has a folder alone, with a file, and has removed another one there in advance."""


def test_two_mounts_that_remove_in_advance_give_what_a_plain_folder_gives(
    mounts: tuple[Mount, Mount], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_advance: Counter[int] = Counter()
    remove_alone, numbers = removals.Removals.remove, count()

    def remove(self: removals.Removals, user: User, folder: int, name: bytes) -> bool:
        is_removed = remove_alone(self, user, folder, name)
        in_advance[(mounts[1].files._removals is self) if is_removed else -1] += 1
        return is_removed

    monkeypatch.setattr(removals.Removals, "remove", remove)
    monkeypatch.setattr(sole_folders, "_FIRST", 1)
    monkeypatch.setattr(sole_folders, "_LAST", 1)
    monkeypatch.setattr(sole_leases, "_SHARED", 0.0)

    @settings(max_examples=examples(60), suppress_health_check=list(HealthCheck), deadline=None)
    @given(steps=st.lists(st.tuples(st.integers(0, 1), STEPS), max_size=40))
    def run(steps: list[tuple[int, tuple[str, ...]]]) -> None:
        compare(mounts, f"base{next(numbers)}", FIRST, steps)

    run()
    assert min(in_advance[0], in_advance[1]) >= next(numbers)  # at least one of each mount in each example
