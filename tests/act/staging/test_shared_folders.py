"""Copies into and out of a shared file system by several nodes, of which each has some servers' volumes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.forward.clients.operations import Operations
from forebay.act.staging import copier
from forebay.act.staging.copier import Changed, Copier
from forebay.act.staging.journal import Journal
from forebay.act.staging.shared_folders import Layer
from forebay.act.staging.stored_objects import LocalObject, RemoteObject
from forebay.model.errors import UserError
from forebay.model.file_times import LAST
from forebay.model.layout import GRAIN
from support.forward_processes import layer, start
from support.processes import wait_until
from support.staging_nodes import PIECE, SERVERS, Space, make_tree, tree


@pytest.fixture
def space(monkeypatch: pytest.MonkeyPatch) -> Iterator[Space]:
    monkeypatch.setattr(copier, "PIECE", PIECE)
    monkeypatch.setattr(copier, "_ZEROS", bytes(PIECE))
    with layer() as made:
        made.add_servers(SERVERS)
        start(*made.servers)
        yield Space(made.folder, made.key.decode())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "source")


@pytest.mark.parametrize("here", [(), (1, 2)])
def test_two_nodes_copy_a_tree_in_and_one_copies_it_out(
    tmp_path: Path, space: Space, source: Path, here: tuple[int, ...]
) -> None:
    space.stage_in(source, "deep/copy")
    space.stage_out("deep/copy", tmp_path / "out", here)
    assert tree(tmp_path / "out") == tree(source)
    assert not any("forebay" in name for name in space.names())
    assert space.objects() <= set(space.names().values())


def test_a_later_time_than_a_shared_folder_has_becomes_its_last(
    tmp_path: Path, space: Space, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = 10_500_000_000 * 10**9  # in the year 2302
    for each in (source, *source.rglob("*")):
        if not each.is_symlink():
            os.utime(each, ns=(late, late))
    if source.stat().st_mtime_ns != late:
        pytest.skip("the file system of the tests has no such times")
    journals = os.memfd_create("journal0"), os.memfd_create("journal1")
    space.stage_in(source, "copy", journals)
    space.stage_out("copy", tmp_path / "out")
    assert {mtime for mtime, _, _ in tree(tmp_path / "out").values()} <= {0, LAST}
    monkeypatch.setattr(Copier, "_put_files", None)
    monkeypatch.setattr(Copier, "_copy_large", None)
    space.stage_in(source, "copy", journals)  # copies nothing again


def test_each_node_writes_its_own_objects_only(space: Space, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a byte goes to another node")

    monkeypatch.setattr(RemoteObject, "write", fail)
    space.stage_in(source, "copy")
    assert all(any(space.volume(number).glob("objects/*/*")) for number in range(SERVERS))


def test_a_copy_replaces_files_whose_objects_go(tmp_path: Path, space: Space, source: Path) -> None:
    space.stage_in(source, "copy")
    before = space.names()
    for path in ("large", "folder/small3"):
        (source / path).write_bytes(os.urandom(GRAIN + 5))
    space.stage_in(source, "copy")
    space.stage_out("copy", tmp_path / "out")
    assert tree(tmp_path / "out") == tree(source)
    replaced = set(before.values()) - set(space.names().values())
    assert replaced
    wait_until(lambda: not replaced & space.objects(), "objects of replaced files stay")


def test_full_servers_of_a_node_leave_the_file_to_others(
    tmp_path: Path, space: Space, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "folder" / "link").unlink()
    measure = Layer._measure_space
    monkeypatch.setattr(Layer, "_measure_space", lambda layer, server: measure(layer, server) if server == 3 else 0)
    space.stage_in(source / "folder", "copy")
    space.stage_out("copy", tmp_path / "out")
    assert tree(tmp_path / "out") == tree(source / "folder")
    assert not any(any(space.volume(number).glob("objects/*/*")) for number in range(3))


def test_a_damaged_copy_is_an_error_and_leaves_nothing(
    space: Space, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = LocalObject.write
    monkeypatch.setattr(LocalObject, "write", lambda here, data, offset: write(here, data[:-1] + b"!", offset))
    (source / "folder" / "small2").write_bytes(b"something else")
    for path in ("folder/small2", "large"):
        with pytest.raises(Changed, match="the copy has other bytes"):
            space.stage_in(source / path, "copy")
    assert space.names() == {}
    wait_until(lambda: space.objects() == set(), "objects stay")


def test_names_that_cannot_be_given_leave_no_objects(space: Space, source: Path) -> None:
    with space.opened((), Journal()) as root:
        root.enter("small1", make=True)
    with pytest.raises(UserError, match="is a directory"):
        space.stage_in(source / "folder" / "small1", "small1")
    wait_until(lambda: space.objects() == set(), "objects stay")


@pytest.mark.parametrize("operation", ["place", "rename"])
def test_a_staging_that_stops_goes_on_where_it_was(
    tmp_path: Path, space: Space, source: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """As after a kill, nothing is cleaned up: bytes without a name stay until the next process comes."""

    async def stop(*_: object, **__: object) -> None:
        raise KeyError("stopped")

    journals = tuple(os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT | os.O_APPEND) for number in (0, 1))
    with monkeypatch.context() as stopped:
        stopped.setattr(Operations, operation, stop)
        stopped.setattr(Copier, "remove_incomplete", lambda *_: None)
        stopped.setattr(Layer, "remove_objects", lambda *_: None)
        with pytest.raises(KeyError):
            space.stage_in(source, "copy", (journals[0], journals[1]))
    assert space.objects() - set(space.names().values()) or any("forebay" in name for name in space.names())
    space.stage_in(source, "copy", (journals[0], journals[1]))
    space.stage_out("copy", tmp_path / "out")
    assert tree(tmp_path / "out") == tree(source)
    names = space.names()
    assert not any("forebay" in name for name in names)
    wait_until(lambda: space.objects() <= set(names.values()), "objects without a name stay")
    for journal in journals:
        os.close(journal)
