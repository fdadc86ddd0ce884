"""Nodes whose agents know another journal: what is kept there, and what an administrator makes of it."""

from typing import Any

import pytest

from forebay.decide.grants import commands as co
from forebay.model.errors import BadInput, Refused
from forebay.model.grant import NoSuchGrant, NotAllowed, State
from support.grants import ADMINISTRATOR, USER, Service, agent, ask, check, disk, grant_id, service, used_bytes


def found(number: int, on: str = "a", part: int = 0, size: int = 20, **more: Any) -> co.FoundVolume:
    return co.FoundVolume(name=f"{grant_id(number)}.{part}", disk=on, size=size, **{"uid": 1000, "gid": 100} | more)


def look(made: Service, *volumes: co.FoundVolume, **more: Any) -> list[str]:
    """The node says what it has."""
    disks = (disk("a", 100), disk("b", 100))
    return [type(event).__name__ for event in made.register("n", *disks, volumes=volumes, **more)]


@pytest.fixture
def made() -> Service:
    """Its agent knows of a grant that it does not know."""
    own = service(a=100, b=100)
    look(own, found(9), ours=False)
    return own


def strays(made: Service) -> dict[str, bool]:
    return {stray.name: stray.held for stray in made.control.tables.strays.values()}


def test_what_is_not_known_is_kept_with_its_space(made: Service) -> None:
    assert strays(made) == {f"{grant_id(9)}.0": True}
    assert made.control.actions("n") == []
    assert used_bytes(made.control)["n/a"] == 20
    check(made.control)


def test_a_report_on_a_volume_that_another_journal_placed_there_changes_nothing(made: Service) -> None:
    made.register("other", disk("a", 100))
    made.do(co.Drain(caller=ADMINISTRATOR, what="n"))
    made.ask(1, 20)
    late = co.NotMade(caller=agent("n"), volume=f"{grant_id(1)}.0", disk="a", because="full")
    assert made.kinds(late) == []
    assert made.state(1) is State.MAKING
    with pytest.raises(NotAllowed):
        made.do(co.NotMade(caller=agent("third"), volume=f"{grant_id(1)}.0", disk="a", because="full"))


@pytest.mark.parametrize(("ours", "kept"), [(True, False), (None, True), (False, True)])
def test_only_an_agent_that_acted_on_this_journal_removes_what_it_does_not_know(ours: bool | None, kept: bool) -> None:
    own = service(a=100, b=100)
    look(own, found(9), ours=ours)
    assert (strays(own)[f"{grant_id(9)}.0"], own.control.actions("n") == []) == (kept, kept)


def test_an_agent_that_remembers_nothing_and_has_nothing_unknown_is_trusted() -> None:
    own = service(a=100, b=100)
    own.ask(1, 20)
    assert "NodeDoubted" not in look(own, found(1), ours=None)
    assert own.state(1) is State.READY


def test_the_same_word_of_an_agent_that_heard_no_answer_is_no_new_doubt(made: Service) -> None:
    assert "NodeDoubted" in look(made, found(9), ours=False, seen="7:a")
    made.do(co.Discard(caller=ADMINISTRATOR, what="n"))
    assert "NodeDoubted" not in look(made, found(9), ours=False, seen="7:a")
    assert "NodeDoubted" in look(made, found(9), ours=False, seen="8:b")


def test_what_its_owner_gives_back_and_what_came_later_goes_as_ever() -> None:
    own = service(a=100, b=100)
    own.ask(1, 20)
    own.ask(2, 20)
    own.carry_out("n")
    volumes = [
        co.FoundVolume(name=v.name, disk=v.disk[2:], size=20) for n in (1, 2) for v in own.control.volumes(grant_id(n))
    ]
    look(own, *volumes, ours=False)
    own.ask(3, 20)
    own.carry_out("n")
    own.release(1)
    own.tick(1000.0)
    assert [(a.kind, a.volume) for a in own.control.actions("n")] == [
        ("release", f"{grant_id(1)}.0"), ("release", f"{grant_id(3)}.0")
    ]  # fmt: skip
    assert "is kept until an administrator decides" in own.control.marks(grant_id(2))[0]
    own.do(co.Discard(caller=ADMINISTRATOR, what=grant_id(2)))
    own.carry_out("n")
    assert own.state(2) is State.EXPIRED


