"""What the service tells Prometheus: right, bounded, and the same from whoever follows the journal."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as read

from forebay.act.control.errors import Unavailable
from forebay.act.control.service import metrics as nb
from forebay.act.control.service.journal_writer import Writer
from forebay.act.control.service.node_liveness import NodeLiveness
from forebay.act.control.service.settings import Limits
from forebay.act.metrics import Metric
from forebay.decide.grants import commands as co
from forebay.decide.grants import events as ev
from forebay.decide.grants.control import Control
from forebay.decide.grants.grant_limits import GrantRules
from forebay.history.store import open_store
from forebay.model.reasons import REFUSALS, Reason
from generate.metrics import PARTS
from support.control import GB, Running, running
from support.grants import USER, agent, ask, disk
from support.metrics import values_of
from support.page_world import PageWorld
from support.processes import wait_until
from support.stores import PostgreSQL

Numbers = dict[tuple[str, ...], float]
"""By name and labels' values."""


def shown(service: Running, token: str = "") -> Numbers:
    with service.client(token) as client:
        answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return {
        (one.name, *(one.labels[name] for name in one.labels)): one.value
        for family in read(answer.text)
        for one in family.samples
    }


def of_world(world: PageWorld) -> Numbers:
    live, now = world.live, world.now
    return values_of((*nb.grant_numbers(live, now), *nb.event_numbers(live), *nb.machine_numbers(live, now)))


