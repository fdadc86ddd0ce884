"""The life of a grant, one command at a time."""

import math
from typing import Any

import pytest

from forebay.decide.grants import commands as co
from forebay.decide.grants.grant_limits import GrantRules
from forebay.model.errors import BadInput, Refused, UnknownName
from forebay.model.grant import NoSuchGrant, NotAllowed, State, VolumeState
from support.grants import ADMINISTRATOR, USER, Service, agent, ask, check, check_space, disk, grant_id, service

GB = 10**9


def _why(made: Service, number: int) -> str:
    return made.control.grant(grant_id(number)).because


def test_a_grant_is_asked_for_made_used_and_released() -> None:
    made = service(a=100)
    assert made.ask(1, 60) is State.MAKING
    (action,) = made.control.actions("n")
    assert (action.kind, action.volume, action.disk, action.size) == ("make", f"{grant_id(1)}.0", "a", 60)
    assert (action.uid, action.gid, action.mode) == (1000, 100, 0o700)
    made.carry_out("n")
    assert made.state(1) is State.READY
    assert made.control.actions("n") == []
    assert made.control.volumes(grant_id(1))[0].path == f"/{grant_id(1)}.0"
    assert made.kinds(co.Use(caller=USER, grant=grant_id(1))) == ["InUse"]
    assert made.kinds(co.Release(caller=USER, grant=grant_id(1))) == ["Releasing"]
    assert [a.kind for a in made.control.actions("n")] == ["release"]
    assert made.ask(2, 60) is State.QUEUED, "its space is held until it is gone"
    made.carry_out("n")
    assert made.state(1) is State.RELEASED
    assert made.state(2) is State.MAKING


def test_sent_twice_it_is_granted_once() -> None:
    made = service(a=100)
    made.ask(1, 60)
    assert made.do(co.Request(caller=USER, ask=ask(2, 60, key="key-1"))) == []
    found = made.control.by_key(1000, "key-1")
    assert found is not None and found.id == grant_id(1)
    with pytest.raises(Refused, match=f"key 'key-1' is already used for another request, grant {grant_id(1)}"):
        made.do(co.Request(caller=USER, ask=ask(2, 61, key="key-1")))


def test_every_user_has_keys_of_their_own() -> None:
    made = service(a=100)
    made.ask(1, 10, key="k")
    other = co.Caller(role="user", uid=7)
    assert "Granted" in made.kinds(co.Request(caller=other, ask=ask(2, 10, key="k", uid=7)))


def test_a_queued_one_says_why_until_when_and_at_which_place() -> None:
    made = service(a=100)
    made.ask(1, 60, 7200.0)
    assert made.ask(2, 60) is made.ask(3, 70) is State.QUEUED
    grant = made.control.grant(grant_id(2))
    assert grant.because == "no room for 60 B for 100 s on one disk; expected in 2 h"
    assert (grant.until, grant.expected) == (300.0, 7200.0)
    assert [made.control.position(grant_id(n)) for n in (1, 2, 3)] == [0, 1, 2]
    made.release(2)
    assert made.control.position(grant_id(3)) == 1


def test_a_queued_one_is_tried_twelve_times_and_then_refused() -> None:
    made = service(a=100)
    made.ask(1, 60, 86_400.0)
    made.carry_out("n")
    made.ask(2, 60)
    for k in range(1, 12):
        made.tick(300.0 * k)
        assert (made.state(2), made.control.grant(grant_id(2)).tried) == (State.QUEUED, k)
    made.tick(3599.0)
    assert made.state(2) is State.QUEUED
    made.tick(3600.0)
    assert made.state(2) is State.REFUSED
    assert _why(made, 2).startswith("not granted in 12 tries, 5 min apart: no room for 60 B")


def test_without_tries_what_does_not_fit_is_refused_at_once() -> None:
    made = service(a=100)
    made.rules(tries=0)
    made.ask(1, 60)
    assert made.ask(2, 60) is State.REFUSED
    assert _why(made, 2).startswith("no room for 60 B")


def test_tries_go_on_when_the_clock_was_put_back() -> None:
    made = service(a=100)
    made.now = 1e6
    made.ask(1, 60, 1e6)
    made.ask(2, 60)
    made.tick(1000.0)
    assert made.control.grant(grant_id(2)).until == 1300.0


