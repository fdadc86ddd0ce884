"""Nodes and disks that come, go, fall silent and are drained; and agents that look at what they have."""

from typing import Any

import pytest

from forebay.decide.grants import commands as co
from forebay.decide.grants.machine import DiskSpec
from forebay.model.errors import BadInput
from forebay.model.grant import State, VolumeState
from support.grants import ADMINISTRATOR, Service, agent, check, digest_of, disk, grant_id, service, used_bytes


def _found(made: Service, number: int, *volumes: tuple[str, str, int, bool]) -> list[str]:
    there = tuple(co.FoundVolume(name=n, disk=d, size=s, whole=w) for n, d, s, w in volumes)
    return made.kinds(co.Found(caller=agent("n"), node="n", number=number, volumes=there))


def _told(made: Service) -> list[str]:
    return [line.split('"words":')[1] for line in made.journal if '"Told"' in line]


def test_a_drained_disk_or_node_keeps_what_it_has_and_gets_nothing_new() -> None:
    made = service(a=100, b=100)
    made.ask(1, 60)
    made.carry_out("n")
    here = made.control.volumes(grant_id(1))[0].disk
    assert made.kinds(co.Drain(caller=ADMINISTRATOR, what=here)) == ["Drained"]
    assert made.do(co.Drain(caller=ADMINISTRATOR, what=here)) == []
    made.ask(2, 30)
    assert made.control.volumes(grant_id(2))[0].disk != here
    made.do(co.Drain(caller=ADMINISTRATOR, what="n"))
    assert made.ask(3, 10) is State.QUEUED
    assert made.control.grant(grant_id(3)).because == "every disk is drained"
    assert made.state(1) is State.READY
    assert "Granted" in made.kinds(co.Undrain(caller=ADMINISTRATOR, what="n"))


def test_a_silent_node_gets_nothing_new_and_its_owners_are_told() -> None:
    made = service(a=100)
    made.ask(1, 60)
    made.carry_out("n")
    silent = co.Silent(caller=ADMINISTRATOR, node="n")
    assert made.kinds(silent) == ["NodeSilent", "Told"]
    assert made.do(silent) == []
    assert made.control.marks(grant_id(1)) == ["node n does not answer"]
    assert made.ask(2, 10) is State.QUEUED
    assert made.control.grant(grant_id(2)).because == "every disk is on a node that does not answer"
    assert "NodeAnswered" in made.kinds(co.Seen(caller=agent("n"), node="n"))
    assert made.control.marks(grant_id(1)) == []
    assert made.state(2) is State.MAKING


@pytest.mark.parametrize(
    ("disks", "said"),
    [
        ((disk("a", 1), disk("a", 2)), "node n: disk[1]: disk 'a' is registered twice"),
        ((disk("a", 1, identity="x"), disk("b", 2, identity="x")), "node n: two disks have the identity 'x'"),
        ((disk("a", 1, identity="taken"),), "node n: identity 'taken' belongs to disk m/z"),
        ((disk("a", -1),), "node n: disk[0] (a): capacity must be at least 1"),
        ((disk("a", 10**19),), "node n: disk[0] (a): capacity must be at least 1"),
        ((disk("a", 1, write_bandwidth=0.0),), "node n: disk[0] (a): write_bandwidth must be positive"),
        ((disk("a", 1, write_bandwidth=float("inf")),), "node n: disk[0] (a): bandwidths must be finite"),
        ((disk("a b", 1),), "node n: disk[0]: 'a b' is not a valid disk name"),
        ((disk("a", 1, fields={"x": float("nan")}),), "node n: disk[0] (a): fields must be strings"),
        ((disk("a", 1, fields={"x": "y" * 30_000}),), "node n: disk[0] (a): fields must have names"),
    ],
)
def test_disks_that_can_not_be_are_refused(disks: tuple[DiskSpec, ...], said: str) -> None:
    made = service(a=100)
    made.register("m", disk("z", 5, identity="taken"))
    before = digest_of(made.control)
    with pytest.raises(BadInput) as raised:
        made.register("n", *disks)
    assert str(raised.value).startswith(said)
    assert digest_of(made.control) == before


@pytest.mark.parametrize("name", ["", "a/b", "a b", "-x"])
def test_nodes_have_plain_names(name: str) -> None:
    with pytest.raises(BadInput, match="is not a valid node name"):
        Service().register(name, disk("a", 1))


def test_to_register_the_same_again_changes_nothing() -> None:
    made = service(a=100)
    assert made.register("n", disk("a", 100)) == []


