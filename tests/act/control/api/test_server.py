"""The service as a process: its settings, its end by any signal, TLS, and two of them over one database."""

import json
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from forebay.act.control.api.server import _open_sockets
from forebay.act.control.service.settings import ServiceSettings, read_service
from forebay.act.forward.net.address import CantListen
from forebay.decide.grants.codec import from_line
from forebay.history.store import open_store
from forebay.history.store.journal import read_after
from forebay.model.errors import BadInput
from support.certificates import certificate
from support.control import GB, Running, running
from support.grants import fold, used_bytes
from support.nursery import shared_nursery
from support.processes import limited, piped
from support.stores import PostgreSQL

FOREBAY = str(Path(sys.executable).with_name("forebay"))
EXAMPLE = Path(__file__).parents[4] / "examples" / "serve.toml"


def command(*words: str) -> "subprocess.CompletedProcess[str]":
    return shared_nursery().run(*words)


@contextmanager
def process(folder: Path, *more: str) -> Iterator[tuple["subprocess.Popen[str]", Running]]:
    """`forebay serve` in a process of its own, and a caller."""
    socket = folder / "socket"
    argv = [FOREBAY, "serve", "--socket", str(socket), "--db", str(folder / "journal.db"), "--json", *more]
    with (folder / "log").open("a") as log:
        started = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            told = json.loads(limited(piped(started.stdout).readline))
            assert told == {"ready": "service", "addresses": [f"unix:{socket}"]}
            yield started, Running(ServiceSettings(socket=socket))
        finally:
            started.kill()
            started.communicate(timeout=60)


def test_a_killed_service_forgets_nothing_that_it_answered(tmp_path: Path) -> None:
    with process(tmp_path) as (started, service):
        service.hello()
        grants = [service.ask(key=str(number))["id"] for number in range(5)]
        seen = service.call("GET", "/v1/grants")
        started.send_signal(signal.SIGKILL)
        started.wait(60)
    with process(tmp_path) as (_, service):
        assert service.call("GET", "/v1/grants") == seen
        assert [service.ask(key=str(number), status=200)["id"] for number in range(5)] == grants


def test_it_ends_when_it_is_told_to_even_while_somebody_waits(tmp_path: Path) -> None:
    with process(tmp_path) as (started, service):
        service.hello()
        with ThreadPoolExecutor(2) as pool:
            waiting = pool.submit(service.actions, "n", 50)
            with service.client() as client, client.stream("GET", "/v1/events") as events:
                assert next(events.iter_lines()) == ": forebay"
                started.send_signal(signal.SIGTERM)
                assert started.wait(60) == 0
            assert waiting.result(60) == []
    assert not (tmp_path / "socket").exists()


