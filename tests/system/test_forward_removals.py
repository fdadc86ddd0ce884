"""Names that a mount has removed in advance, while processes of the layer are stopped and killed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from time import monotonic

import pytest

from forebay.act.forward.net.payloads import LEASE
from support.fio import needs_fuse
from support.forward_processes import layer, start, unmount
from support.forward_worlds import KILLED, NAMES, World, listed
from support.processes import PATIENCE, wait_until


@pytest.fixture
def world() -> Iterator[World]:
    needs_fuse()
    with layer() as made:
        yield World(made)


def test_another_mount_waits_for_what_was_removed(world: World) -> None:
    mine, theirs = world.hold("d")
    node = world.layer.nodes[0]
    world.remove_without([node], mine, NAMES)
    assert not any((mine / name).exists() for name in NAMES)
    node.signal(signal.SIGCONT)
    assert listed(theirs) == set()
    assert mine.stat().st_mtime_ns == theirs.stat().st_mtime_ns


@pytest.mark.parametrize("what", KILLED)
def test_no_removal_is_lost_with_the_layer(world: World, what: str) -> None:
    mine, theirs = world.hold("d")
    victims = KILLED[what](world.layer)
    world.remove_without(victims, mine, NAMES[1:])
    for part in victims:
        part.kill()
    start(*victims)
    assert listed(theirs) == {NAMES[0]}
    assert listed(mine) == {NAMES[0]}
    (theirs / NAMES[1]).write_text("new")
    assert (mine / NAMES[1]).read_text() == "new"
    assert (mine / NAMES[0]).read_text() == NAMES[0]


def test_a_mount_that_is_unmounted_tells_the_layer_before_it_ends(world: World) -> None:
    mine, theirs = world.hold("d")
    node = world.layer.nodes[0]
    world.remove_without([node], mine, NAMES)
    unmount(world.points[0])
    node.signal(signal.SIGCONT)
    world.mounts[0].stop()
    assert listed(theirs) == set()


def test_of_a_killed_mount_names_may_be_back_and_nothing_else_is_lost(world: World) -> None:
    mine, theirs = world.hold("d")
    node = world.layer.nodes[0]
    world.remove_without([node], mine, NAMES[2:])
    world.mounts[0].kill()
    node.kill()  # nobody hears any more what the mount may have said
    node.start()
    unmount(world.points[0])
    for name in listed(theirs):
        assert (theirs / name).read_text() == name
    assert listed(theirs) >= set(NAMES[:2])
    for name in listed(theirs):
        (theirs / name).unlink()
    theirs.rmdir()


def test_a_stopped_mount_delays_others_until_its_lease_ends_and_then_spares_what_is_theirs(world: World) -> None:
    mine, theirs = world.hold("d")
    node = world.layer.nodes[0]
    world.remove_without([node], mine, NAMES)
    world.mounts[0].signal(signal.SIGSTOP)
    node.kill()  # nobody hears any more what the mount may have said
    node.start()
    began = monotonic()
    assert listed(theirs) == set(NAMES)
    assert monotonic() - began < 3 * LEASE
    (theirs / NAMES[0]).unlink()
    (theirs / NAMES[0]).write_text("new")
    (theirs / NAMES[1]).rename(theirs / "renamed")
    world.mounts[0].signal(signal.SIGCONT)
    wait_until(lambda: listed(theirs) == {NAMES[0], "renamed"}, "the layer has not heard of the removals")
    assert listed(mine) == {NAMES[0], "renamed"}
    assert (mine / NAMES[0]).read_text() == "new"
    assert (mine / "renamed").read_text() == NAMES[1]


def test_folders_go_with_all_that_is_in_them_while_another_mount_looks(world: World) -> None:
    for turn in range(3):
        mine, theirs = world.hold(f"d{turn}-")
        for name in NAMES:
            (mine / name).unlink()
        mine.rmdir()
        assert not theirs.exists()


def test_while_one_program_waits_for_the_layer_others_use_what_the_mount_keeps(world: World) -> None:
    mine, _ = world.hold("d")
    node = world.layer.nodes[0]
    node.signal(signal.SIGSTOP)
    waiting = [threading.Thread(target=listed, args=(mine,)) for _ in range(3)]
    for each in waiting:
        each.start()
    for name in NAMES:
        assert (mine / name).read_text() == name
    assert all(each.is_alive() for each in waiting)
    node.signal(signal.SIGCONT)
    for each in waiting:
        each.join(PATIENCE)
        assert not each.is_alive()
