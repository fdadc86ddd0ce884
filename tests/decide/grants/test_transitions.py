"""Every way through a small world: an open disk and a closed one, three requests, all that can be said of them."""

import pytest

from forebay.decide.grants import commands as co
from forebay.decide.grants import events as ev
from forebay.decide.grants.control import Control
from forebay.decide.grants.events import apply_event
from forebay.decide.grants.grant_limits import GrantRules
from forebay.decide.grants.state import Tables
from forebay.decide.grants.state_tables import BrokenJournal
from forebay.model.grant import NEXT, Grant, State
from support.grants import ADMINISTRATOR, USER, agent, ask, check, digest_of, disk, grant_id

ONE, TWO = grant_id(1), grant_id(2)


def _commands() -> list[tuple[co.Command, float]]:
    """With the time at which each is given; the clock goes back where they are mixed."""
    said: list[co.Command] = [
        co.Request(caller=USER, ask=ask(1, 60, 100.0)),
        co.Request(caller=USER, ask=ask(2, 60, 100.0, start=50.0)),
        co.Request(caller=USER, ask=ask(3, 101)),
        co.Tick(caller=ADMINISTRATOR),
        co.Register(caller=agent("n"), node="n", network_bandwidth=1e9, disks=()),
        co.Register(caller=agent("n"), node="n", network_bandwidth=1e9, disks=(disk("a", 100),)),
        co.Found(caller=agent("n"), node="n", number=1, volumes=()),
    ]
    for grant in (ONE, TWO):
        volume = f"{grant}.0"
        said += [
            co.Release(caller=USER, grant=grant),
            co.Use(caller=USER, grant=grant),
            co.Made(caller=agent("n"), volume=volume),
            co.NotMade(caller=agent("n"), volume=volume, because="full"),
            co.Gone(caller=agent("n"), volume=volume, disk="a"),
        ]
    times = [(command, 10.0) for command in said]
    return [*times, (co.Tick(caller=ADMINISTRATOR), 60.0), (co.Tick(caller=ADMINISTRATOR), 400.0)]


def _possible(control: Control, command: co.Command) -> bool:
    return getattr(command, "grant", ONE) in control.tables.grants or not hasattr(command, "grant")


def test_no_way_leads_through_a_forbidden_transition_and_every_allowed_one_is_taken() -> None:
    first = Control()
    rules = GrantRules(split=0, tries=2, interval=20.0, remember=1e6)
    other = co.Register(caller=agent("m"), node="m", network_bandwidth=1e9, disks=(disk("a", 100),))
    closed = co.Drain(caller=ADMINISTRATOR, what="m")  # a grant whose volume can't be made may wait for it
    for command in (co.ChangeRules(caller=ADMINISTRATOR, rules=rules), other, closed, _commands()[5][0]):
        for event in first.handle(command, 0.0):
            first.apply(event)
    taken: set[tuple[State, State]] = set()
    seen, frontier = {digest_of(first)}, [first.document()]
    for _ in range(5):
        following = []
        for document in frontier:
            for command, now in _commands():
                control = Control.from_document(document)
                if not _possible(control, command):
                    continue
                events = control.handle(command, now)
                for event in events:
                    before = {name: grant.state for name, grant in control.tables.grants.items()}
                    control.apply(event)
                    after = {name: grant.state for name, grant in control.tables.grants.items()}
                    taken |= {(before[n], after[n]) for n in before if before[n] is not after[n]}
                if events and (digest := digest_of(control)) not in seen:
                    check(control)
                    seen.add(digest)
                    following.append(control.document())
        frontier = following
    allowed = {(state, after) for state, several in NEXT.items() for after in several if state is not after}
    assert taken <= allowed
    assert allowed - taken == set()
    assert len(seen) > 300


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("after", State)
def test_what_the_table_forbids_can_not_be_applied(state: State, after: State) -> None:
    grants = Tables().grants
    grants.set(ONE, Grant(ask=ask(1, 10), order=1, asked=0.0, state=state))
    if after in NEXT[state]:
        assert grants.change(ONE, state=after).state is after
    else:
        with pytest.raises(BrokenJournal, match=f"is {state.value} and cannot become {after.value}"):
            grants.change(ONE, state=after)


@pytest.mark.parametrize(
    "event",
    [
        ev.Ready(at=1.0, grant=ONE),
        ev.VolumeMade(at=1.0, volume="x.0"),
        ev.Drained(at=1.0, what="n"),
        ev.DiskRegistered(at=1.0, node="n", disk=disk("a", 1)),
        ev.Told(at=1.0, grant=ONE, uid=1, words=""),
        ev.Forgotten(at=1.0, grants=(ONE,)),
    ],
)
def test_an_event_about_what_is_not_there_breaks_the_journal(event: ev.Event) -> None:
    with pytest.raises(BrokenJournal, match="which is not in the journal before it"):
        apply_event(Tables(), event)