def test_the_first_in_the_queue_that_fits_gets_what_comes_free() -> None:
    made = service(a=100)
    made.ask(1, 60)
    made.ask(2, 100)
    made.ask(3, 70)
    made.ask(4, 50)
    made.ask(5, 40)
    made.release(5)
    made.carry_out("n")
    assert [made.state(n) for n in (1, 2, 3, 4)] == [State.READY, State.QUEUED, State.QUEUED, State.QUEUED]
    made.release(1)
    made.carry_out("n")
    assert [made.state(n) for n in (2, 3, 4)] == [State.MAKING, State.QUEUED, State.QUEUED]


def test_a_long_queue_is_tried_a_part_at_a_time_and_to_its_end() -> None:
    """Only the last of forty fits, and none of them is as easy as the one before."""
    made = service(a=1000)
    made.rules(longest=1e6)
    made.ask(1, 950, 1e6)
    made.ask(2, 50, 1e6)
    for k in range(40):
        made.ask(10 + k, 500 - k, 100.0 + k)
    made.carry_out("n")
    made.release(2)
    made.carry_out("n")
    made.ask(90, 40)
    made.ask(91, 20)
    made.release(90)
    made.carry_out("n")
    while (due := made.control.next_due(made.now)) == made.now:
        made.tick(made.now)
    assert due is not None and due > made.now
    assert made.state(91) is State.MAKING or made.state(91) is State.READY
    assert any('"Swept"' in line for line in made.journal)


def test_what_never_fits_is_refused_with_the_reason() -> None:
    made = service(a=100, b=50)
    assert made.ask(1, 101) is State.REFUSED
    assert _why(made, 1) == "the largest disk has 100 B, less than 101 B"
    made.rules(split=30)
    assert made.ask(2, 151) is State.REFUSED
    assert _why(made, 2) == "all disks together have 150 B, less than 151 B"
    made.do(co.ChangePolicy(caller=ADMINISTRATOR, policy="first-fit"))
    assert made.ask(3, 141) is State.REFUSED
    assert _why(made, 3) == "5 parts of up to 30 B do not fit on 2 disks, even if all were free"
    made.rules(split=1)
    assert made.ask(4, 20_000) is State.REFUSED
    assert _why(made, 4) == "20.00 kB would be 20,000 parts; the limit is 10,000"


@pytest.mark.parametrize(("size", "state"), [(120, State.MAKING), (140, State.MAKING), (141, State.REFUSED)])
def test_parts_fit_if_each_finds_a_place_when_all_disks_are_empty(size: int, state: State) -> None:
    """100 bytes hold three parts of 30 and 50 hold one; then there is room for a rest of 10 and one of 20."""
    made = service(a=100, b=50)
    made.do(co.ChangePolicy(caller=ADMINISTRATOR, policy="first-fit"))
    made.rules(split=30)
    assert made.ask(1, size) is state


def test_a_split_grant_is_all_or_nothing() -> None:
    made = service(a=100, b=100, c=100)
    made.rules(split=40)
    made.do(co.ChangePolicy(caller=ADMINISTRATOR, policy="first-fit"))
    assert made.ask(1, 170) is State.MAKING
    assert [(v.disk, v.size) for v in made.control.volumes(grant_id(1))] == [
        ("n/a", 40), ("n/a", 40), ("n/b", 40), ("n/b", 40), ("n/a", 10),
    ]  # fmt: skip
    assert made.ask(2, 120) is State.QUEUED
    assert _why(made, 2) == "no room for all parts of 120 B for 100 s: 3 disks have 130 B free in all"
    assert made.ask(3, 80) is State.MAKING
    check_space(made.control, over_full=set())


def test_a_policy_that_does_not_look_is_not_believed() -> None:
    made = service(a=100)
    made.do(co.ChangePolicy(caller=ADMINISTRATOR, policy="random"))
    assert made.ask(1, 60) is State.MAKING
    assert made.ask(2, 60) is State.QUEUED
    made.do(co.ChangePolicy(caller=ADMINISTRATOR, policy="round-robin"))
    assert made.ask(3, 40) is State.QUEUED
    assert _why(made, 3) == "policy round-robin does not place 40 B for 100 s, although a disk has room"


