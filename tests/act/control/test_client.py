"""A client over a real socket, against a service that loses and repeats answers."""

from __future__ import annotations

import json
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from forebay.act.control import client as client_module
from forebay.act.control.client import Client, ServiceAway, TurnedAway, parse_service, service_of
from forebay.act.control.connections import Address, Answer, describe_failure
from forebay.act.control.documents import GrantDocument
from forebay.act.control.errors import ErrorCode, code_of_status
from forebay.decide.grants import commands as co
from forebay.decide.grants.machine import DiskSpec
from forebay.model.errors import BadInput
from support.control_fake import Fake, served

MB = 10**6


@pytest.fixture
def fake() -> Fake:
    """One node with one disk of 100 MB."""
    made = Fake()
    disk = DiskSpec(name="d0", capacity=100 * MB, write_bandwidth=1e9, read_bandwidth=1e9)
    made.do(co.Register(caller=co.Caller(role="agent", node="n1"), node="n1", network_bandwidth=1e9, disks=(disk,)))
    return made


@pytest.fixture
def address(fake: Fake) -> Iterator[Address]:
    with tempfile.TemporaryDirectory(prefix="fb-") as folder, served(fake, Path(folder) / "s") as found:
        yield found


@pytest.fixture
def client(address: Address) -> Iterator[Client]:
    with Client(address) as made:
        yield made


def made(fake: Fake, grant: str) -> None:
    """As the agent would say."""
    caller = co.Caller(role="agent", node="n1")
    fake.do(co.Made(caller=caller, volume=f"{grant}.0", path=f"/fast/{grant}.0"))


def test_a_request_whose_answer_is_lost_is_asked_again_with_its_key_and_granted_once(
    fake: Fake, client: Client
) -> None:
    faults = iter(["lose", "503", "drop", ""])
    fake.fault = lambda *_: next(faults)
    grant = client.request(MB, 60)
    keys = {body["key"] for _, _, body in fake.calls}
    assert len(fake.calls) == 4 and len(keys) == 1
    assert list(fake.control.tables.grants) == [grant["id"]]


def test_two_requests_have_two_keys(client: Client) -> None:
    assert client.request(MB, 60)["id"] != client.request(MB, 60)["id"]


def test_the_same_key_is_the_same_request(client: Client) -> None:
    assert client.request(MB, 60, key="mine")["id"] == client.request(MB, 60, key="mine")["id"]


def test_an_extension_whose_answer_is_lost_is_sent_again_and_extends_once(fake: Fake, client: Client) -> None:
    grant = client.request(MB, 60)
    faults = iter(["lose", ""])
    fake.fault = lambda _, path: next(faults) if path.endswith("/extend") else ""
    assert client.extend(grant["id"], 60)["until"] == grant["until"] + 60


def test_patience_ends(fake: Fake, address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr("forebay.act.control.client.time", clock)
    fake.fault = lambda *_: "503"
    with Client(address, patience=10.0) as client, pytest.raises(ServiceAway, match="so it is"):
        client.grant("0" * 32)
    assert len(fake.calls) == len(slept) + 1 > 2 and sum(slept) <= 10


@pytest.mark.parametrize(("name", "says"), [("none", "no such socket"), ("file", "nothing listens there")])
def test_a_service_that_is_away_is_told_in_one_line(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "file").touch()
    address = Address(socket=str(tmp_path / name))
    with Client(address, patience=0.0) as client, pytest.raises(ServiceAway, match=says) as caught:
        client.health()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), "the service closed the connection"),
        (BrokenPipeError(32, "Broken pipe"), "the service closed the connection"),
        (OSError(113, "No route to host"), "no route to host"),
        (
            ssl.SSLCertVerificationError(1, "certificate verify failed: self-signed"),
            "verify failed: self-signed; name its authority (--authority, or authority in the agent's file)",
        ),
    ],
)
def test_why_a_service_does_not_answer_is_told_without_numbers_of_errors(error: OSError, says: str) -> None:
    assert describe_failure(error).endswith(says)
    assert "Errno" not in describe_failure(error)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 500])
def test_what_the_service_will_not_do_carries_its_words_and_is_not_tried_again(
    fake: Fake, client: Client, status: int
) -> None:
    fake.fault = lambda *_: str(status)
    with pytest.raises(TurnedAway, match="so it is") as caught:
        client.grant("0" * 32)
    assert caught.value.code.status == status and len(fake.calls) == 1


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"error": "so it is", "code": "other-journal"}, ErrorCode.OTHER_JOURNAL),
        ({"error": "so it is"}, ErrorCode.CONFLICT),  # of a service that has no codes
        ({"error": "so it is", "code": "of a later version"}, ErrorCode.CONFLICT),
    ],
)
def test_the_code_of_an_error_is_the_services_or_follows_from_the_status(
    document: dict[str, str], code: ErrorCode
) -> None:
    answer = Answer(409, json.dumps(document).encode())
    assert client_module._error(answer) == (code, "so it is")


