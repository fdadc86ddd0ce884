"""What the page is told: frames add up to the snapshot, whoever looks, however they are cut and repeated."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.act.control.auth.callers import Who
from forebay.act.control.page import updates as page_frames
from forebay.act.control.page import views as page_views
from forebay.act.control.service.live_documents import fills
from forebay.act.control.service.live_state import Live
from forebay.decide.grants import commands as co
from forebay.model.errors import ForebayError
from forebay.model.grant import NotAllowed, VolumeState
from support.documents import as_received
from support.examples import examples
from support.grants import used_bytes
from support.page_world import ANN, BEN, PageWorld


class Client:
    """What the page does with a snapshot and frames."""

    def __init__(self, snapshot: dict[str, Any]) -> None:
        self.head = {name: snapshot[name] for name in ("number", "mode", "policy", "totals", "rules")}
        self.nodes = {node["name"]: node for node in snapshot["nodes"]}
        self.lines: list[int] = []

    @property
    def number(self) -> int:
        return int(self.head["number"])

    def take(self, frame: dict[str, Any]) -> None:
        if frame["number"] <= self.number:
            return
        assert frame["after"] <= self.number, "a gap"
        before = self.number
        for node in frame["nodes"]:
            self.nodes[node["name"]] = node
        for key, fill in frame["disks"].items():
            node, _, name = key.partition("/")
            for disk in self.nodes[node]["disks"]:
                if disk["name"] == name:
                    disk.update(fill)
        self.head = {name: frame[name] for name in self.head}
        self.lines += sorted(line["n"] for line in frame["lines"] if line["n"] > before)


def told(text: str, kind: str = "frame") -> dict[str, Any]:
    """The document of a server-sent event."""
    lines = dict(line.split(": ", 1) for line in text.strip().splitlines())
    assert lines["event"] == kind
    found: dict[str, Any] = json.loads(lines["data"])
    assert int(lines["id"]) == found["number"]
    return found


def snapshot(live: Live, eye: int | None) -> Any:
    return as_received(page_views.snapshot(live, eye))


def list_grants(live: Live, eye: int | None = None, **which: Any) -> Any:
    return as_received(page_views.list_grants(live, eye, **which))


def timeline(live: Live, eye: int | None = None) -> Any:
    return as_received(page_views.timeline(live, eye, 0.0, 1e9))


_STEP = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from([ANN, BEN]), st.integers(1, 250), st.sampled_from([None, 60.0, 400.0])),
    st.tuples(st.just("release"), st.integers(1, 12)),
    st.tuples(st.just("drain"), st.sampled_from(["a", "b", "a/x", "b/y", "c"]), st.booleans()),
    st.tuples(st.just("node"), st.sampled_from(["a", "b", "c"]), st.sampled_from([("x",), ("x", "y"), ("y", "z")])),
    st.tuples(st.just("silent"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("lost"), st.integers(1, 12)),
    st.tuples(st.just("work")),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 60.0, 700.0])),
)


def _do(world: PageWorld, step: Any) -> None:
    kind, *rest = step
    try:
        if kind == "ask":
            uid, size, later = rest
            world.ask(uid, size, start=None if later is None else world.now + later)
        elif kind == "release":
            world.do(co.Release(caller=co.SERVICE, grant=f"{rest[0]:032x}"))
        elif kind == "drain":
            command = co.Drain if rest[1] else co.Undrain
            world.do(command(caller=co.SERVICE, what=rest[0]))
        elif kind == "node":
            world.node(rest[0], *rest[1])
        elif kind == "silent":
            world.do(co.Silent(caller=co.SERVICE, node=rest[0]))
        elif kind == "lost":
            _lose(world, f"{rest[0]:032x}.0")
        elif kind == "work":
            world.carry_out()
        else:
            world.now += rest[0]
            world.do(co.Tick(caller=co.SERVICE))
    except ForebayError:
        pass  # there is no such grant, node or disk now


def _lose(world: PageWorld, name: str) -> None:
    volume = world.live.control.tables.volumes.get(name)
    if volume is not None and volume.state is VolumeState.MADE:
        caller = co.Caller(role="agent", node=volume.node)
        world.do(co.Lost(caller=caller, volume=name, because="it broke"))


@settings(max_examples=examples(60), deadline=None)
@given(steps=st.lists(_STEP, max_size=25), cuts=st.sets(st.integers(0, 24)), eye=st.sampled_from([None, ANN]),
       twice=st.booleans())  # fmt: skip
def test_frames_after_a_snapshot_give_the_next_snapshot(
    steps: list[Any], cuts: set[int], eye: int | None, twice: bool
) -> None:
    world = PageWorld()
    world.node("a", "x", "y", fields={"tier": "nvme"})
    client, seen = Client(snapshot(world.live, eye)), world.live.last
    begin, sent, tally = seen, [], page_views.Tally(world.live)
    for at, step in enumerate([*steps, ("work",)]):
        _do(world, step)
        if at in cuts or at == len(steps):
            sent.append(told(page_frames.frame(world.live, eye, seen)))
            what = page_frames.find_changes(world.live, seen)
            assert what is not None
            tally.follow(world.live, what.names)
            assert +tally.counted == page_views.Tally(world.live).counted
            seen = world.live.last
    for frame in sent:
        client.take(frame)
        if twice:
            client.take(frame)
    last = snapshot(world.live, eye)
    assert list(client.nodes.values()) == last["nodes"]
    assert client.head == {name: last[name] for name in client.head}
    lines = page_views.feed(world.live, reversed(page_views.entries_after(world.live, begin) or ()), eye, 10**6)
    if all(frame["whole"] for frame in sent):
        assert client.lines == sorted(line["n"] for line in lines)


@settings(max_examples=examples(40), deadline=None)
@given(steps=st.lists(_STEP, max_size=25), eye=st.sampled_from([None, ANN]))
def test_lists_have_what_the_eye_may_see_and_no_more(steps: list[Any], eye: int | None) -> None:
    world = PageWorld()
    world.node("a", "x", "y")
    for step in steps:
        _do(world, step)
    grants = [g for g in world.live.control.tables.grants.values() if eye is None or g.ask.uid == eye]
    found = list_grants(world.live, eye, limit=10_000)
    assert sorted(row["id"] for row in found["rows"]) == sorted(g.id for g in grants) and found["total"] == len(grants)
    assert [row["order"] for row in found["rows"]] == sorted((g.order for g in grants), reverse=True)
    half = list_grants(world.live, eye, offset=3, limit=4)
    assert half["rows"] == found["rows"][3:7] and half["total"] == len(grants)
    queued = list_grants(world.live, eye, state="queued")["rows"]
    assert [row["position"] for row in queued] == sorted(row["position"] for row in queued)
    assert sorted(timeline(world.live, eye)["id"]) == sorted(g.id for g in grants)
    assert sum(snapshot(world.live, eye)["totals"]["states"].values()) == len(grants)


@settings(max_examples=examples(40), deadline=None)
@given(steps=st.lists(_STEP, max_size=25))
def test_a_disks_fill_is_the_same_alone_and_among_all_and_is_what_is_held(steps: list[Any]) -> None:
    world = PageWorld()
    world.node("a", "x", "y")
    for step in steps:
        _do(world, step)
    tables, all_of_them = world.live.control.tables, fills(world.live)
    assert {key: fills(world.live, [key])[key] for key in tables.disks} == all_of_them
    for key, full in all_of_them.items():
        holds = [hold for hold in tables.space.holds.values() if hold.disk == key]
        assert (full["used"] + full["planned"], full["volumes"]) == (sum(hold.size for hold in holds), len(holds))
    assert {key: full["used"] for key, full in all_of_them.items()} == used_bytes(world.live.control)


def test_a_grant_that_ended_and_was_forgotten_within_one_frame_leaves_its_disk_free() -> None:
    world = PageWorld()
    world.node("a", "x")
    world.ask(ANN, 50)
    world.carry_out()
    client, seen = Client(snapshot(world.live, None)), world.live.last
    world.release(1)
    world.carry_out()
    world.now += 700.0
    world.do(co.Tick(caller=co.SERVICE))
    frame = told(page_frames.frame(world.live, None, seen))
    client.take(frame)
    assert frame["forgotten"] == [f"{1:032x}"] and client.nodes["a"]["disks"][0]["volumes"] == 0


def test_what_is_too_long_ago_or_not_yet_is_asked_anew() -> None:
    world = PageWorld()
    world.node("a", "x")
    for after in (world.live.last + 1, -1):
        assert page_frames.frame(world.live, None, after).startswith(f"id: {world.live.last}\nevent: reset\n")
    world.live.recent.clear()
    assert "event: reset" in page_frames.frame(world.live, None, 0)
    assert told(page_frames.frame(world.live, None, world.live.last))["lines"] == []


def test_a_user_reads_nothing_of_others_grants() -> None:
    world = PageWorld()
    world.node("a", "x")
    begin = world.live.last
    world.ask(BEN, 50, job="secret")
    found = told(page_frames.frame(world.live, ANN, begin))
    assert "secret" not in json.dumps(found) and found["grants"] == [] and found["disks"]["a/x"]["volumes"] == 1
    own = told(page_frames.frame(world.live, BEN, begin))
    assert [row["job"] for row in own["grants"]] == ["secret"]


def test_a_decision_tells_its_policy_what_was_asked_and_why() -> None:
    world = PageWorld()
    world.node("a", "x")
    world.ask(ANN, 5000, job="77")
    line = page_views.feed(world.live, reversed(world.live.recent), None, 1)[0]
    assert (line["kind"], line["policy"], line["size"], line["job"], line["owner"]) == (
        "TurnedDown", "forebay", 5000, "77", str(ANN),
    )  # fmt: skip
    assert line["text"].startswith("refused: ") and "less than 5.00 kB" in line["text"]


def test_filters_find_by_state_owner_disk_and_words() -> None:
    world = PageWorld()
    world.node("a", "x", "y")
    world.node("b", "z")
    first, second, big = world.ask(ANN, 10, job="one"), world.ask(BEN, 10, job="two"), world.ask(BEN, 10**6)

    def ids(**which: Any) -> list[str]:
        return [row["id"] for row in list_grants(world.live, **which)["rows"]]

    assert ids(state="refused") == [big] and set(ids(state="live")) == {first, second} and ids(state="ended") == [big]
    assert ids(owner=str(ANN)) == [first] and ids(text="TW") == [second] and ids(text=first[:32]) == [first]
    on = {key: ids(disk=key) for key in ("a/x", "a/y", "b/z")}
    assert sorted(grant for grants in on.values() for grant in grants) == sorted([first, second])
    assert set(ids(disk="a")) == set(on["a/x"] + on["a/y"]) and ids(disk="nowhere") == []


def test_on_a_disk_a_grant_has_the_bytes_of_its_volumes_there() -> None:
    world = PageWorld()
    world.node("a", "x", "y")
    world.ask(ANN, 150)
    rows = {key: list_grants(world.live, disk=key)["rows"] for key in ("a/x", "a/y", "a")}
    assert sum(rows[key][0]["here"] for key in ("a/x", "a/y")) == rows["a"][0]["here"] == 150
    assert "here" not in list_grants(world.live)["rows"][0]


def test_a_grant_on_a_silent_node_is_not_plainly_ready() -> None:
    world = PageWorld()
    world.node("a", "x")
    world.node("b", "y")
    both, ended = world.ask(ANN, 110), world.ask(BEN, 10)
    world.carry_out()
    world.release(2)
    world.carry_out()

    def told() -> dict[str, tuple[str, bool, list[str]]]:
        rows = list_grants(world.live)["rows"]
        found = {row["id"]: (row["state"], row["silent"], row["marks"]) for row in rows}
        times = timeline(world.live)
        assert dict(zip(times["id"], times["silent"], strict=True)) == {name: each[1] for name, each in found.items()}
        return found

    assert told() == {both: ("ready", False, []), ended: ("released", False, [])}
    world.do(co.Silent(caller=co.SERVICE, node="b"))
    assert told() == {both: ("ready", True, ["node b does not answer"]), ended: ("released", False, [])}


def test_agents_have_no_eye() -> None:
    with pytest.raises(NotAllowed):
        page_views.eye_of(Who(role="agent", node="a"))
    assert page_views.eye_of(Who(role="administrator")) is None and page_views.eye_of(Who(role="user", uid=5)) == 5