def test_an_unknown_tier_is_refused_with_the_known_ones() -> None:
    made = service()
    made.register(
        "n", disk("a", 100, fields={"tier": "nvme"}), disk("b", 100, fields={"tier": "hdd"}), fields={"rack": 2}
    )
    assert made.ask(1, 10, wants={"tier": "nvm"}) is State.REFUSED
    assert _why(made, 1) == "no disk has tier 'nvm'; known values: hdd, nvme"
    assert made.ask(2, 10, wants={"colour": "red"}) is State.REFUSED
    assert _why(made, 2) == "no disk has the field 'colour'; known fields: rack, tier"
    assert made.ask(3, 10, wants={"tier": "hdd", "rack": "2"}) is State.MAKING
    assert made.control.volumes(grant_id(3))[0].disk == "n/b"
    made.register("m", disk("c", 100, fields={"tier": "hdd"}), fields={"rack": 3})
    assert made.ask(4, 10, wants={"tier": "nvme", "rack": "3"}) is State.REFUSED
    assert _why(made, 4) == "no disk has all of tier nvme, rack 3"


def test_before_any_node_has_registered_requests_wait() -> None:
    made = Service()
    assert made.ask(1, 10) is State.QUEUED
    assert _why(made, 1) == "no storage node has registered yet"
    made.register("n", disk("a", 100))
    assert made.state(1) is State.MAKING


def test_a_start_in_the_future_is_booked_and_made_when_it_comes() -> None:
    made = service(a=100)
    assert made.ask(1, 60, 100.0, start=1000.0) is State.GRANTED
    assert made.control.actions("n") == []
    assert made.ask(2, 60, 900.0) is State.MAKING, "until then the space is free"
    assert made.ask(3, 60, 1001.0) is State.QUEUED
    made.carry_out("n")
    assert made.control.next_due(0.0) == 300.0
    made.release(3)
    made.tick(900.0)
    made.carry_out("n")
    made.tick(1000.0)
    assert made.state(1) is State.MAKING


def test_who_booked_ahead_waits_for_those_who_overstay() -> None:
    made = service(a=100)
    made.ask(1, 60, 1000.0)
    made.carry_out("n")
    assert made.ask(2, 60, 500.0, start=1000.0) is State.GRANTED
    made.tick(1000.0)
    assert (made.state(1), made.state(2)) == (State.RELEASING, State.GRANTED)
    made.carry_out("n")
    assert made.state(1) is State.EXPIRED
    made.tick(1001.0)
    assert made.state(2) is State.MAKING


def test_who_booked_ahead_in_vain_expires() -> None:
    made = service(a=100)
    made.ask(1, 60, 1000.0)
    made.ask(2, 60, 500.0, start=1000.0)
    made.tick(1500.0)
    assert (made.state(1), made.state(2)) == (State.RELEASING, State.EXPIRED)
    assert _why(made, 2) == "its space did not become free before it ended"


def test_time_passes_before_anything_is_decided() -> None:
    """A request that comes late, before any tick, finds those expired that are."""
    made = service(a=100)
    made.ask(1, 60, 100.0)
    made.carry_out("n")
    made.now = 200.0
    assert made.ask(2, 60) is State.QUEUED
    assert made.state(1) is State.RELEASING
    assert _why(made, 1) == "its time of 100 s is over"


def test_a_clock_that_goes_back_finds_nothing_free_that_is_not() -> None:
    made = service(a=100)
    made.now = 1e6
    made.ask(1, 60, 100.0)
    made.now = 10.0
    assert made.ask(2, 60, 100.0) is State.QUEUED


