"""Volumes that can't be made or removed, and disks on which that happens, or that can't be looked at for a while."""

import pytest

from forebay.decide.grants import commands as co
from forebay.decide.grants.machine import Action, Suspension
from forebay.model.grant import NotAllowed, State, VolumeState
from support.grants import ADMINISTRATOR, Service, agent, check, check_space, disk, grant_id, service


def two_nodes() -> Service:
    """`bad` and `good` with a disk each; that of `bad` is chosen first."""
    made = service()
    made.do(co.ChangePolicy(caller=ADMINISTRATOR, policy="first-fit"))
    made.register("bad", disk("d", 100))
    made.register("good", disk("d", 100))
    return made


def fail(made: Service, action: Action, node: str = "bad", **more: object) -> list[str]:
    report = {"caller": agent(node), "volume": action.volume, "disk": action.disk, "because": "read-only", **more}
    return made.kinds(co.NotMade(**report))  # type: ignore[arg-type]


def suspended(made: Service, key: str = "bad/d") -> Suspension | None:
    return made.control.tables.disks[key].suspension


def break_disk(made: Service) -> None:
    """Three grants in a row fail there and are made elsewhere."""
    for number in (1, 2, 3):
        made.ask(number, 10)
        fail(made, made.control.actions("bad")[0])
        made.do(co.Gone(caller=agent("bad"), volume=f"{grant_id(number)}.0", disk="d"))
        made.carry_out("good")
    check_space(made.control, over_full=set())


def test_a_volume_that_can_not_be_made_is_made_on_another_node() -> None:
    made = two_nodes()
    made.ask(1, 10)
    [action] = made.control.actions("bad")
    assert fail(made, action) == ["DiskFailed", "VolumeMoved", "Strayed"]
    assert made.control.volumes(grant_id(1))[0].disk == "good/d"
    why = f"good/d, because volume {action.volume} could not be made on bad/d"
    assert made.control.grant(grant_id(1)).because == why
    assert [a.kind for a in made.control.actions("bad")] == ["release"], "some of it may be there"
    assert fail(made, action) == [], "the report came twice"
    made.carry_out("good")
    made.carry_out("bad")
    assert made.state(1) is State.READY
    assert not made.control.tables.strays
    check(made.control)


def test_what_is_exposed_goes_to_another_node_and_what_is_mounted_to_another_disk_of_the_same() -> None:
    for expose, state in (("", State.MAKING), ("nbd", State.QUEUED)):
        made = service(a=100, b=100)
        made.ask(1, 10, expose=expose, hosts=("c",) if expose else ())
        [action] = made.control.actions("n")
        fail(made, action, "n")
        assert made.state(1) is state
        made.carry_out("n")  # on one node, what is exposed is known by its name: it is made again under another
        made.carry_out("n")
        assert made.state(1) is State.READY
        [volume] = made.control.volumes(grant_id(1))
        assert (volume.disk, volume.name.endswith(".1")) == ("n/b", bool(expose))


def test_a_grant_whose_disk_fails_waits_for_room_on_another() -> None:
    made = two_nodes()
    made.do(co.Drain(caller=ADMINISTRATOR, what="bad"))
    made.ask(1, 100)
    made.carry_out("good")
    made.do(co.Undrain(caller=ADMINISTRATOR, what="bad"))
    made.ask(2, 60)
    [action] = made.control.actions("bad")
    assert fail(made, action) == ["DiskFailed", "Queued", "Told", "Strayed"]
    waits = made.control.grant(grant_id(2))
    assert (waits.state, waits.avoids, waits.volumes) == (State.QUEUED, ("bad/d",), 0)
    assert waits.because == f"no room on another disk now; volume {action.volume} could not be made on bad/d: read-only"
    check(made.control)
    check_space(made.control, over_full=set())
    made.carry_out("bad")  # what is left there goes; the disk that failed is not tried again
    made.tick(made.now + made.control.rules.interval)
    assert (made.state(2), made.control.actions("bad"), made.control.tables.strays) == (State.QUEUED, [], {})
    made.ask(3, 60)
    assert made.control.volumes(grant_id(3))[0].disk == "bad/d", "others may still use it"
    assert made.kinds(co.Made(caller=agent("bad"), volume=action.volume, disk="d")) == [], "a report that comes late"
    made.do(co.Release(caller=ADMINISTRATOR, grant=grant_id(1)))
    made.carry_out("good")
    [again] = made.control.actions("good")
    assert again.volume == f"{grant_id(2)}.1"
    made.carry_out("good")
    assert made.state(2) is State.READY
    check(made.control)


