"""Shared file systems: equal parts on different disks, a data server on each, and what a loss means."""

import pytest

from forebay.decide.grants import commands as co
from forebay.model.errors import BadInput
from forebay.model.grant import State
from forebay.model.reasons import Reason
from support.grants import ADMINISTRATOR, Service, agent, ask, check, disk, fold, grant_id, service

SERVED = {"address": "10.0.0.1:7000"}


def machine(**nodes: tuple[int, ...]) -> Service:
    """Nodes with disks of these capacities, named a, b, …"""
    made = service()
    for node, capacities in nodes.items():
        made.register(node, *(disk(name, capacity) for name, capacity in zip("abcdef", capacities, strict=False)))
    return made


def parts(made: Service, number: int = 1) -> dict[str, int]:
    return {volume.disk: volume.size for volume in made.control.volumes(grant_id(number))}


def serve(made: Service, *nodes: str) -> None:
    """Make all volumes on these nodes, each with its data server."""
    for node in nodes:
        for action in made.control.actions(node):
            made.do(co.Made(caller=agent(node), volume=action.volume, settings=SERVED))


def because(made: Service, number: int = 1) -> str:
    return made.control.grant(grant_id(number)).because


def test_equal_parts_lie_on_different_disks_and_on_as_many_nodes_as_possible() -> None:
    made = machine(x=(100, 100, 100), y=(100, 100), z=(100,))
    assert made.ask(1, 150, expose="shared", servers=4) is State.MAKING
    assert sorted(parts(made).values()) == [38] * 4  # at least 150 together
    assert sorted(disk.partition("/")[0] for disk in parts(made)) in (["x", "x", "y", "z"], ["x", "y", "y", "z"])
    check(made.control)


def test_without_a_number_there_are_four_servers_if_there_are_so_many_disks() -> None:
    made = machine(x=(100, 100, 100), y=(100, 100))
    made.ask(1, 40, expose="shared")
    assert len(parts(made)) == 4
    few = machine(x=(100,), y=(100,))
    few.ask(1, 40, expose="shared")
    assert len(parts(few)) == 2


def test_a_large_one_gets_a_server_for_every_part_of_the_rules() -> None:
    made = machine(x=(100, 100, 100), y=(100, 100, 100))
    made.rules(split=10)
    made.ask(1, 60, expose="shared")
    assert len(parts(made)) == 6


def test_each_data_server_knows_its_number_and_how_many_there_are() -> None:
    made = machine(x=(100, 100), y=(100, 100))
    made.ask(1, 40, expose="shared", servers=3)
    actions = [action for node in "xy" for action in made.control.actions(node)]
    assert sorted((action.index, action.servers) for action in actions) == [(0, 3), (1, 3), (2, 3)]
    assert {action.expose for action in actions} == {"shared"}
    made.ask(2, 40)
    assert [(a.index, a.servers) for n in "xy" for a in made.control.actions(n) if a.expose == ""] == [(0, 0)]


def test_it_is_ready_once_every_volume_has_a_data_server() -> None:
    made = machine(x=(100,), y=(100,))
    made.ask(1, 40, expose="shared", servers=2)
    serve(made, "x")
    assert made.state(1) is State.MAKING
    serve(made, "y")
    assert made.state(1) is State.READY
    assert [volume.settings for volume in made.control.volumes(grant_id(1))] == [SERVED] * 2
    check(made.control)


def test_an_agent_that_starts_no_data_server_does_not_make_the_volume() -> None:
    made = machine(x=(100,), y=(100,))
    made.ask(1, 40, expose="shared", servers=2)
    serve(made, "y")
    [action] = made.control.actions("x")
    made.do(co.Made(caller=agent("x"), volume=action.volume, path="/fast"))
    assert made.state(1) is State.RELEASING
    assert "agent of node x is too old to run data servers" in because(made)


def test_more_servers_than_disks_are_refused() -> None:
    made = machine(x=(100, 100), y=(100,))
    assert made.ask(1, 40, expose="shared", servers=4) is State.REFUSED
    grant = made.control.grant(grant_id(1))
    assert (grant.reason, grant.because) == (Reason.TOO_LARGE, "4 data servers need 4 disks; there are only 3 disks")


