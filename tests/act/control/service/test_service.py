"""What users, agents and administrators see of a running service."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from forebay.act.control.service.node_liveness import NodeLiveness
from forebay.decide.grants.codec import from_line
from forebay.decide.grants.grant_limits import GrantRules
from forebay.history.store import open_store
from forebay.history.store.journal import read_after
from support.control import DISK, GB, Running, running
from support.grants import digest_of, fold


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as found:
        yield found


def test_a_grant_lives_from_the_asking_to_the_release(service: Running) -> None:
    service.hello()
    asked = service.ask("10 GB", "2h", job="42")
    assert (asked["state"], asked["size"], asked["seconds"]) == ("making", 10 * GB, 7200)
    (action,) = service.actions()
    assert (action["kind"], action["disk"], action["size"]) == ("make", "d", 10 * GB)
    service.carry_out()
    ready = service.grant(asked["id"])
    assert (ready["state"], ready["paths"]) == ("ready", [f"/fast/{asked['id']}.0"])
    assert service.call("POST", f"/v1/grants/{asked['id']}/used")["state"] == "in-use"
    assert service.call("POST", f"/v1/grants/{asked['id']}/release", {})["state"] == "releasing"
    service.carry_out(number=3)
    assert service.grant(asked["id"])["state"] == "released"
    assert service.actions() == []


def test_the_same_key_is_granted_once(service: Running) -> None:
    service.hello()
    first = service.ask(key="once")
    assert service.ask(key="once", status=200)["id"] == first["id"]
    assert len(service.call("GET", "/v1/grants")["grants"]) == 1
    words = service.error("POST", "/v1/grants", {"size": 2 * GB, "seconds": 600, "key": "once"}, status=409)
    assert "already used for another request" in words


def test_space_is_where_it_can_be_reached_by_the_means_asked_for(service: Running) -> None:
    early = service.ask(key="early")
    disks = [{"name": how, **DISK, "fields": {"expose": how}} for how in ("nbd", "none")]
    service.call("POST", "/v1/nodes/n/hello", {"disks": disks, "volumes": [], "number": 1})
    for expose, disk in (("", "none"), ("none", "none"), ("nbd", "nbd")):
        grants = [service.ask(expose=expose) for _ in range(6)]
        assert {volume["disk"] for grant in grants for volume in grant["volumes"]} == {disk}
    assert "expose" in service.ask(expose="nvmet")["because"]
    assert service.ask(key="early", status=200)["id"] == early["id"]


def test_what_it_keeps_nobody_else_may_read(service: Running, tmp_path: Path) -> None:
    service.hello()
    service.ask()
    kept = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("journal.db*")}
    assert "journal.db" in kept
    assert set(kept.values()) == {0o600}


def test_a_start_in_so_long_is_the_same_request_when_it_is_sent_again(service: Running) -> None:
    service.hello()
    first = service.ask(start="1h", key="later")
    assert first["state"] == "granted"
    assert service.ask(start="1h", key="later", status=200)["start"] == first["start"]


def test_what_does_not_fit_now_waits_and_what_never_fits_is_refused_with_the_reason(service: Running) -> None:
    service.hello()
    service.ask(90 * GB)
    second, third = service.ask(50 * GB), service.ask(60 * GB)
    assert [(g["state"], g["position"]) for g in (second, third)] == [("queued", 1), ("queued", 2)]
    assert "no room for 50.00 GB" in second["because"]
    never = service.ask("200 GB")
    assert never["state"] == "refused"
    assert "the largest disk has 100.00 GB" in never["because"]


def test_those_who_wait_hear_of_a_change(service: Running) -> None:
    service.hello()
    first, second = service.ask(90 * GB), service.ask(90 * GB)
    service.carry_out()
    answers = []
    path = f"/v1/grants/{second['id']}/wait?seconds=50&known=queued"
    waiting = threading.Thread(target=lambda: answers.append(service.call("GET", path)))
    waiting.start()
    service.call("POST", f"/v1/grants/{first['id']}/release", {})
    service.carry_out(number=3)
    waiting.join(60)
    assert answers[0]["state"] == "making"


def test_an_agent_hears_of_what_it_is_to_do(service: Running) -> None:
    service.hello()
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(service.actions(seconds=50)))
    waiting.start()
    asked = service.ask()
    waiting.join(60)
    assert [action["volume"] for action in answers[0]] == [f"{asked['id']}.0"]


def test_a_node_that_is_not_heard_of_is_silent_until_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("forebay.act.control.service.service.NodeLiveness", partial(NodeLiveness, clock=lambda: now[0]))
    with running(tmp_path, silent=0.4) as service:
        service.hello()
        asked = service.ask()
        now[0] += 1
        _until(service, "NodeSilent")
        assert service.call("GET", "/v1/health")["silent"] == 1
        assert service.grant(asked["id"])["marks"] == ["node n does not answer"]
        assert service.ask()["state"] == "queued"
        service.actions()
        assert service.call("GET", "/v1/health")["silent"] == 0
        told = [one["what"] for one in service.call("GET", f"/v1/grants/{asked['id']}/story")["story"]]
        assert "Told" in told


def _until(service: Running, kind: str) -> dict[str, object]:
    """Follow the events until one of that kind."""
    with service.client() as client, client.stream("GET", "/v1/events?after=0&seconds=50") as answer:
        for line in answer.iter_lines():
            if line.startswith("data: ") and json.loads(line[6:])["kind"] == kind:
                found: dict[str, object] = json.loads(line[6:])
                return found
    raise AssertionError(f"no {kind}")


def test_a_grant_ends_when_its_time_is_over(service: Running) -> None:
    service.hello()
    asked = service.ask(seconds=1)
    service.carry_out()
    _until(service, "Releasing")
    service.carry_out(number=3)
    assert service.grant(asked["id"])["state"] == "expired"


def test_an_extension_that_can_not_be_is_refused_and_changes_nothing(service: Running) -> None:
    service.hello()
    asked = service.ask()
    assert (
        service.call("POST", f"/v1/grants/{asked['id']}/extend", {"seconds": "10min"})["until"] == asked["until"] + 600
    )
    words = service.error("POST", f"/v1/grants/{asked['id']}/extend", {"seconds": "40d"}, status=409)
    assert words == "cannot extend: a grant lasts at most 30 d in all"
    assert service.grant(asked["id"])["until"] == asked["until"] + 600


def test_what_is_drained_gets_nothing_new(service: Running) -> None:
    service.hello("n", "a", "b")
    service.call("POST", "/v1/nodes/n/drain", {"disk": "a"})
    assert [service.ask()["volumes"][0]["disk"] for _ in range(3)] == ["b"] * 3
    service.call("POST", "/v1/nodes/n/drain")
    assert "drained" in service.ask()["because"]
    service.call("POST", "/v1/nodes/n/undrain")
    assert service.ask()["state"] == "making"


def test_a_split_grant_is_several_volumes(service: Running) -> None:
    service.hello("n", "a", "b", "c")
    service.call("PUT", "/v1/rules", {"split": "50 GB", "tries": 0})
    asked = service.ask("120 GB")
    sizes = [volume["size"] for volume in asked["volumes"]]
    assert (len(sizes), sum(sizes), max(sizes) <= 50 * GB) == (3, 120 * GB, True)
    assert service.ask("250 GB")["state"] == "refused", "all or nothing"
    service.carry_out()
    assert len(service.grant(asked["id"])["paths"]) == 3


def test_the_policy_is_changed_without_a_restart(service: Running) -> None:
    service.hello()
    assert service.call("PUT", "/v1/policy", {"policy": "worst-fit"}) == {"policy": "worst-fit"}
    assert service.ask()["policy"] == "worst-fit"
    assert "did you mean 'worst-fit'" in service.error("PUT", "/v1/policy", {"policy": "worst-fat"}, status=404)


def test_a_new_journal_has_the_policy_and_the_rules_of_the_file(tmp_path: Path) -> None:
    rules = GrantRules(interval=7.0)
    with running(tmp_path, policy="worst-fit", rules=rules) as service:
        assert service.call("GET", "/v1/policy")["policy"] == "worst-fit"
        assert service.call("GET", "/v1/rules")["interval"] == 7
        service.call("PUT", "/v1/rules", {"interval": 9})
    with running(tmp_path, rules=rules, shadow=True) as service:  # what was changed since stays, whatever else changes
        told = service.call("GET", "/v1/rules")
        assert (service.call("GET", "/v1/policy")["policy"], told["interval"]) == ("worst-fit", 9)
        assert service.call("GET", "/v1/health")["mode"] == "shadow"


def test_in_shadow_everything_is_decided_and_nothing_is_to_be_done(tmp_path: Path) -> None:
    with running(tmp_path, shadow=True) as service:
        service.hello()
        assert service.call("GET", "/v1/health")["mode"] == "shadow"
        asked = service.ask()
        assert asked["state"] == "ready"
        assert service.actions() == []
        assert service.call("POST", f"/v1/grants/{asked['id']}/release")["state"] == "released"


def test_one_place_tells_the_story_of_a_grant(service: Running) -> None:
    service.hello()
    asked = service.ask()
    lines = [{"time": asked["created"] + 0.001, "level": "info", "grant": asked["id"], "text": "mkfs took 1 s"}]
    service.call("POST", "/v1/nodes/n/log", lines)
    service.carry_out()
    story = service.call("GET", f"/v1/grants/{asked['id']}/story")["story"]
    assert [one["what"] for one in story] == ["Asked", "Granted", "Making", "log", "VolumeMade", "Ready"]
    assert (story[3]["node"], story[3]["text"]) == ("n", "mkfs took 1 s")


def test_every_decision_is_a_line_of_the_log_with_its_reason(service: Running) -> None:
    service.hello()
    asked, refused = service.ask(job="7"), service.ask("1 TB")
    granted = next(line for line in service.lines if line["event"] == "Granted")
    assert (granted["grant"], granted["job"], granted["because"]) == (asked["id"], "7", "n/d by forebay")
    down = next(line for line in service.lines if line["event"] == "TurnedDown")
    assert (down["grant"], down["because"]) == (refused["id"], refused["because"])


def test_events_go_on_where_they_stopped(service: Running) -> None:
    service.hello()
    service.ask()
    with service.client() as client:
        first = client.get("/v1/events?after=0&seconds=0").text
        numbers = [int(line[4:]) for line in first.splitlines() if line.startswith("id: ")]
        assert numbers == list(range(1, service.call("GET", "/v1/health")["journal"] + 1))
        rest = client.get("/v1/events?seconds=0", headers={"Last-Event-ID": str(numbers[2])}).text
    assert [int(line[4:]) for line in rest.splitlines() if line.startswith("id: ")] == numbers[3:]


def test_the_journal_leads_to_the_state_that_callers_see(service: Running) -> None:
    service.hello("n", "a", "b")
    grants = [service.ask(10 * GB) for _ in range(5)]
    service.carry_out()
    service.call("POST", f"/v1/grants/{grants[0]['id']}/release", {})
    found = service.call("GET", "/v1/journal?limit=10000")["events"]
    control = fold(from_line(json.dumps(one["event"])) for one in found)
    seen = {one["id"]: one["state"] for one in service.call("GET", "/v1/grants")["grants"]}
    assert {name: grant.state.value for name, grant in control.tables.grants.items()} == seen
    assert [one["number"] for one in found] == list(range(1, len(found) + 1))


def test_lists_are_told_in_pages_and_by_state_and_node(service: Running) -> None:
    service.hello("n")
    service.hello("m")
    grants = [service.ask()["id"] for _ in range(6)]
    first = service.call("GET", "/v1/grants?limit=4")
    assert ([one["id"] for one in first["grants"]], first["more"]) == (grants[:4], True)
    rest = service.call("GET", f"/v1/grants?limit=4&after={grants[3]}")
    assert ([one["id"] for one in rest["grants"]], rest["more"]) == (grants[4:], False)
    per_node = [len(service.call("GET", f"/v1/grants?node={node}")["grants"]) for node in "nm"]
    assert sum(per_node) == 6
    assert service.call("GET", "/v1/grants?state=released")["grants"] == []


def test_numbers_for_prometheus(service: Running) -> None:
    service.hello()
    service.ask(5 * GB)
    with service.client() as client:
        lines = client.get("/metrics").text.splitlines()
    assert 'forebay_grants{state="making"} 1.0' in lines
    assert f'forebay_tier_used_bytes{{tier="none"}} {5.0 * GB}' in lines
    assert any(line.startswith("forebay_decision_seconds_count") for line in lines)


def test_a_restart_finds_everything_as_it_was(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        service.hello()
        asked = [service.ask(key=str(number)) for number in range(4)]
        before = service.call("GET", "/v1/grants")
    with running(tmp_path) as service:
        assert service.call("GET", "/v1/grants") == before
        assert service.ask(key="2", status=200)["id"] == asked[2]["id"]


def test_a_start_from_a_checkpoint_is_the_same_as_from_the_whole_journal(tmp_path: Path) -> None:
    with running(tmp_path, checkpoint=5) as service:
        service.hello()
        for number in range(20):
            service.ask(key=str(number))
        seen = service.call("GET", "/v1/grants")
    with open_store(str(tmp_path / "journal.db")) as store, store.open_reader() as connection:
        from forebay.act.control.service.live_state import load

        live = load(store)
        whole = fold(from_line(entry.line) for entry in read_after(connection, 0))
        assert digest_of(live.control) == digest_of(whole)
        assert live.recent.maxlen is not None and len(live.recent) < live.last, "it was read from the beginning"
    with running(tmp_path) as service:
        assert service.call("GET", "/v1/grants") == seen
