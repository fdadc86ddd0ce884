"""Keys of exposed volumes: who is told, and where they are not."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forebay.act.control.auth.volume_keys import Keys, public
from support.control import DISK, GB, Running, running

OLD = "0123456789abcdef" * 4
"""What an agent of an early version tells."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as found:
        yield found


def exposed(service: Running, **who: Any) -> dict[str, Any]:
    """A ready grant on a disk whose volumes are exposed by nbd, made by an agent that tells the key."""
    disk = {"name": "d", **DISK, "fields": {"expose": "nbd"}}
    service.call("POST", "/v1/nodes/n/hello", {"disks": [disk], "volumes": [], "number": 1})
    grant: dict[str, Any] = service.ask(GB, expose="nbd", hosts=["c1"], **who)
    [action] = service.actions()
    settings = {"uri": "nbds://c1", "port": "10809", "key": OLD}
    made = {"kind": "made", "volume": action["volume"], "number": 2, "settings": settings}
    service.call("POST", "/v1/nodes/n/reports", [made])
    return {**grant, "key": action["key"]}


def test_its_owner_and_its_agent_are_told_the_same_key(service: Running) -> None:
    mine = service.token("mine", "user", uid=1000)
    grant = exposed(service, token=mine)
    assert len(grant["key"]) == 64
    for path in ("", "/wait?seconds=0&known=asked"):
        told = service.call("GET", f"/v1/grants/{grant['id']}{path}", token=mine)
        assert told["volumes"][0]["settings"] == {"uri": "nbds://c1", "port": "10809", "key": grant["key"]}
    assert service.grant(grant["id"])["volumes"][0]["settings"]["key"] == grant["key"]  # an administrator


def test_there_is_no_key_anywhere_else(service: Running, tmp_path: Path) -> None:
    mine, other = service.token("mine", "user", uid=1000), service.token("other", "user", uid=1001)
    agent = service.token("agent", "agent", node="n")
    grant = exposed(service, token=mine)
    service.call("POST", f"/v1/grants/{grant['id']}/used", token=mine)
    said = [
        service.call("GET", "/v1/journal"),
        service.call("GET", "/v1/grants"),
        service.call("GET", "/v1/grants", token=mine),
        service.call("GET", f"/v1/grants/{grant['id']}/story", token=mine),
        service.call("GET", f"/v1/grants/{grant['id']}", token=agent),
        service.call("GET", "/v1/nodes"),
        service.error("GET", f"/v1/grants/{grant['id']}", token=other, status=403),
        [followed(service, token) for token in ("", mine, other)],
        service.log.getvalue(),
    ]
    assert "VolumeMade" in json.dumps(said)
    for key in (OLD, grant["key"]):
        assert key not in json.dumps(said)
        assert not any(key.encode() in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


def followed(service: Running, token: str) -> list[str]:
    """All that the stream of events has for somebody."""
    with service.client(token) as client, client.stream("GET", "/v1/events?after=0&seconds=0") as stream:
        return [line for line in stream.iter_lines() if line.startswith("data: ")]


def test_a_user_follows_only_what_happens_to_grants_of_their_own(service: Running) -> None:
    mine, other = service.token("mine", "user", uid=1000), service.token("other", "user", uid=1001)
    agent = service.token("agent", "agent", node="n")
    service.hello()
    own, theirs = service.ask(token=mine)["id"], service.ask(token=other)["id"]
    service.carry_out()
    heard = followed(service, mine)
    assert heard
    assert all(own in line and theirs not in line for line in heard)
    assert all(theirs in line and own not in line for line in followed(service, other))
    assert followed(service, agent) == []
    assert len(followed(service, "")) > len(heard) + len(followed(service, other))


def test_keys_outlive_a_restart_and_differ_from_volume_to_volume(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        grant = exposed(service)
    with running(tmp_path) as service:
        assert service.grant(grant["id"])["volumes"][0]["settings"]["key"] == grant["key"]
    keys = Keys("ab" * 32)
    assert len({keys.of("nbd", "a.0"), keys.of("nbd", "a.1"), Keys("ac" * 32).of("nbd", "a.0")}) == 3


def test_all_volumes_of_a_shared_file_system_have_one_key() -> None:
    keys = Keys("ab" * 32)
    assert keys.of("shared", "a.0") == keys.of("shared", "a.1") != keys.of("shared", "b.0")


def test_keys_in_journals_of_early_versions_are_not_told() -> None:
    line = '{"kind":"VolumeMade","settings":{"key":"secret","port":"1"},"volume":"x"}'
    assert json.loads(public(line)) == {"kind": "VolumeMade", "settings": {"port": "1"}, "volume": "x"}
    asked = '{"kind":"Asked","ask":{"key":"mine","wants":{"settings":"x"}}}'
    assert public(asked) == asked


def test_the_journal_is_nobody_elses_to_read(tmp_path: Path) -> None:
    db = tmp_path / "journal.db"
    with running(tmp_path):
        pass
    assert db.stat().st_mode & 0o777 == 0o600
    db.chmod(0o644)
    with running(tmp_path):
        assert db.stat().st_mode & 0o777 == 0o600


def test_an_agent_tells_nothing_into_stories_of_grants_on_other_nodes(service: Running) -> None:
    service.hello("n")
    grant = service.ask()["id"]
    service.hello("m", number=1)
    line = {"time": 1.0, "grant": grant, "text": "all is fine"}
    assert service.call("POST", "/v1/nodes/m/log", [line]) == {"done": 0}
    assert service.call("POST", "/v1/nodes/n/log", [line]) == {"done": 1}
    story = service.call("GET", f"/v1/grants/{grant}/story")["story"]
    assert [one["node"] for one in story if one["what"] == "log"] == ["n"]