def test_what_was_on_a_disk_that_is_gone_is_lost_and_told() -> None:
    made = service(a=100, b=100)
    made.ask(1, 60)
    made.carry_out("n")
    lost = made.control.volumes(grant_id(1))[0].disk[-1]
    left = "b" if lost == "a" else "a"
    made.register("n", disk(left, 100))
    assert made.state(1) is State.FAILED
    words = f"volume {grant_id(1)}.0 was lost: node n no longer has disk {lost}"
    assert made.control.grant(grant_id(1)).because == words
    assert len(_told(made)) == 1
    assert made.ask(2, 100) is State.MAKING


def test_a_grant_in_use_keeps_what_it_has_left_and_gets_back_what_returns() -> None:
    made = service(a=100, b=100)
    made.rules(split=50)
    made.ask(1, 100)
    made.carry_out("n")
    made.register("n", disk("a", 100))
    assert made.state(1) is State.READY
    assert made.control.marks(grant_id(1)) == [f"volume {grant_id(1)}.1 is lost: node n no longer has disk b"]
    there = tuple(co.FoundVolume(name=f"{grant_id(1)}.{k}", disk=d, size=50) for k, d in enumerate("ab"))
    made.register("n", disk("a", 100), disk("b", 100), volumes=there, number=5)
    assert made.control.marks(grant_id(1)) == []
    assert {v.state for v in made.control.volumes(grant_id(1))} == {VolumeState.MADE}


def test_what_returns_where_there_is_no_room_any_more_is_removed() -> None:
    made = service(a=100, b=100)
    made.rules(split=50)
    made.ask(1, 100)
    made.carry_out("n")
    made.register("n", disk("a", 100))
    made.register("n", disk("a", 100), disk("b", 20))
    assert "Strayed" in _found(made, 5, (f"{grant_id(1)}.0", "a", 50, True), (f"{grant_id(1)}.1", "b", 50, True))
    assert [(a.kind, a.disk) for a in made.control.actions("n")] == [("release", "b")]


def test_a_torn_grant_ends_as_failed() -> None:
    made = service(a=100, b=100)
    made.rules(split=50)
    made.ask(1, 100)
    made.carry_out("n")
    made.do(co.Lost(caller=agent("n"), volume=f"{grant_id(1)}.0", because="its image was removed"))
    assert made.state(1) is State.READY
    made.release(1)
    made.carry_out("n")
    assert made.state(1) is State.FAILED


def test_what_was_booked_on_a_disk_that_is_gone_is_placed_anew() -> None:
    made = service(a=100, b=100)
    made.ask(1, 60, start=1000.0)
    here = made.control.volumes(grant_id(1))[0].disk
    left = "b" if here == "n/a" else "a"
    made.register("n", disk(left, 100))
    assert made.state(1) is State.GRANTED
    assert made.control.volumes(grant_id(1))[0].disk == f"n/{left}"
    made.register("n")
    assert made.state(1) is State.QUEUED
    assert made.control.grant(grant_id(1)).because == f"node n no longer has disk {left}"


def test_on_a_disk_that_becomes_smaller_what_is_booked_moves_the_last_first() -> None:
    made = service(a=100)
    for number in (1, 2, 3):
        made.ask(number, 30, start=1000.0)
    made.register("n", disk("a", 65))
    assert [made.state(n) for n in (1, 2, 3)] == [State.GRANTED, State.GRANTED, State.QUEUED]


def test_on_a_disk_that_becomes_smaller_what_is_there_stays_and_is_told() -> None:
    made = service(a=100)
    made.ask(1, 60)
    made.carry_out("n")
    made.register("n", disk("a", 50))
    assert made.state(1) is State.READY
    assert _told(made) == ['"disk n/a shrank to 50 B, less than its volumes need"}']
    assert made.ask(2, 1) is State.QUEUED
    check(made.control)


def test_a_disk_without_space_is_no_disk_to_be_given() -> None:
    made = service(a=0)
    assert made.ask(1, 1) is State.REFUSED
    made.register("n", disk("a", 0), disk("b", 10))
    assert made.ask(2, 5) is State.MAKING


def test_what_an_administrator_removes_is_lost() -> None:
    made = service(a=100)
    made.ask(1, 60)
    made.carry_out("n")
    made.release(1)
    made.do(co.Silent(caller=ADMINISTRATOR, node="n"))
    assert made.state(1) is State.RELEASING
    made.do(co.Remove(caller=ADMINISTRATOR, what="n"))
    assert made.state(1) is State.RELEASED