def test_extended_if_the_space_stays_free() -> None:
    made = service(a=100)
    made.ask(1, 60, 100.0)
    made.ask(2, 60, 100.0, start=300.0)
    longer = co.Extend(caller=USER, grant=grant_id(1), end=300.0)
    assert made.kinds(longer) == ["Extended"]
    assert made.do(longer) == [], "sent twice, it is extended once"
    (event,) = made.do(co.Extend(caller=USER, grant=grant_id(1), end=301.0))
    assert getattr(event, "because", "") == "disk n/a has only 40 B free until then, 60 B needed"
    assert made.control.grant(grant_id(1)).end == 300.0


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (50.0, "it already ends later; to end it sooner, release it"),
        (1e9, "a grant lasts at most 30 d in all"),
    ],
)
def test_an_extension_that_is_declined_says_why(end: float, said: str) -> None:
    made = service(a=100)
    made.ask(1, 60)
    (event,) = made.do(co.Extend(caller=USER, grant=grant_id(1), end=end))
    assert (type(event).__name__, getattr(event, "because", "")) == ("Declined", said)


def test_nothing_is_extended_on_a_drained_disk_nor_in_the_queue() -> None:
    made = service(a=100)
    made.ask(1, 60)
    made.ask(2, 60)
    made.do(co.Drain(caller=ADMINISTRATOR, what="n"))
    said = [made.do(co.Extend(caller=USER, grant=grant_id(n), end=500.0))[-1] for n in (1, 2)]
    assert [getattr(event, "because", "") for event in said] == ["disk n/a is drained", "it is queued"]
    with pytest.raises(BadInput, match=r"^end: must be seconds since 1970, not nan"):
        made.do(co.Extend(caller=USER, grant=grant_id(1), end=math.nan))


def test_only_owners_and_administrators_touch_a_grant() -> None:
    made = service(a=100)
    made.ask(1, 60)
    for caller in (co.Caller(role="user", uid=7), agent("n")):
        for command in (
            co.Release(caller=caller, grant=grant_id(1)),
            co.Extend(caller=caller, grant=grant_id(1), end=9.0),
        ):
            with pytest.raises(NotAllowed, match="only its owner or an administrator may do this"):
                made.do(command)
        with pytest.raises(NotAllowed):
            made.do(co.Request(caller=caller, ask=ask(2, 10)))
    with pytest.raises(NotAllowed):
        made.do(co.Use(caller=co.Caller(role="user", uid=7), grant=grant_id(1)))
    assert made.kinds(co.Release(caller=ADMINISTRATOR, grant=grant_id(1))) == ["Releasing"]
    assert _why(made, 1) == "released by an administrator"


def test_only_administrators_run_the_machine() -> None:
    made = service(a=100)
    for caller in (USER, agent("n")):
        for command in (
            co.Drain(caller=caller, what="n"),
            co.Undrain(caller=caller, what="n"),
            co.Remove(caller=caller, what="n"),
            co.Silent(caller=caller, node="n"),
            co.Tick(caller=caller),
            co.ChangePolicy(caller=caller, policy="random"),
            co.ChangeRules(caller=caller, rules=GrantRules()),
        ):
            with pytest.raises(NotAllowed, match="only an administrator may do this"):
                made.do(command)


def test_an_agent_speaks_only_for_its_own_node() -> None:
    made = service(a=100)
    made.register("m")
    made.ask(1, 60)
    volume = f"{grant_id(1)}.0"
    wrong: list[co.Command] = [
        co.Made(caller=agent("m"), volume=volume),
        co.NotMade(caller=agent("m"), volume=volume, because=""),
        co.Lost(caller=agent("m"), volume=volume, because=""),
        co.Gone(caller=agent("m"), volume=volume, disk="a"),
        co.Seen(caller=agent("m"), node="n"),
        co.Found(caller=agent("m"), node="n", number=1, volumes=()),
        co.Register(caller=agent("m"), node="n", network_bandwidth=1.0, disks=()),
    ]
    for command in wrong:
        with pytest.raises(NotAllowed, match="the agent of node 'm' may not report for node 'n'"):
            made.do(command)
    for caller in (USER, ADMINISTRATOR):
        with pytest.raises(NotAllowed, match="only the agent of node 'n' may report this"):
            made.do(co.Made(caller=caller, volume=volume))
    with pytest.raises(NotAllowed, match="node 'm' has no volume of this grant"):
        made.do(co.Use(caller=agent("m"), grant=grant_id(1)))