def test_what_is_shown_is_declared_and_what_is_declared_is_shown(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        service.hello("n", "d", fields={"tier": "nvme"})
        service.ask(5 * GB)
        with service.client() as client:
            families = list(read(client.get("/metrics").text))
            again = list(read(client.get("/metrics").text))
    declared = {metric.name: metric for metric in PARTS["service"]}
    assert {family.name for family in again} == set(declared)
    for family in families:
        metric = declared[family.name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        assert {frozenset(one.labels) - {"le"} for one in family.samples} == {frozenset(metric.labels)}


@pytest.mark.parametrize("part", PARTS)
def test_names_and_words_are_as_prometheus_has_them(part: str) -> None:
    names = [metric.full_name for metric in PARTS[part]]
    assert len(names) == len(set(names))
    for metric in PARTS[part]:
        assert metric.name.startswith("forebay_") and metric.help.endswith(".")
        assert metric.full_name.endswith("_total") == (metric.kind == "counter")


def test_a_number_has_a_value_for_each_label() -> None:
    with pytest.raises(ValueError):
        Metric("forebay_x", "X.", ("a", "b")).number(1, "only one")


def test_the_machine_by_tier_disk_and_node() -> None:
    world = PageWorld()
    world.node("n", "a", "b", fields={"tier": "nvme"})
    world.node("m", "c")
    world.ask(1001, 40)
    world.ask(1001, 50, start=world.now + 10)
    world.drain("m")
    found = of_world(world)
    sizes = [found[f"forebay_tier_{what}_bytes", "nvme"] for what in ("capacity", "used", "promised")]
    none = [found[f"forebay_tier_{what}_bytes", "none"] for what in ("capacity", "free")]
    assert sizes[0] == 200 and sum(sizes[1:]) <= 90
    assert none == [100, 0], "what is drained can't be given"
    assert found["forebay_node_drained", "m"] == found["forebay_disk_drained", "m", "c", "none"] == 1
    used = sum(value for key, value in found.items() if key[0] == "forebay_disk_used_bytes")
    assert used == 40
    tiers = ("nvme", "none")
    assert (
        sum(found["forebay_tier_used_bytes", tier] + found["forebay_tier_promised_bytes", tier] for tier in tiers) == 90
    )


def test_a_disk_that_is_gone_counts_no_more() -> None:
    world = PageWorld()
    world.node("n", "a", "b")
    world.node("n", "a")
    found = of_world(world)
    assert (found["forebay_disk_there", "n", "a", "none"], found["forebay_disk_there", "n", "b", "none"]) == (1, 0)
    assert found["forebay_tier_capacity_bytes", "none"] == found["forebay_tier_free_bytes", "none"] == 100
    assert found["forebay_disks_vanished",] == 1


def test_the_oldest_in_each_state() -> None:
    world = PageWorld()
    world.node("n", "a")
    for size in (60, 60):
        world.ask(1001, size, seconds=1000.0)
        world.now += 5
    found = of_world(world)
    assert found["forebay_grants_oldest_seconds", "making"] == 10
    assert found["forebay_grants_oldest_seconds", "queued"] == 5
    world.carry_out()
    world.release(1)
    world.now += 7
    found = of_world(world)
    assert found["forebay_grants_oldest_seconds", "making"] == 0
    assert found["forebay_grants_oldest_seconds", "releasing"] == 7
    assert found["forebay_grants_oldest_seconds", "queued"] == 12, "that it was tried again makes it no younger"


def test_ends_and_refusals_are_counted() -> None:
    world = PageWorld()
    world.node("n", "a")
    world.ask(1001, 1000)
    world.ask(1001, 10, seconds=20.0)
    world.now += 50
    world.do(co.Tick(caller=co.SERVICE))
    world.carry_out()
    found = of_world(world)
    assert (found["forebay_requests",], found["forebay_granted",]) == (2, 1)
    assert found["forebay_refused", "too-large"] == 1
    assert (found["forebay_ended", "expired"], found["forebay_ended", "failed"]) == (1, 0)


def refused(
    disks: tuple[str, ...],
    *,
    policy: str = "forebay",
    tries: int = 0,
    drained: bool = False,
    taken: int = 10,
    size: int = 10,
    wants: dict[str, str] | None = None,
) -> ev.TurnedDown:
    """The refusal of a request on disks of 100 bytes, parts of at most 60."""
    control = Control()
    rules = GrantRules(split=60, tries=tries)
    commands: list[co.Command] = [
        co.ChangeRules(caller=co.SERVICE, rules=rules), co.ChangePolicy(caller=co.SERVICE, policy=policy),
    ]  # fmt: skip
    if disks:
        said = tuple(disk(name, 100, fields={"tier": "nvme"}) for name in disks)
        commands.append(co.Register(caller=agent("n"), node="n", network_bandwidth=1.0, disks=said, volumes=None))
    if drained:
        commands.append(co.Drain(caller=co.SERVICE, what="n"))
    commands.append(co.Request(caller=USER, ask=ask(1, taken)))
    commands.append(co.Request(caller=USER, ask=ask(2, size, wants=wants or {})))
    found = [event for command in commands for event in control.do(command, 10.0)]
    found += control.do(co.Tick(caller=co.SERVICE), 400.0)
    return next(event for event in found if isinstance(event, ev.TurnedDown) and event.grant.endswith("2"))


@pytest.mark.parametrize(
    ("kind", "turn_down"),
    [
        ("no-such-disk", lambda: refused(("a",), wants={"tier": "tape"})),
        ("no-such-disk", lambda: refused(("a",), wants={"colour": "red"})),
        ("too-large", lambda: refused(("a",), size=1000)),
        ("too-large", lambda: refused(("a",), size=700_000)),
        ("too-large", lambda: refused(("a", "b"), size=300, policy="worst-fit")),
        ("no-room", lambda: refused(("a",), taken=60, size=50)),
        ("no-room", lambda: refused(("a", "b"), taken=120, size=120)),
        ("no-room", lambda: refused(("a",), taken=60, size=50, tries=1)),
        ("closed", lambda: refused(("a",), drained=True)),
        ("closed", lambda: refused(())),
    ],
)
def test_every_refusal_is_of_a_kind(kind: str, turn_down: Callable[[], ev.TurnedDown]) -> None:
    event = turn_down()
    assert event.reason == kind
    assert event.reason in REFUSALS
    assert event.counted_as == f"TurnedDown {kind}"


def test_an_event_is_counted_under_one_of_few_names() -> None:
    old = ev.TurnedDown(at=1.0, grant="x", because="for reasons of its own")
    assert old.counted_as == replace(old, reason=Reason.OWNER).counted_as == "TurnedDown other"
    assert ev.NodeSilent(at=1.0, node="n").counted_as == "NodeSilent"


SHARED = {metric.full_name for metric in PARTS["service"] if metric.shared and metric.kind == "counter"}


def counters(service: Running) -> Numbers:
    return {key: value for key, value in shown(service).items() if key[0] in SHARED}


@pytest.mark.parametrize("checkpoint", [3, 20_000])
def test_after_a_restart_counters_go_on(tmp_path: Path, checkpoint: int) -> None:
    with running(tmp_path, checkpoint=checkpoint) as service:
        service.hello()
        for _ in range(5):
            service.ask()
        service.ask(1000 * GB)
        before = counters(service)
    assert before["forebay_requests_total",] == 6
    with running(tmp_path) as service:
        assert counters(service) == before
        service.ask()
        assert counters(service)["forebay_requests_total",] == 7


def test_two_instances_over_one_postgresql_show_the_same(postgresql: PostgreSQL, tmp_path: Path) -> None:
    db = postgresql.new_database()
    places = [tmp_path / name for name in "ab"]
    for place in places:
        place.mkdir()
    with running(places[0], db=db) as first:
        first.hello("n", "d")
        first.ask()
        with running(places[1], db=db) as second:
            second.ask()
            second.ask(1000 * GB)
            wait_until(lambda: counters(first) == counters(second), "the counters differ")
            assert counters(first)["forebay_refused_total", "too-large"] == 1
            same = {metric.full_name for metric in PARTS["service"] if metric.shared}
            same.remove("forebay_grants_oldest_seconds")
            both = [{k: v for k, v in shown(one).items() if k[0] in same} for one in (first, second)]
            assert both[0] == both[1]


def test_a_look_asks_the_store_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> tuple[int, bool]:
        with open_store(str(tmp_path / "db")) as store:
            writer = Writer(store, lambda _: None)
            await writer.start()
            await writer.do(co.ChangePolicy(caller=co.SERVICE, policy="worst-fit"))
            with monkeypatch.context() as patch:
                patch.setattr(store, "is_sqlite", False)  # as if others could write
                patch.setattr(store, "open_reader", None)
                last = (await writer.now(look=False)).last
                with pytest.raises(Unavailable):
                    await writer.now()
            await writer.stop()
            return last, writer.latest is not None

    assert asyncio.run(main()) == (1, True)


def test_a_token_for_metrics_is_good_for_nothing_else(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        service.hello()
        token = service.token("prometheus", "metrics")
        assert shown(service, token)["forebay_journal_events_total",] > 0
        before = service.call("GET", "/v1/journal")["last"]
        paths = service.call("GET", "/openapi.json")["paths"]
        tried = 0
        with service.client(token) as client:
            for path, methods in paths.items():
                for method in set(methods) - {"parameters"}:
                    if path in ("/metrics", "/v1/health", "/v1/login", "/v1/logout"):
                        continue  # for anybody, or for who has logged in
                    there = path.replace("{", "").replace("}", "")
                    answer = client.request(method, there, json={} if method in ("post", "put") else None)
                    assert answer.status_code in (400, 403), (method, path, answer.text)
                    tried += answer.status_code == 403
            asked = client.post("/v1/grants", json={"size": GB, "seconds": 60, "uid": 0, "gid": 0})
            page = client.get("/v1/page")
            login = client.post("/v1/login", json={"secret": token})
        assert [answer.status_code for answer in (asked, page, login)] == [403, 403, 403]
        assert "permits only GET /metrics" in asked.json()["error"]
        assert tried > 15
        assert service.call("GET", "/v1/journal")["last"] == before


def test_calls_are_counted_by_route_and_nobody_can_make_up_names(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        service.hello()
        for _ in range(3):
            service.grant(service.ask()["id"])
        with service.client() as client:
            for path in ("/nothing", "/v1/grants/none", "/v1/grants/nobody"):
                assert client.get(path).status_code == 404
            client.request("BREW", "/v1/nodes")
            client.get("/v1/grants", headers={"Authorization": "Bearer wrong"})
        found = {key[1:]: value for key, value in shown(service).items() if key[0] == "forebay_api_requests_total"}
    assert found["/v1/grants", "POST", "201"] == 3
    assert found["/v1/grants/{grant}", "GET", "200"] == 3
    assert found["/v1/grants/{grant}", "GET", "404"] == 2
    assert found["other", "GET", "404"] == 1
    assert found["/v1/grants", "GET", "401"] == 1
    assert {method for _, method, _ in found} <= {"GET", "POST", "other"}


def test_who_is_cut_off_is_counted(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(send=0.05)) as service, socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(service.socket))
        caller.settimeout(60)
        assert caller.recv(1) == b""
        assert shown(service)["forebay_callers_dropped_total", "slow"] == 1


def test_who_follows_the_events_is_counted(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        with service.client() as client, client.stream("GET", "/v1/events?seconds=60") as events:
            lines = events.iter_lines()
            assert next(lines) == ": forebay"
            assert shown(service)["forebay_waiting_calls", "events"] == 1
        wait_until(lambda: shown(service)["forebay_waiting_calls", "events"] == 0, "a call still waits")


def test_how_long_a_node_was_not_heard_of() -> None:
    now = [100.0]
    silence = NodeLiveness(30, clock=lambda: now[0])
    silence.note_call("n", 5.0)
    now[0] = 107.0
    assert (silence.seconds_since_call("n"), silence.seconds_since_call("new")) == (7.0, 0.0)