def test_what_is_kept_and_gone_all_the_same_frees_its_space() -> None:
    own = service(a=100, b=100)
    own.ask(1, 20)
    own.carry_out("n")
    own.tick(1000.0)
    look(own, ours=False)
    assert own.state(1) is State.EXPIRED and not any(used_bytes(own.control).values())


def test_a_request_that_is_granted_where_its_volume_has_been_takes_it_over(made: Service) -> None:
    made.do(co.Drain(caller=ADMINISTRATOR, what="n/b"))
    assert made.ask(9, 20) is State.MAKING
    assert strays(made) == {} and used_bytes(made.control)["n/a"] == 20
    assert [a.kind for a in made.control.actions("n")] == ["make"]


def test_a_request_that_is_granted_elsewhere_has_two_volumes_until_an_administrator_decides(made: Service) -> None:
    made.register("other", disk("a", 100))
    made.do(co.Drain(caller=ADMINISTRATOR, what="n"))
    assert made.ask(9, 20) is State.MAKING
    made.carry_out("other")
    name = f"{grant_id(9)}.0"
    assert [volume.disk for volume in made.control.volumes(grant_id(9))] == ["other/a"]
    assert strays(made) == {name: True} and made.control.actions("n") == []
    made.do(co.Discard(caller=ADMINISTRATOR, what="n"))
    assert [(action.kind, action.volume) for action in made.control.actions("n")] == [("release", name)]
    made.carry_out("n")
    assert strays(made) == {} and made.state(9) is State.READY and made.control.actions("other") == []
    check(made.control)


def test_adopted_it_is_its_owners_grant_again(made: Service) -> None:
    look(made, found(9, mode=0o750, ceiling=5.0), found(9, "b", 1), ours=False)
    made.do(co.Adopt(caller=ADMINISTRATOR, what="n", seconds=50.0), 10.0)
    grant = made.control.grant(grant_id(9))
    assert (grant.ask.uid, grant.ask.gid, grant.ask.size, grant.start, grant.end) == (1000, 100, 40, 10.0, 60.0)
    assert [v.disk for v in made.control.volumes(grant.id)] == ["n/a", "n/b"]
    look(made, found(9), found(9, "b", 1))
    assert made.state(9) is State.READY and strays(made) == {}
    made.do(co.Release(caller=USER, grant=grant.id))
    made.carry_out("n")
    assert made.state(9) is State.RELEASED


@pytest.mark.parametrize(
    ("volumes", "said"),
    [
        ((found(9, uid=-1),), "its mark does not name the owner"),
        ((found(9, part=1),), "some of its volumes are missing"),
        ((found(9, size=0),), "its mark does not name"),
    ],
)
def test_what_can_not_be_adopted_says_why(volumes: tuple[co.FoundVolume, ...], said: str) -> None:
    own = service(a=100, b=100)
    look(own, *volumes, ours=False)
    with pytest.raises(Refused, match=said):
        own.do(co.Adopt(caller=ADMINISTRATOR, what=grant_id(9), seconds=50.0))
    own.do(co.Adopt(caller=ADMINISTRATOR, what="n", seconds=50.0))
    assert own.control.tables.grants == {}


def test_bad_words_and_strangers(made: Service) -> None:
    with pytest.raises(Refused, match="are kept; `forebay storage strays`"):
        made.do(co.Discard(caller=ADMINISTRATOR, what="x"))
    with pytest.raises(NoSuchGrant):
        made.do(co.Adopt(caller=ADMINISTRATOR, what=grant_id(1), seconds=50.0))
    for seconds in (0.0, -1.0, float("nan"), 1e12):
        with pytest.raises(BadInput, match="seconds"):
            made.do(co.Adopt(caller=ADMINISTRATOR, what=grant_id(9), seconds=seconds))
    for caller in (USER, agent("n")):
        with pytest.raises(NotAllowed):
            made.do(co.Discard(caller=caller, what="n"))
        with pytest.raises(NotAllowed):
            made.do(co.Adopt(caller=caller, what="n", seconds=50.0))


def test_an_exposed_volume_is_not_adopted() -> None:
    own = service(a=100)
    own.register("n", disk("a", 100, fields={"expose": "nbd"}), volumes=(found(9),), ours=False)
    with pytest.raises(Refused, match="it is exposed"):
        own.do(co.Adopt(caller=ADMINISTRATOR, what=grant_id(9), seconds=50.0))
    assert ask(9, 20).grant == grant_id(9)
