"""What is remembered of the disks is as if it were looked up each time."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.decide.grants import commands as co
from forebay.decide.grants.grant_limits import GrantRules
from forebay.decide.grants.state import Capacities
from support.grants import ADMINISTRATOR, Service, disk, service


@given(st.lists(st.integers(0, 1000), max_size=8), st.integers(0, 300))
def test_capacities_are_those_of_the_disks(sizes: list[int], part: int) -> None:
    found = Capacities.of(sizes, part)
    assert (found.disks, found.largest, found.total) == (len(sizes), max([0, *sizes]), sum(sizes))
    cut = [(size // part, size % part) if part else (0, 0) for size in sizes]
    assert (found.slots, found.rest) == (sum(slots for slots, _ in cut), max([0, *(rest for _, rest in cut)]))


def test_another_split_is_heeded() -> None:
    made = service(a=100, b=50)
    made.do(co.ChangeRules(caller=ADMINISTRATOR, rules=GrantRules(split=30)))
    assert made.control.tables.capacities({}).slots == 3 + 1
    made.do(co.ChangeRules(caller=ADMINISTRATOR, rules=GrantRules(split=50)))
    assert made.control.tables.capacities({}).slots == 2 + 1


def test_a_disk_that_says_something_new_is_heard() -> None:
    made = Service()
    made.register("n", disk("a", 100))
    assert not made.control.tables.knows_field("tier")
    made.register("n", disk("a", 100), disk("b", 100, fields={"tier": "ssd"}))
    assert made.control.tables.knows_field("tier")
    assert made.control.tables.capacities({"tier": "ssd"}).total == 100