def test_the_place_of_a_service_that_runs_is_not_taken(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        done = command("serve", "--socket", str(service.socket), "--db", str(tmp_path / "other.db"))
        assert (done.returncode, done.stderr) == (2, f"forebay: unix:{service.socket}: the address is in use\n")
        assert service.call("GET", "/v1/health")["status"] == "ready"


def test_over_tcp_there_is_tls_and_nobody_without_a_token(tmp_path: Path) -> None:
    own, key = certificate(tmp_path)
    with running(tmp_path, listen="127.0.0.1:0", certificate=own, key=key) as service:
        service.hello()
        secret = service.token("mine", "user", uid=1000)
        url = service.addresses[1]
        assert url.startswith("https://127.0.0.1:")
        with httpx.Client(base_url=url, verify=ssl.create_default_context(cafile=str(own)), timeout=60) as client:
            assert client.get("/v1/health").json()["status"] == "ready"
            assert client.post("/v1/grants", json={"size": 1, "seconds": 1}).status_code == 401
            client.headers["Authorization"] = f"Bearer {secret}"
            answer = client.post("/v1/grants", json={"size": GB, "seconds": 60})
            assert (answer.status_code, answer.json()["uid"]) == (201, 1000)


def test_all_addresses_of_a_name_are_listened_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them is another machine's."""
    hosts = ("192.0.2.1", "127.0.0.1", "127.0.0.2")
    real = socket.getaddrinfo

    def look_up(host: str, *rest: Any, **more: Any) -> Any:
        names = hosts if host == "service.test" else (host,)
        return [place for name in names for place in real(name, *rest, **more)]

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    own, key = certificate(tmp_path)
    with running(tmp_path, listen="service.test:0", certificate=own, key=key) as service:
        _, *addresses = service.addresses
        port = addresses[0].rpartition(":")[2]
        assert addresses == [f"https://{host}:{port}" for host in hosts[1:]]
        for host in hosts[1:]:
            socket.create_connection((host, int(port)), 60).close()
        used = ServiceSettings(socket=None, listen=f"service.test:{port}", certificate=own, key=key)
        with pytest.raises(CantListen, match="the address is in use"):
            _open_sockets(used)


def test_tls_needs_a_certificate_and_a_key_that_nobody_else_may_read(tmp_path: Path) -> None:
    own, key = certificate(tmp_path)
    with pytest.raises(BadInput, match=r"service\.listen: needs TLS"):
        ServiceSettings(listen="127.0.0.1:0")
    key.chmod(0o644)
    with pytest.raises(BadInput, match="others can read the key"):
        ServiceSettings(listen="127.0.0.1:0", certificate=own, key=key)


def test_two_instances_over_one_postgresql_decide_one_at_a_time(postgresql: PostgreSQL, tmp_path: Path) -> None:
    """Both are asked at the same time for more than there is; then one of them goes away."""
    db = postgresql.new_database()
    for name in "ab":
        (tmp_path / name).mkdir()
    with running(tmp_path / "a", db=db) as first:
        first.hello("n", "d")
        with running(tmp_path / "b", db=db) as second, ThreadPoolExecutor(8) as pool:
            both = (first, second)
            asked = list(pool.map(lambda n: both[n % 2].ask(30 * GB, key=f"k{n}"), range(16)))
            states = [grant["state"] for grant in asked]
            assert (states.count("making"), states.count("queued")) == (3, 13)
            again = list(pool.map(lambda n: both[(n + 1) % 2].ask(30 * GB, key=f"k{n}", status=200)["id"], range(16)))
            assert again == [grant["id"] for grant in asked]
            assert first.call("GET", "/v1/grants") == second.call("GET", "/v1/grants")
            seen = second.call("GET", "/v1/grants")
        assert first.call("GET", "/v1/grants") == seen
        first.carry_out()
        assert sum(one["state"] == "ready" for one in first.call("GET", "/v1/grants")["grants"]) == 3
    with open_store(db) as store, store.open_reader() as connection:
        control = fold(from_line(entry.line) for entry in read_after(connection, 0))
    assert sum(used_bytes(control).values()) == 90 * GB


def test_who_waits_at_one_instance_hears_what_another_did(postgresql: PostgreSQL, tmp_path: Path) -> None:
    db = postgresql.new_database()
    for name in "ab":
        (tmp_path / name).mkdir()
    with running(tmp_path / "a", db=db) as first, running(tmp_path / "b", db=db) as second:
        first.hello()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(second.actions, "n", 50)
            grant = first.ask()
            assert [action["volume"] for action in waiting.result(60)] == [f"{grant['id']}.0"]


def test_the_example_is_right_and_flags_replace_what_a_file_says(tmp_path: Path) -> None:
    settings = read_service(EXAMPLE, {})
    assert settings == ServiceSettings(db="/var/lib/forebay/service.db")
    assert read_service(EXAMPLE, {"silent": "5 s", "shadow": True}).shadow
    file = tmp_path / "forebay.toml"
    file.write_text('[service]\nsocket = "here"\nsilnet = 3\n')
    with pytest.raises(BadInput, match=r"forebay\.toml: service\.silnet: is not a key of this table"):
        read_service(file, {})
    file.write_text('[service]\nsocket = "here"\n[service.rules]\nsplit = "some"\n')
    with pytest.raises(BadInput, match=r"forebay\.toml: service\.rules\.split: 'some' is not a number with a unit"):
        read_service(file, {})
    for wrong, message in (
        ("rules]\ntriez = 5", r"forebay\.toml: service\.rules\.triez: unknown rule"),
        ("rules]\ntries = -5", r"forebay\.toml: rules\.tries: must not be negative, not -5"),
        ("limits]\nwaiting = -1", r"forebay\.toml: limits\.waiting: must be at least 1, not -1"),
    ):
        file.write_text(f"[service]\n[service.{wrong}\n")
        with pytest.raises(BadInput, match=message):
            read_service(file, {})
    file.write_text('[service]\nsocket = "here"\n')
    assert read_service(file, {}).socket == tmp_path / "here"
    file.write_text('[service]\ndb = "grants.db"\nhistory = "../history.db"\n')
    found = read_service(file, {})
    assert (found.db, found.history) == (f"{tmp_path}/grants.db", f"{tmp_path}/../history.db")
    assert read_service(file, {"db": "other.db"}).db == "other.db"  # from where the command is called
    file.write_text("[other]\n")
    with pytest.raises(BadInput, match=r"has no \[service\] table"):
        read_service(file, {})


def test_a_password_is_only_in_a_file_that_nobody_else_may_read(tmp_path: Path) -> None:
    file = tmp_path / "forebay.toml"
    file.write_text('[service]\ndb = "postgresql://forebay:secret@host/grants"\n')
    file.chmod(0o644)
    with pytest.raises(BadInput, match="has a password, but other users can read the file") as error:
        read_service(file, {})
    assert "secret" not in str(error.value)
    with pytest.raises(BadInput, match="--db: all users can see the password in the process list") as error:
        read_service(None, {"db": "postgresql://forebay:secret@host/grants"})
    assert "secret" not in str(error.value)
    file.chmod(0o600)
    assert read_service(file, {}).db == "postgresql://forebay:secret@host/grants"
    file.write_text('[service]\ndb = "postgresql://forebay@host:5432/grants"\n')
    file.chmod(0o644)
    assert read_service(file, {}).db == "postgresql://forebay@host:5432/grants"


def test_tokens_are_made_changed_and_taken_away_by_a_command(tmp_path: Path) -> None:
    db = ("--db", str(tmp_path / "journal.db"))
    with running(tmp_path) as service:
        file = tmp_path / "token"
        done = command("token", "make", "n1", "--role", "agent", "--node", "n1", "--out", str(file), *db)
        assert (done.returncode, done.stdout) == (0, f"written: {file}\n")
        assert file.stat().st_mode & 0o777 == 0o600
        first = file.read_text().strip()
        assert service.call("GET", "/v1/nodes", token=first) == {"nodes": []}
        assert json.loads(command("token", "list", "--json", *db).stdout)["tokens"][0]["name"] == "n1"
        assert command("token", "remove", "n1", *db).returncode == 0
        assert "no token 'n1'" in command("token", "remove", "n1", *db).stderr
        assert command("token", "make", "n1", "--role", "agent", "--out", str(file), *db).returncode == 2
        assert file.read_text().strip() == first


def test_another_policy_is_tried_on_the_journal(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        service.hello("n", "a", "b")
        for size in (5, 5, 60, 60, 20, 20, 90):
            service.ask(size * GB)
        service.call("POST", f"/v1/grants/{service.ask(GB)['id']}/release")
    db, lines = str(tmp_path / "journal.db"), tmp_path / "journal.jsonl"
    done = command("replay", db, "--policy", "first-fit", "--export", str(lines), "--json")
    found = json.loads(done.stdout)
    assert (found["requests"], found["then"]["policy"], found["now"]["policy"]) == (8, "forebay", "first-fit")
    assert found["then"]["granted"] == found["now"]["granted"] == 7
    assert found["changed"]
    assert json.loads(command("replay", str(lines), "--policy", "first-fit", "--json").stdout) == found
    assert "8 requests" in command("replay", db, "--policy", "worst-fit").stdout
    lines.write_text(lines.read_text()[:-20])
    cut = command("replay", str(lines), "--policy", "worst-fit")
    assert (cut.returncode, "is not valid JSON; the journal may be cut off here" in cut.stderr) == (2, True)
    assert command("replay", db, "--policy", "best-guess").returncode == 2


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_journal_cut_in_half_is_told_and_left_as_it_is(tmp_path: Path, share: float) -> None:
    with running(tmp_path) as service:
        service.hello()
        for number in range(60):
            service.ask(GB, key=str(number))
    db = tmp_path / "journal.db"
    db.write_bytes(db.read_bytes()[: int(db.stat().st_size * share)])
    before = db.read_bytes()
    done = command("serve", "--socket", str(tmp_path / "socket"), "--db", str(db))
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("forebay: ")
    assert len(done.stderr.splitlines()) == 1
    assert db.read_bytes() == before
