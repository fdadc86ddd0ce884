"""MUNGE for real: a daemon with its own key, a service with TLS, and credentials that are good for one call each."""

import os
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from forebay.act.control.auth import munge
from forebay.act.control.auth.munge import call_line, credential
from forebay.act.control.client import Client, TurnedAway, parse_service
from support.certificates import certificate
from support.control import GB, Running, running
from support.munge import made, munged

SOMEBODY = 23456
ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")


@dataclass
class World:
    service: Running
    socket: Path
    authority: Path

    def call(self, shown: str, method: str = "GET", path: str = "/v1/grants", body: bytes = b"") -> httpx.Response:
        trust = ssl.create_default_context(cafile=str(self.authority))
        headers = {"Authorization": f"MUNGE {shown}", "Content-Type": "application/json"}
        with httpx.Client(base_url=self.service.addresses[1], verify=trust, timeout=60) as client:
            return client.request(method, path, content=body, headers=headers)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="fb-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        own, key = certificate(folder)
        with (
            munged(folder / "munge") as socket,
            running(folder, listen="127.0.0.1:0", certificate=own, key=key, munge=socket) as service,
        ):
            service.hello()
            yield World(service, socket, own)


LOOK = call_line("GET", "/v1/grants", b"")


@ROOT
def test_somebody_is_who_munge_says(world: World) -> None:
    body = b'{"size": 1000, "seconds": 60}'
    shown = made(call_line("POST", "/v1/grants", body), world.socket, uid=SOMEBODY)
    found = world.call(shown, "POST", "/v1/grants", body)
    assert (found.status_code, found.json()["uid"], found.json()["gid"]) == (201, SOMEBODY, SOMEBODY)
    shown = made(call_line("GET", "/v1/journal", b""), world.socket, uid=SOMEBODY)
    assert world.call(shown, path="/v1/journal").status_code == 403


@ROOT
def test_root_is_an_administrator_but_speaks_for_no_node(world: World) -> None:
    shown = credential(call_line("GET", "/v1/journal?limit=3", b""), world.socket)
    assert world.call(shown, path="/v1/journal?limit=3").status_code == 200
    path = "/v1/nodes/n/actions?seconds=0"
    assert world.call(credential(call_line("GET", path, b""), world.socket), path=path).status_code == 403


def test_a_credential_is_good_once(world: World) -> None:
    shown = credential(LOOK, world.socket)
    assert world.call(shown).status_code == 200
    again = world.call(shown)
    assert (again.status_code, again.json()) == (
        401,
        {"error": "MUNGE says: replayed credential", "code": "bad-credential"},
    )


@pytest.mark.parametrize(
    "words", ["", "hello", call_line("GET", "/v1/nodes", b""), call_line("GET", "/v1/grants", b"x")]
)
def test_a_credential_for_something_else_is_not_accepted(world: World, words: str) -> None:
    """Others that take credentials can't use those that they are shown."""
    found = world.call(made(words, world.socket))
    assert (found.status_code, found.json()["error"]) == (
        401,
        "the MUNGE credential was made for another call; make one for each call",
    )


def test_a_body_that_was_changed_on_its_way_is_not_accepted(world: World) -> None:
    shown = credential(call_line("POST", "/v1/grants", b'{"size": 1000, "seconds": 60}'), world.socket)
    assert world.call(shown, "POST", "/v1/grants", b'{"size": 9000, "seconds": 60}').status_code == 401


def test_a_credential_of_another_key_is_not_accepted(world: World, tmp_path: Path) -> None:
    with munged(tmp_path / "foreign") as foreign:
        found = world.call(credential(LOOK, foreign))
    assert (found.status_code, found.json()["error"]) == (401, "MUNGE says: invalid credential")


def test_an_old_credential_is_not_accepted(world: World) -> None:
    shown, begin = made(LOOK, world.socket, ttl=1), time.time()
    while time.time() < begin + 3:
        time.sleep(0.1)
    found = world.call(shown)
    assert (found.status_code, found.json()["error"]) == (401, "MUNGE says: expired credential")


@pytest.mark.parametrize("shown", ["x", "MUNGE:", "MUNGE:abc:", "MUNGE:A$(id):", "MUNGE:" + "A" * 9000 + ":"])
def test_what_is_no_credential_is_not_accepted(world: World, shown: str) -> None:
    found = world.call(shown)
    assert found.status_code == 401
    assert "MUNGE" in found.json()["error"]


def test_a_client_without_a_token_calls_by_munge(world: World) -> None:
    address = parse_service(world.service.addresses[1])
    with Client(address, authority=world.authority, munge=world.socket, patience=0) as client:
        grant = client.request(GB, 60, job="a b & c")
        assert (grant["uid"], grant["job"]) == (os.getuid(), "a b & c")
        assert grant["id"] in [one["id"] for one in client.grants(state=grant["state"], owner=str(os.getuid()))]
        assert client.wait(grant["id"], 0.0)["id"] == grant["id"]
        assert client.release(grant["id"])["id"] == grant["id"]


def test_a_client_whose_daemon_is_away_says_so(world: World, tmp_path: Path) -> None:
    address = parse_service(world.service.addresses[1])
    nowhere = Client(address, authority=world.authority, munge=tmp_path / "nowhere", patience=0)
    with nowhere as client:
        assert client.health()["status"] == "ready"
        with pytest.raises(TurnedAway, match=r"authentication required: .* \(MUNGE says: socket communication error\)"):
            client.request(GB, 60)


def test_no_credential_is_in_the_log_or_a_list_of_processes(world: World) -> None:
    shown = credential(LOOK, world.socket)
    world.call(shown)
    world.call(shown)
    assert shown not in world.service.log.getvalue()
    assert (
        "MUNGE:" not in subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, timeout=60).stdout
    )


def test_without_munge_there_are_tokens(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(munge, "_library", lambda: None)
    found = world.call("MUNGE:Z29vZA==:")
    assert (found.status_code, found.json()["error"]) == (401, "MUNGE is not installed here; use a token")
    file = tmp_path / "token"
    file.write_text(world.service.token("mine", "user", uid=1000))
    file.chmod(0o600)
    address = parse_service(world.service.addresses[1])
    with Client(address, authority=world.authority, token=file) as client:
        assert client.request(GB, 60)["uid"] == 1000
    with (
        Client(address, authority=world.authority) as client,
        pytest.raises(TurnedAway, match="authentication required"),
    ):
        client.request(GB, 60)
