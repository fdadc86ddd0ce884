"""The requests of a journal under another policy."""

import pytest

from forebay.decide.grants import commands as co
from forebay.decide.grants.codec import from_line
from forebay.decide.grants.events import Event
from forebay.model.errors import UnknownName
from forebay.simulate.storage.journal_replay import replay_journal
from support.grants import ADMINISTRATOR, USER, Service, agent, disk, grant_id, service


def _events(made: Service) -> list[Event]:
    return [from_line(line) for line in made.journal]


def _year() -> Service:
    """Two disks; some requests come and go, one is refused, one waits and gives up, one waits and is served."""
    made = service(a=100, b=50)
    made.now = 10.0
    made.ask(1, 40, 100.0)
    made.ask(2, 45, 100.0)
    made.ask(3, 60, 100.0)
    made.ask(4, 500)
    made.carry_out("n")
    made.now = 20.0
    made.ask(5, 90, 50.0)
    made.ask(6, 95, 50.0)
    made.now = 30.0
    made.release(6)
    made.do(co.Extend(caller=USER, grant=grant_id(1), end=160.0))
    made.now = 60.0
    made.release(3)
    made.carry_out("n")
    made.now = 170.0
    made.tick(170.0)
    made.carry_out("n")
    made.tick(400.0)
    made.carry_out("n")
    return made


def test_the_same_policy_decides_the_same_again() -> None:
    compared = replay_journal(_events(_year()))
    assert [(row.then.verdict, row.then.disks) for row in compared.rows] == [
        (row.now.verdict, row.now.disks) for row in compared.rows
    ]
    assert compared.then.policy == compared.now.policy == "forebay"
    assert {row.then.verdict for row in compared.rows} == {"granted", "refused", "waiting"}


def test_another_policy_is_told_beside_the_one_of_then() -> None:
    """best-fit puts 40 bytes where 50 are free; forebay alternates, and puts them where most bandwidth is."""
    compared = replay_journal(_events(_year()), "best-fit")
    first = compared.rows[0]
    assert first.then.disks == ("n/b",) or first.then.disks == ("n/a",)
    assert first.now.disks == ("n/b",)
    assert compared.now.policy == "best-fit"
    assert compared.now.granted + compared.now.refused + compared.now.waiting == len(compared.rows) == 6
    assert compared.now.bytes == sum(row.ask.size for row in compared.rows if row.now.verdict == "granted")
    assert all(row.then != row.now for row in compared.changed_rows)


def test_who_gave_space_back_early_does_so_again() -> None:
    """Number 1 holds the only disk for 50 of its 1,000 seconds; number 2 gets it then, under any policy."""
    made = service(a=100)
    made.now = 10.0
    made.ask(1, 100, 1000.0)
    made.ask(2, 100, 10.0)
    made.carry_out("n")
    made.now = 60.0
    made.release(1)
    made.carry_out("n")
    made.tick(80.0)
    compared = replay_journal(_events(made), "first-fit")
    assert [row.now.verdict for row in compared.rows] == ["granted", "granted"]
    assert compared.rows[1].now.waited == compared.rows[1].then.waited == 50.0
    assert compared.now.waited == 25.0


def test_the_machine_changes_as_it_did() -> None:
    made = service(a=100, b=100)
    made.do(co.Drain(caller=ADMINISTRATOR, what="n/a"), 5.0)
    made.ask(1, 10)
    made.do(co.Undrain(caller=ADMINISTRATOR, what="n/a"), 6.0)
    made.do(co.Drain(caller=ADMINISTRATOR, what="n/b"), 6.0)
    made.ask(2, 10)
    made.do(co.Silent(caller=ADMINISTRATOR, node="n"), 7.0)
    made.ask(3, 10)
    made.do(co.Seen(caller=agent("n"), node="n"), 8.0)
    made.register("n")
    compared = replay_journal(_events(made), "first-fit")
    assert [row.now.disks for row in compared.rows] == [("n/b",), ("n/a",), ("n/a",)]
    assert [row.now.waited for row in compared.rows] == [0.0, 0.0, 1.0]


def test_a_disk_that_did_not_work_is_closed_for_as_long_as_it_was_then() -> None:
    made = service(a=100)
    made.ask(1, 10)
    made.register("n", disk("b", 100), unseen={"a": "not mounted"})
    made.ask(2, 10)
    made.register("n", disk("a", 100), disk("b", 100))
    made.ask(3, 10)
    compared = replay_journal(_events(made), "first-fit")
    assert [row.now.disks for row in compared.rows] == [("n/a",), ("n/b",), ("n/a",)]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UnknownName, match="no storage policy 'best-fitt'; did you mean 'best-fit'"):
        replay_journal(_events(_year()), "best-fitt")


def test_progress_is_told() -> None:
    told: list[float] = []
    replay_journal(_events(_year()), progress=told.append)
    assert told == sorted(told) and told[-1] == 1.0