def test_parts_that_could_be_made_are_removed_when_the_whole_waits() -> None:
    made = service(a=50, b=50, c=50)
    made.rules(split=50)
    made.do(co.Drain(caller=ADMINISTRATOR, what="n/c"))
    made.ask(1, 100)
    made.do(co.Undrain(caller=ADMINISTRATOR, what="n/c"))
    made.ask(9, 50)
    first, broken = (action for action in made.control.actions("n") if action.volume.startswith(grant_id(1)))
    made.do(co.Made(caller=agent("n"), volume=first.volume, disk=first.disk, path="/x"))
    assert fail(made, broken, "n") == ["DiskFailed", "Queued", "Told", "Strayed", "Strayed"]
    check(made.control)
    check_space(made.control, over_full=set())
    made.carry_out("n")
    made.do(co.Release(caller=ADMINISTRATOR, grant=grant_id(9)))
    made.carry_out("n")
    made.carry_out("n")
    assert made.state(1) is State.READY
    volumes = {volume.name.partition(".")[2]: volume.disk for volume in made.control.volumes(grant_id(1))}
    assert volumes.keys() == {"2", "3"} and set(volumes.values()) == {f"n/{first.disk}", "n/c"}


@pytest.mark.parametrize("reason", ["request", "too large for the others", "extended", "no tries left"])
def test_a_grant_that_can_not_get_a_disk_later_fails_at_once(reason: str) -> None:
    made = service(bad=100)
    made.register("good", disk("d", 50 if reason == "too large for the others" else 100))
    made.do(co.ChangePolicy(caller=ADMINISTRATOR, policy="first-fit"))
    made.do(co.Drain(caller=ADMINISTRATOR, what="n"))
    made.ask(1, 50)
    made.carry_out("good")
    made.do(co.Undrain(caller=ADMINISTRATOR, what="n"))
    made.ask(2, 60)
    if reason == "extended":
        made.do(co.Extend(caller=ADMINISTRATOR, grant=grant_id(2), end=made.control.grant(grant_id(2)).end + 1))
    if reason == "no tries left":
        made.rules(tries=1)
    [action] = made.control.actions("n")
    fail(made, action, "n", fault="request" if reason == "request" else "disk")
    assert made.state(2) is State.RELEASING
    made.carry_out("n")
    assert made.state(2) is State.FAILED


def test_a_disk_on_which_three_volumes_in_a_row_fail_is_suspended_and_nobody_fails() -> None:
    made = two_nodes()
    break_disk(made)
    assert [made.state(number) for number in (1, 2, 3)] == [State.READY] * 3
    found = suspended(made)
    assert found is not None and found.because == "3 volumes in a row could not be made: read-only"
    made.ask(4, 10)
    assert made.control.volumes(grant_id(4))[0].disk == "good/d"
    assert made.ask(5, 100) is State.QUEUED
    made.do(co.Drain(caller=ADMINISTRATOR, what="good"))
    assert made.ask(6, 10) is State.QUEUED
    why = made.control.grant(grant_id(6)).because
    assert why == "every disk is drained or suspended because volumes cannot be made on it"
    check(made.control)


@pytest.mark.parametrize("fault", ["room", "request"])
def test_a_disk_is_not_blamed_for_what_is_not_its_fault(fault: str) -> None:
    made = two_nodes()
    for number in range(1, 6):
        made.ask(number, 10)
        assert fail(made, made.control.actions("bad")[0], fault=fault) == ["VolumeMoved", "Strayed"]
        made.do(co.Gone(caller=agent("bad"), volume=f"{grant_id(number)}.0", disk="d"))
    assert suspended(made) is None


def test_a_volume_that_can_be_made_between_two_that_can_not_keeps_the_disk_open() -> None:
    made = two_nodes()
    for number in range(1, 8):
        made.ask(number, 10)
        if number % 3:
            fail(made, made.control.actions("bad")[0])
        made.carry_out("bad")
        made.carry_out("good")
    assert suspended(made) is None


def test_a_suspended_disk_is_tried_with_a_volume_for_nobody_and_taken_back_when_it_works() -> None:
    made = two_nodes()
    break_disk(made)
    assert made.control.next_due(0.0) == 30.0
    assert [type(event).__name__ for event in made.tick(30.0)] == ["DiskTried"]
    [trial] = made.control.actions("bad")
    assert (trial.kind, trial.disk, trial.size, trial.uid, trial.gid) == ("make", "d", 10, 1000, 100)
    check(made.control)
    assert fail(made, trial) == ["DiskSuspended"]
    found = suspended(made)
    assert found is not None
    assert (found.because, found.due, found.since) == ("volumes still cannot be made: read-only", 90.0, 0.0)
    made.tick(90.0)
    [trial] = made.control.actions("bad")
    kinds = made.kinds(co.Made(caller=agent("bad"), volume=trial.volume, disk="d"))
    assert kinds[:2] == ["DiskResumed", "Strayed"]
    assert [a.kind for a in made.control.actions("bad")] == ["release"]
    made.carry_out("bad")
    made.ask(9, 100)
    assert made.control.volumes(grant_id(9))[0].disk == "bad/d"
    check_space(made.control, over_full=set())


