"""Events come back from the journal as they were, and a journal that is damaged says where."""

import json
from dataclasses import fields
from typing import Any, get_type_hints

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.control.api.description import EVENT, event_schemas
from forebay.decide.grants import events as ev
from forebay.decide.grants.codec import from_line, to_line
from forebay.decide.grants.events import EVENTS, Event
from forebay.decide.grants.grant_limits import GrantRules
from forebay.decide.grants.machine import DiskSpec, Stray, Trial
from forebay.decide.grants.space import Turned
from forebay.model.errors import BadInput
from forebay.model.grant import Ask, State
from forebay.model.reasons import Reason
from support.grants import grant_id, service

WORDS = st.text(st.characters(codec="utf-8"), max_size=10)
TIMES = st.floats(-1e11, 1e11)
COUNTS = st.integers(0, 10**18)
PRINTABLE = st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126), min_size=1, max_size=8)
FIELDS = st.dictionaries(WORDS, st.one_of(WORDS, st.integers(), st.booleans(), st.lists(st.integers())), max_size=3)
ASKS = st.builds(
    Ask,
    grant=st.integers(0, 2**128 - 1).map(grant_id),
    key=PRINTABLE,
    uid=st.integers(0, 1000),
    gid=st.integers(0, 1000),
    size=st.integers(1, 10**18),
    seconds=st.one_of(st.floats(1e-3, 1e8), st.integers(1, 100)),
    start=st.one_of(st.none(), TIMES),
    wants=st.dictionaries(PRINTABLE, PRINTABLE, max_size=2),
    hosts=st.lists(WORDS, max_size=2).map(tuple),
)
DISKS = st.builds(
    DiskSpec, name=WORDS, capacity=COUNTS, write_bandwidth=TIMES, read_bandwidth=TIMES, identity=WORDS, fields=FIELDS
)
TURNS = st.builds(Turned, chance=st.integers(0, 2**64 - 1), probed=st.lists(st.tuples(WORDS, COUNTS)).map(tuple))
KNOWN = {
    "ask": ASKS, "disk": DISKS, "fields": FIELDS, "settings": st.dictionaries(WORDS, WORDS, max_size=2),
    "turned": st.one_of(st.none(), TURNS), "parts": st.lists(st.tuples(WORDS, COUNTS), max_size=3).map(tuple),
    "rules": st.builds(GrantRules, split=COUNTS, interval=st.floats(1, 1e6), shadow=st.booleans()),
    "stray": st.builds(Stray, name=WORDS, disk=WORDS, size=COUNTS), "grants": st.lists(WORDS).map(tuple),
    "avoids": st.lists(WORDS, max_size=2).map(tuple),
    "trial": st.builds(Trial, size=COUNTS, uid=COUNTS, gid=COUNTS, hosts=st.lists(WORDS, max_size=2).map(tuple)),
    "outcome": st.sampled_from(State), "reason": st.sampled_from(Reason), "state": st.sampled_from(State),
}  # fmt: skip
TYPES: dict[object, st.SearchStrategy[Any]] = {float: TIMES, int: COUNTS, str: WORDS}
DESCRIBED = jsonschema_rs.Draft202012Validator(
    {"$ref": f"#/components/schemas/{EVENT}", "components": {"schemas": event_schemas()}}
)
"""Events as the description of the API has them."""


def _any(kind: type[Event]) -> st.SearchStrategy[Event]:
    hints = {each.name: get_type_hints(kind)[each.name] for each in fields(kind)}
    return st.builds(kind, **{name: TYPES[hint] if hint in TYPES else KNOWN[name] for name, hint in hints.items()})


@given(st.sampled_from(list(EVENTS.values())).flatmap(_any))
def test_what_goes_into_the_journal_comes_back_the_same(event: Event) -> None:
    line = to_line(event)
    assert "\n" not in line
    DESCRIBED.validate(json.loads(line))
    assert from_line(line) == event
    assert to_line(from_line(line)) == line


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "row 7: is not valid JSON; the journal may be cut off here"),
        ('{"v":1,"kind":"Ready","at":1', "row 7: is not valid JSON; the journal may be cut off here"),
        ("[]", "row 7: is not an event"),
        ('{"kind":"Ready","at":1.0,"grant":"x"}', "row 7: has version None; this release reads version 1"),
        ('{"v":2,"kind":"Ready","at":1.0,"grant":"x"}', "row 7: has version 2; this release reads version 1"),
        ('{"v":1,"kind":"Nothing","at":1.0}', "row 7: unknown kind of event 'Nothing'"),
        ('{"v":1,"kind":"Ready","at":1.0}', "row 7: Ready lacks 'grant'"),
        ('{"v":1,"kind":"Ready","at":1.0,"grant":"x","more":1}', "row 7: Ready has an unknown field 'more'"),
        ('{"v":1,"kind":"Ready","at":"x","grant":"x"}', "row 7.at: unexpected value 'x'"),
        ('{"v":1,"kind":"Ready","at":1.0,"grant":3}', "row 7.grant: unexpected value 3"),
        ('{"v":1,"kind":"Ended","at":1.0,"grant":"x","state":"y","because":""}', "row 7.state: 'y' is not a valid"),
        ('{"v":1,"kind":"Swept","at":1.0,"order":true}', "row 7.order: unexpected value True"),
    ],
)
def test_a_damaged_line_says_where_and_what(line: str, said: str) -> None:
    with pytest.raises(BadInput) as raised:
        from_line(line, "row 7")
    assert str(raised.value).startswith(said)


def test_every_cut_through_a_line_is_noticed() -> None:
    made = service(a=100)
    made.ask(1, 60)
    for line in made.journal:
        for end in range(len(line)):
            with pytest.raises(BadInput):
                from_line(line[:end])


def test_what_is_as_by_default_is_left_out() -> None:
    document = json.loads(to_line(ev.PolicyChanged(at=5, policy="forebay")))
    assert document == {"v": 1, "kind": "PolicyChanged", "at": 5.0, "policy": "forebay"}
    assert "turned" not in to_line(ev.TurnedDown(at=1.0, grant="x", because="y"))


def test_a_reason_of_a_later_version_reads_as_another_and_none_as_none() -> None:
    line = '{"v":1,"kind":"TurnedDown","at":1.0,"grant":"x","because":"y"%s}'
    assert from_line(line % "") == ev.TurnedDown(at=1.0, grant="x", because="y", reason=Reason.NONE)
    assert from_line(line % ',"reason":"no-room"') == ev.TurnedDown(
        at=1.0, grant="x", because="y", reason=Reason.NO_ROOM
    )
    assert from_line(line % ',"reason":"moonlight"') == ev.TurnedDown(
        at=1.0, grant="x", because="y", reason=Reason.OTHER
    )
    with pytest.raises(BadInput):
        from_line(line % ',"reason":7')