def test_every_code_has_a_status_and_a_meaning() -> None:
    assert all(400 <= code.status < 600 and code.meaning.endswith(".") for code in ErrorCode)
    assert all(code_of_status(code.status).status == code.status for code in ErrorCode)


def test_a_grant_is_followed_until_it_is_ready(fake: Fake, client: Client) -> None:
    asked = client.request(MB, 60)
    states = []
    for grant in client.follow(asked):
        states.append(grant["state"])
        if len(states) == 1:
            made(fake, grant["id"])
    assert states == ["making", "ready"] and grant["path"] == f"/fast/{asked['id']}.0"


def test_following_ends_when_the_time_is_over(client: Client) -> None:
    first, second = client.request(100 * MB, 60), client.request(100 * MB, 60)
    assert first["state"] == "making"
    seen = list(client.follow(second, 0.1))
    assert {grant["state"] for grant in seen} == {"queued"} and seen[-1]["position"] == 1


def test_a_staging_is_waited_for_only_if_it_still_runs(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may end before the first call that waits; what has ended does not change again."""
    running: Any = {"id": "g", "state": "ready", "staging": {"state": "running"}}
    ended: Any = running | {"staging": {"state": "done"}}
    waits: list[dict[str, str]] = []

    def wait(_grant: str, _seconds: float, **known: str) -> GrantDocument:
        waits.append(known)
        answer: GrantDocument = ended
        return answer

    monkeypatch.setattr(client, "wait", wait)
    assert list(client.follow_staging(running)) == [running, ended]
    assert list(client.follow_staging(ended)) == [ended]
    assert waits == [{"known": "ready", "staging": "running"}]


def test_a_list_of_several_pages_has_all_of_them_once(fake: Fake, client: Client) -> None:
    asked = sorted(client.request(MB, 60)["id"] for _ in range(5))
    fake.calls.clear()
    assert sorted(grant["id"] for grant in client.grants()) == asked and len(fake.calls) == 3
    assert list(client.grants(state="released")) == []


def test_the_token_of_the_file_is_shown_and_never_told(fake: Fake, address: Address, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-very-secret-word\n")
    token.chmod(0o600)
    with Client(address, token=token) as client:
        list(client.grants())
        assert "secret" not in repr(client) + repr(vars(client))
    assert fake.headers[-1]["authorization"] == "Bearer a-very-secret-word"


def test_a_token_that_others_may_read_is_not_used(address: Address, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-very-secret-word\n")
    token.chmod(0o644)
    with pytest.raises(BadInput, match="chmod 600") as caught:
        Client(address, token=token)
    assert "secret" not in str(caught.value)


def test_an_answer_that_is_none_of_ours_is_told(fake: Fake, client: Client) -> None:
    fake.answer = lambda *_: (200, ["what"])  # type: ignore[method-assign]
    with pytest.raises(ServiceAway, match="does not come from Forebay's service"):
        client.health()


@pytest.mark.parametrize("text", ["http://h:1", "unix:", "h:1", "https://", "https://h:99999", ""])
def test_an_address_that_is_none_is_told(text: str) -> None:
    with pytest.raises(BadInput, match="must be like 'unix:/path' or 'https://host:port'"):
        parse_service(text)


def test_the_address_comes_from_the_caller_then_the_environment_then_the_usual_place() -> None:
    own = {"FOREBAY_SERVICE": "unix:/two"}
    assert str(service_of("unix:/one", own)) == "unix:/one"
    assert str(service_of(None, own)) == "unix:/two"
    assert str(service_of(None, {})) == "unix:/run/forebay/service.sock"


def test_an_authority_that_is_none_is_told(tmp_path: Path) -> None:
    path = tmp_path / "none.pem"
    service = parse_service("https://localhost:1")
    with pytest.raises(BadInput, match="cannot be read as a certificate authority") as missing:
        Client(service, authority=path)
    assert str(missing.value).endswith("(a PEM file): no such file or directory")
    path.write_text("garbage")
    with pytest.raises(BadInput, match="cannot be read as a certificate authority") as garbage:
        Client(service, authority=path)
    assert "[" not in str(garbage.value) and "_ssl.c" not in str(garbage.value)


def test_a_call_without_a_token_names_the_ways_to_give_one(fake: Fake, client: Client) -> None:
    fake.answer = lambda *_: (401, {"error": "authentication required"})  # type: ignore[method-assign]
    with pytest.raises(
        TurnedAway, match=r"^authentication required; name a file with your token: --token, or FOREBAY_"
    ):
        client.nodes()
