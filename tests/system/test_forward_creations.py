"""Files that a mount has created in advance, while processes of the layer are stopped and killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from forebay.act.forward.net.payloads import LEASE
from support.fio import needs_fuse
from support.forward_processes import layer, unmount
from support.forward_processes import start as start_all
from support.forward_worlds import KILLED, NAMES, World, listed, sync_folder
from support.processes import wait_until

NEW = [f"new{number}" for number in range(12)]


@pytest.fixture
def world() -> Iterator[World]:
    needs_fuse()
    with layer() as made:
        yield World(made)


def check(folder: Path, names: list[str]) -> None:
    """These files and the earlier ones are there, with all of their bytes, and with them alone."""
    assert listed(folder) == {*NAMES, *names}
    for name in listed(folder):
        assert (folder / name).read_text() == name


def test_another_mount_waits_for_what_was_created(world: World) -> None:
    mine, theirs = world.hold("d")
    node = world.layer.nodes[0]
    world.create_without([node], mine, NEW)
    shown = {name: (mine / name).stat() for name in NEW}
    node.signal(signal.SIGCONT)
    check(theirs, NEW)
    for name in NEW:
        seen = (theirs / name).stat()
        assert (seen.st_ino, seen.st_mode, seen.st_uid, seen.st_gid) == (
            shown[name].st_ino, shown[name].st_mode, shown[name].st_uid, shown[name].st_gid,
        )  # fmt: skip
        assert (seen.st_mtime_ns, seen.st_ctime_ns) == (shown[name].st_mtime_ns, shown[name].st_ctime_ns)
        assert (seen.st_size, seen.st_blocks) == (shown[name].st_size, (mine / name).stat().st_blocks)
    assert mine.stat().st_mtime_ns == theirs.stat().st_mtime_ns


@pytest.mark.parametrize("what", KILLED)
def test_no_new_file_is_lost_with_the_layer(world: World, what: str) -> None:
    mine, theirs = world.hold("d")
    victims = KILLED[what](world.layer)
    world.create_without(victims, mine, NEW)
    for part in victims:
        part.kill()
    start_all(*victims)
    check(theirs, NEW)
    check(mine, NEW)
    (theirs / NEW[0]).write_text("theirs")
    assert (mine / NEW[0]).read_text() == "theirs"


def test_a_mount_that_is_unmounted_tells_the_layer_before_it_ends(world: World) -> None:
    mine, theirs = world.hold("d")
    node = world.layer.nodes[0]
    world.create_without([node], mine, NEW)
    unmount(world.points[0])
    node.signal(signal.SIGCONT)
    world.mounts[0].stop()
    check(theirs, NEW)


def test_of_a_killed_mount_new_files_are_complete_or_missing_and_what_was_synced_is_there(world: World) -> None:
    mine, theirs = world.hold("d")
    for name in ("synced", "also synced"):
        (mine / name).write_text(name)
    sync_folder(mine)
    handle = os.open(mine / "file", os.O_WRONLY | os.O_CREAT)
    os.write(handle, b"file")
    os.fsync(handle)
    node = world.layer.nodes[0]
    world.create_without([node], mine, NEW)
    world.mounts[0].kill()
    node.kill()  # nobody hears any more what the mount may have said
    node.start()
    unmount(world.points[0])
    left = listed(theirs) & set(NEW)
    check(theirs, ["synced", "also synced", "file", *left])
    for name in listed(theirs):
        (theirs / name).unlink()
    theirs.rmdir()


def test_a_stopped_mount_delays_others_until_its_lease_ends_and_then_spares_what_is_theirs(world: World) -> None:
    mine, theirs = world.hold("d")
    node = world.layer.nodes[0]
    world.create_without([node], mine, NEW)
    world.mounts[0].signal(signal.SIGSTOP)
    node.kill()  # nobody hears any more what the mount may have said
    node.start()
    began = monotonic()
    assert listed(theirs) == set(NAMES)
    assert monotonic() - began < 3 * LEASE
    (theirs / NEW[0]).write_text("theirs")
    world.mounts[0].signal(signal.SIGCONT)
    wait_until(lambda: listed(theirs) == {*NAMES, *NEW}, "the layer has not heard of the new files")
    assert listed(mine) == {*NAMES, *NEW}
    assert (mine / NEW[0]).read_text() == (theirs / NEW[0]).read_text() == "theirs"
    assert [(theirs / name).read_text() for name in NEW[1:]] == NEW[1:]