def test_what_is_not_there_can_not_be_released_or_drained() -> None:
    made = service(a=100)
    with pytest.raises(NoSuchGrant, match="no grant 'x'"):
        made.do(co.Release(caller=USER, grant="x"))
    with pytest.raises(UnknownName, match="no node 'm'"):
        made.do(co.Drain(caller=ADMINISTRATOR, what="m"))
    with pytest.raises(UnknownName, match="no disk of node n: 'x'; use one of: a"):
        made.do(co.Drain(caller=ADMINISTRATOR, what="n/x"))
    with pytest.raises(UnknownName, match="no storage policy"):
        made.do(co.ChangePolicy(caller=ADMINISTRATOR, policy="none"))
    with pytest.raises(BadInput, match="now: must be seconds since 1970"):
        made.control.handle(co.Tick(caller=ADMINISTRATOR), math.inf)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"seconds": 31 * 86_400.0}, "seconds: a grant lasts at most 30 d, not 31 d"),
        ({"start": 31 * 86_400.0}, "start: must be within the next 30 d"),
    ],
)
def test_too_long_and_too_far_ahead_is_bad_input(wish: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        service(a=100).do(co.Request(caller=USER, ask=ask(1, 10, **wish)))


def test_what_ended_long_ago_is_forgotten() -> None:
    made = service(a=100)
    made.ask(1, 60)
    made.carry_out("n")
    made.release(1)
    made.carry_out("n")
    made.tick(7 * 86_400.0 - 1)
    assert made.state(1) is State.RELEASED
    made.tick(7 * 86_400.0)
    tables = made.control.tables
    assert not tables.grants and not tables.volumes and not tables.keys


def test_in_shadow_everything_is_decided_and_nothing_is_done() -> None:
    made = service(a=100)
    made.rules(shadow=True)
    assert made.ask(1, 60, 100.0) is State.READY
    assert made.ask(2, 60) is State.QUEUED
    assert made.control.actions("n") == []
    with pytest.raises(BadInput, match="cannot change while grants exist"):
        made.rules(shadow=False)
    made.tick(100.0)
    assert (made.state(1), made.state(2)) == (State.EXPIRED, State.READY)
    made.release(2)
    assert made.state(2) is State.RELEASED
    check(made.control)


def test_a_ceiling_is_shared_by_the_volumes() -> None:
    made = service(a=100, b=100)
    made.rules(split=50)
    made.ask(1, 100, ceiling=1e9, expose="nbd", hosts=("c1", "c2"))
    actions = made.control.actions("n")
    assert [(a.ceiling, a.expose, a.hosts) for a in actions] == [(5e8, "nbd", ("c1", "c2"))] * 2


def test_a_volume_that_can_be_made_nowhere_fails_the_whole_grant() -> None:
    made = service(a=50, b=50)
    made.rules(split=50)
    made.ask(1, 100)
    first, second = made.control.actions("n")
    made.do(co.Made(caller=agent("n"), volume=first.volume))
    kinds = made.kinds(co.NotMade(caller=agent("n"), volume=second.volume, because="the disk is full"))
    assert kinds == ["DiskFailed", "Told", "Releasing"]
    assert [a.kind for a in made.control.actions("n")] == ["release", "release"]
    made.carry_out("n")
    assert made.state(1) is State.FAILED
    why = f"volume {second.volume} on n/b could not be made: the disk is full; no other disk has room for it"
    assert _why(made, 1) == why
    assert {v.state for v in made.control.volumes(grant_id(1))} == {VolumeState.GONE}


def test_a_user_may_hold_and_have_queued_only_so_many_and_administrators_more() -> None:
    made = service(a=100)
    made.rules(most=2)
    assert (made.ask(1, 60), made.ask(2, 60)) == (State.MAKING, State.QUEUED)
    with pytest.raises(Refused, match="uid 1000 already holds or waits for 2 grants, the limit; release some"):
        made.ask(3, 1)
    assert made.ask(2, 60) is State.QUEUED, "asked again, it is the same"
    others = co.Caller(role="user", uid=1001)
    assert "Asked" in made.kinds(co.Request(caller=others, ask=ask(4, 1, uid=1001)))
    assert "Asked" in made.kinds(co.Request(caller=ADMINISTRATOR, ask=ask(5, 1)))
    made.release(2)
    made.release(5)
    made.carry_out("n")
    assert made.ask(6, 1) is State.MAKING
    made.rules(most=0)
    assert made.ask(7, 1) is State.MAKING