def test_parts_that_no_such_number_of_disks_could_hold_are_refused() -> None:
    made = machine(x=(100, 100), y=(100, 10))
    assert made.ask(1, 360, expose="shared", servers=4, equal=True) is State.REFUSED
    assert because(made) == "4 parts of 90 B do not fit: 3 of 4 disks are that large"
    assert made.ask(2, 330, expose="shared", servers=4) is State.REFUSED  # more than all disks together
    assert made.ask(3, 80, expose="shared", servers=4) is State.MAKING  # one of 10 is half of an equal part


def test_unequal_parts_are_made_only_if_equal_ones_are_not_required() -> None:
    for equal, state in ((True, State.QUEUED), (False, State.MAKING)):
        made = machine(x=(100,), y=(100,))
        made.ask(1, 50)
        taken = made.control.volumes(grant_id(1))[0].disk
        assert made.ask(2, 120, expose="shared", servers=2, equal=equal) is state
        check(made.control)
        if equal:
            assert because(made, 2) == "no room for 2 parts of 60 B: 1 of 2 disks have that much free"
            assert made.control.grant(grant_id(2)).reason is Reason.NO_ROOM
        else:
            assert parts(made, 2)[taken] == 50
            assert sum(parts(made, 2).values()) == 120


def test_all_parts_are_placed_at_once_or_none() -> None:
    made = machine(x=(100,), y=(100,))
    made.do(co.Drain(caller=ADMINISTRATOR, what="y"))
    assert made.ask(1, 40, expose="shared", servers=2) is State.QUEUED
    assert parts(made) == {}
    assert because(made) == "2 data servers need 2 disks; only 1 accept grants now"
    made.do(co.Undrain(caller=ADMINISTRATOR, what="y"))
    assert made.state(1) is State.MAKING


def test_a_part_that_cannot_be_made_moves_to_a_disk_without_another_part() -> None:
    made = machine(x=(100,), y=(100,), z=(100, 100))
    made.ask(1, 60, expose="shared", servers=3)
    others = {disk for disk in parts(made) if disk != "x/a"}
    [action] = made.control.actions("x")
    made.do(co.NotMade(caller=agent("x"), volume=action.volume, because="broken"))
    assert set(parts(made)) > others
    assert len(parts(made)) == 3
    assert "x/a" not in parts(made)
    moved = [a for node in "yz" for a in made.control.actions(node) if a.volume == action.volume]
    assert [each.index for each in moved] == [action.index]
    check(made.control)


def test_a_volume_that_is_lost_fails_the_whole_file_system() -> None:
    made = machine(x=(100,), y=(100,))
    made.ask(1, 40, expose="shared", servers=2)
    serve(made, "x", "y")
    made.do(co.Remove(caller=ADMINISTRATOR, what="x"))
    assert made.state(1) is State.RELEASING
    assert "was lost: an administrator removed x" in because(made)
    made.carry_out("y")
    assert made.state(1) is State.FAILED
    assert made.control.grant(grant_id(1)).reason is Reason.VOLUME_LOST
    check(made.control)


def test_a_data_server_that_is_not_found_is_started_again() -> None:
    made = machine(x=(100,), y=(100,))
    made.ask(1, 40, expose="shared", servers=2)
    serve(made, "x", "y")
    [volume] = [v for v in made.control.volumes(grant_id(1)) if v.disk == "x/a"]
    half = co.FoundVolume(name=volume.name, disk="a", size=20, whole=False)
    made.do(co.Found(caller=agent("x"), node="x", number=2, volumes=(half,)))
    assert made.state(1) is State.READY
    assert [(a.kind, a.volume) for a in made.control.actions("x")] == [("make", volume.name)]
    serve(made, "x")
    assert made.control.actions("x") == []


def test_the_journal_of_a_shared_file_system_is_read_again() -> None:
    made = machine(x=(100,), y=(100,))
    made.ask(1, 40, expose="shared", servers=2, equal=True)
    events = made.release(1)
    assert events
    assert made.mirror.grant(grant_id(1)).ask == ask(1, 40, expose="shared", servers=2, equal=True)
    assert fold([]).tables.grants == {}


@pytest.mark.parametrize(("options", "where"), [({"servers": 2}, "servers"), ({"equal": True}, "equal")])
def test_servers_and_equal_are_only_for_shared_file_systems(options: dict[str, int], where: str) -> None:
    with pytest.raises(BadInput, match=f"{where}: is only for a shared file system"):
        ask(1, 40, **options)


def test_the_number_of_servers_is_limited() -> None:
    with pytest.raises(BadInput, match="servers: must be a whole number, at least 0 and at most 256"):
        ask(1, 40, expose="shared", servers=257)