def test_an_agent_that_looks_finishes_mends_removes_and_reports() -> None:
    made = service(a=1000)
    for number in (1, 2, 3, 4):
        made.ask(number, 10)
        if number != 2:
            made.carry_out("n") if number != 4 else None
    name = {number: f"{grant_id(number)}.0" for number in (1, 2, 3, 4)}
    made.do(co.Made(caller=agent("n"), volume=name[2]))
    assert [made.state(n) for n in (1, 2, 3)] == [State.READY] * 3
    kinds = _found(made, 9, (name[1], "a", 10, False), (name[2], "a", 10, True), ("old.0", "a", 77, True))
    assert kinds == ["Reported", "VolumeHalf", "Strayed", "VolumeLost", "Told", "Releasing", "Ended"]
    assert [made.state(n) for n in (1, 2, 3, 4)] == [State.READY, State.READY, State.FAILED, State.MAKING]
    assert made.control.marks(grant_id(1)) == [f"volume {name[1]} is being repaired: its agent found it incomplete"]
    done = {(a.kind, a.volume) for a in made.control.actions("n")}
    assert done == {("make", name[1]), ("make", name[4]), ("release", "old.0")}
    assert used_bytes(made.control) == {"n/a": 10 + 10 + 10 + 77}
    assert _found(made, 10, (name[1], "a", 10, True), (name[2], "a", 10, True), (name[4], "a", 10, True)) == [
        "Reported", "VolumeMade", "VolumeMade", "Ready", "StrayGone",
    ]  # fmt: skip
    assert made.control.actions("n") == []


def test_a_look_that_is_older_than_the_last_report_is_not_heeded() -> None:
    made = service(a=100)
    made.ask(1, 60)
    volume = f"{grant_id(1)}.0"
    made.do(co.Made(caller=agent("n"), volume=volume, number=6))
    assert _found(made, 5) == []
    assert made.state(1) is State.READY
    assert made.register("n", volumes=(), number=5) == []
    assert made.state(1) is State.READY
    assert _found(made, 7) != []
    assert made.state(1) is State.FAILED


def test_an_old_look_is_not_heeded_although_the_newer_changed_nothing() -> None:
    made = service(a=100)
    made.register("n", disk("a", 100), disk("b", 100), volumes=(), number=8)
    made.register("n", disk("a", 100), disk("b", 100), volumes=(), number=9)
    assert made.register("n", disk("a", 100), volumes=(), number=7) == []
    assert made.control.tables.disks["n/b"].there


def test_what_is_not_found_is_no_proof_that_it_was_removed() -> None:
    """Its agent may have made it after it looked; it says so when it has removed it."""
    made = service(a=100)
    made.ask(1, 60)
    made.release(1)
    _found(made, 3)
    assert made.state(1) is State.RELEASING
    assert made.ask(2, 60) is State.QUEUED


def test_what_can_not_be_mended_is_removed_before_its_space_is_free() -> None:
    made = service(a=100)
    made.ask(1, 60)
    made.carry_out("n")
    volume = f"{grant_id(1)}.0"
    _found(made, 3, (volume, "a", 60, False))
    made.do(co.NotMade(caller=agent("n"), volume=volume, because="it can't be mounted"))
    assert made.state(1) is State.FAILED
    assert made.ask(2, 60) is State.QUEUED
    assert [(a.kind, a.volume) for a in made.control.actions("n")] == [("release", volume)]
    made.carry_out("n")
    assert made.state(2) is State.MAKING


@pytest.mark.parametrize("kind", [co.Made, co.NotMade, co.Lost, co.Gone])
def test_reports_that_come_twice_or_too_late_change_nothing(kind: Any) -> None:
    made = service(a=100)
    made.ask(1, 60)
    volume = f"{grant_id(1)}.0"
    made.carry_out("n")
    made.release(1)
    made.carry_out("n")
    assert made.state(1) is State.RELEASED
    more = {co.Made: {}, co.Gone: {"disk": "a"}}.get(kind, {"because": "late"})
    assert made.do(kind(caller=agent("n"), volume=volume, **more)) == []
    assert made.do(kind(caller=agent("n"), volume="nobody.0", **more)) == []


def test_a_failure_that_comes_after_the_success_changes_nothing() -> None:
    made = service(a=100)
    made.ask(1, 60)
    made.carry_out("n")
    assert made.do(co.NotMade(caller=agent("n"), volume=f"{grant_id(1)}.0", because="first try")) == []


def test_what_vanishes_unasked_is_lost() -> None:
    made = service(a=100)
    made.ask(1, 60)
    made.carry_out("n")
    made.do(co.Gone(caller=agent("n"), volume=f"{grant_id(1)}.0", disk="a"))
    assert made.state(1) is State.FAILED


def test_a_look_at_unknown_disks_is_refused() -> None:
    made = service(a=100)
    with pytest.raises(BadInput, match=r"node n: volume\[0\]: disk 'x' is not registered"):
        _found(made, 1, ("v", "x", 1, True))
    with pytest.raises(BadInput, match="size must not be negative"):
        _found(made, 1, ("v", "a", -1, True))
    with pytest.raises(BadInput, match="must register its disks first"):
        made.do(co.Found(caller=agent("q"), node="q", number=1, volumes=()))