def test_a_trial_that_an_agent_finds_whole_counts_and_one_that_is_half_there_does_not() -> None:
    made = two_nodes()
    break_disk(made)
    made.tick(30.0)
    [trial] = made.control.actions("bad")
    found = co.FoundVolume(name=trial.volume, disk="d", size=trial.size, whole=False)
    made.register("bad", disk("d", 100), volumes=(found,), number=5, ours=None)
    assert suspended(made) is not None and not made.control.tables.nodes["bad"].doubted
    whole = co.FoundVolume(name=trial.volume, disk="d", size=trial.size)
    made.register("bad", disk("d", 100), volumes=(whole,), number=6)
    assert suspended(made) is None
    assert [a.kind for a in made.control.actions("bad")] == ["release"]


def test_an_administrator_opens_a_suspended_disk_at_once() -> None:
    for what in ("bad", "bad/d"):
        made = two_nodes()
        break_disk(made)
        made.tick(30.0)
        kinds = made.kinds(co.Undrain(caller=ADMINISTRATOR, what=what))
        assert kinds == ["DiskResumed", "Strayed"]
        assert suspended(made) is None


def test_only_its_own_agent_speaks_of_a_trial() -> None:
    made = two_nodes()
    break_disk(made)
    made.tick(30.0)
    [trial] = made.control.actions("bad")
    assert made.do(co.Made(caller=agent("good"), volume=trial.volume, disk="d")) == []
    with pytest.raises(NotAllowed):
        made.do(co.Made(caller=co.Caller(role="user", uid=1, node="bad"), volume=trial.volume, disk="d"))


def test_a_disk_that_goes_is_not_suspended_when_it_comes_back() -> None:
    made = two_nodes()
    break_disk(made)
    made.tick(30.0)
    made.register("bad")
    assert made.control.actions("bad") == []
    made.register("bad", disk("d", 100))
    assert suspended(made) is None
    check(made.control)


def test_a_release_that_can_not_succeed_ends_with_the_reason_and_the_space_stays_taken() -> None:
    made = service(a=100)
    made.ask(1, 60)
    made.carry_out("n")
    made.release(1)
    volume = f"{grant_id(1)}.0"
    stuck = co.Stuck(caller=agent("n"), volume=volume, disk="a", because="input/output error")
    assert made.kinds(stuck) == ["VolumeStuck", "Strayed", "Ended"]
    grant = made.control.grant(grant_id(1))
    assert grant.state is State.FAILED
    assert grant.because == f"released by its owner; volume {volume} could not be removed: input/output error"
    assert made.do(stuck) == []
    assert made.ask(2, 60) is State.QUEUED
    assert [a.kind for a in made.control.actions("n")] == ["release"], "its agent goes on trying"
    made.carry_out("n")
    assert made.state(2) is State.MAKING
    check(made.control)


def test_of_what_is_not_being_released_nobody_can_say_that_it_is_stuck() -> None:
    made = service(a=100)
    made.ask(1, 60)
    made.carry_out("n")
    assert made.do(co.Stuck(caller=agent("n"), volume=f"{grant_id(1)}.0", disk="a", because="?")) == []
    with pytest.raises(NotAllowed):
        made.do(co.Stuck(caller=agent("m"), volume=f"{grant_id(1)}.0", disk="a", because="?"))


def test_a_disk_that_can_not_be_looked_at_gets_nothing_new_and_loses_nothing() -> None:
    made = service(a=100, b=100)
    made.do(co.ChangePolicy(caller=ADMINISTRATOR, policy="first-fit"))
    made.ask(1, 60)
    made.carry_out("n")
    unseen = {"unseen": {"a": "not mounted"}, "volumes": ()}
    kinds = [type(event).__name__ for event in made.register("n", disk("b", 100), number=2, **unseen)]
    assert kinds == ["DiskUnseen", "Told", "Reported"]
    assert made.state(1) is State.READY
    assert made.control.volumes(grant_id(1))[0].state is VolumeState.MADE
    assert made.control.marks(grant_id(1)) == ["the agent cannot access disk n/a: not mounted"]
    made.register("n", disk("b", 100), number=3, **unseen)
    made.ask(2, 10)
    assert made.control.volumes(grant_id(2))[0].disk == "n/b"
    there = co.FoundVolume(name=f"{grant_id(1)}.0", disk="a", size=60)
    made.register("n", disk("a", 100), disk("b", 100), number=4, volumes=(there,))
    made.ask(3, 10)
    assert made.control.volumes(grant_id(3))[0].disk == "n/a"
    made.register("n", disk("b", 100), number=5, volumes=())
    assert made.state(1) is State.FAILED, "given up"
    check(made.control)
