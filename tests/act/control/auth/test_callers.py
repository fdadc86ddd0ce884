"""Who may do what."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.control.auth.callers import Authenticator, Who
from forebay.act.control.auth.tokens import write_secret
from forebay.act.control.errors import NotAuthenticated
from forebay.history.store import open_store
from forebay.history.store.tokens import Token, digest_token, list_tokens
from support.control import DISK, GB, Running, running

OTHER = 23456


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as found:
        found.hello()
        yield found


def test_a_token_stands_for_its_user(service: Running) -> None:
    mine, other = service.token("mine", "user", uid=1000, gid=100), service.token("other", "user", uid=1001)
    grant = service.ask(token=mine)
    assert (grant["uid"], grant["gid"]) == (1000, 100)
    for method, path in (
        ("GET", ""),
        ("GET", "/story"),
        ("GET", "/wait?seconds=0"),
        ("POST", "/release"),
        ("POST", "/used"),
    ):
        words = service.error(method, f"/v1/grants/{grant['id']}{path}", token=other, status=403)
        assert words.startswith("only its owner or an administrator may")
    service.error("POST", f"/v1/grants/{grant['id']}/extend", {"seconds": 5}, token=other, status=403)
    assert service.call("GET", "/v1/grants", token=other)["grants"] == []
    assert len(service.call("GET", "/v1/grants", token=mine)["grants"]) == 1
    assert service.call("POST", f"/v1/grants/{grant['id']}/release", token=mine)["state"] == "releasing"


def test_users_do_not_administer(service: Running) -> None:
    mine = service.token("mine", "user", uid=1000)
    for method, path, body in (
        ("POST", "/v1/nodes/n/drain", {}),
        ("DELETE", "/v1/nodes/n", None),
        ("PUT", "/v1/policy", {"policy": "worst-fit"}),
        ("PUT", "/v1/rules", {"tries": 1}),
        ("GET", "/v1/journal", None),
        ("POST", "/v1/tokens", {"name": "x", "role": "administrator"}),
        ("DELETE", "/v1/tokens/mine", None),
    ):
        assert service.error(method, path, body, token=mine, status=403) == "only an administrator may do this"
    on_behalf = {"size": GB, "seconds": 60, "uid": 0}
    assert service.error("POST", "/v1/grants", on_behalf, token=mine, status=403) == "only an administrator may do this"


def test_an_administrator_asks_on_behalf_of_others(service: Running) -> None:
    assert (service.ask(uid=1000, gid=7)["uid"], service.ask(uid=1000, gid=7)["gid"]) == (1000, 7)


def test_an_agent_acts_for_its_own_node_only(service: Running) -> None:
    agent = service.token("m", "agent", node="m")
    body = {"disks": [{"name": "d", **DISK}], "volumes": [], "number": 1}
    assert service.call("POST", "/v1/nodes/m/hello", body, token=agent)["actions"] == []
    before = service.call("GET", "/v1/nodes")
    words = service.error("POST", "/v1/nodes/n/hello", {"disks": [], "volumes": []}, token=agent, status=403)
    assert words == "the agent of node 'm' may not report for node 'n'"
    service.error("GET", "/v1/nodes/n/actions?seconds=0", token=agent, status=403)
    service.error("POST", "/v1/nodes/n/log", [], token=agent, status=403)
    service.error("POST", "/v1/nodes/n/reports", [], token=agent, status=403)
    service.error("POST", "/v1/grants", {"size": GB, "seconds": 60}, token=agent, status=403)
    assert service.call("GET", "/v1/nodes") == before


def test_an_agent_does_not_report_of_volumes_on_other_nodes(service: Running) -> None:
    agent = service.token("m", "agent", node="m")
    grant = service.ask()
    report = [{"kind": "made", "volume": f"{grant['id']}.0", "number": 5}]
    service.error("POST", "/v1/nodes/m/reports", report, token=agent, status=403)
    service.error("GET", f"/v1/grants/{grant['id']}", token=agent, status=403)
    assert service.grant(grant["id"])["state"] == "making"


def test_a_user_is_no_agent(service: Running) -> None:
    mine = service.token("mine", "user", uid=1000)
    before = service.call("GET", "/v1/nodes")
    told = [
        service.error("POST", "/v1/nodes/n/hello", {"disks": []}, token=mine, status=403),
        service.error("GET", "/v1/nodes/n/actions?seconds=0", token=mine, status=403),
    ]
    assert told == [f"only the agent of node 'n' may {what} this" for what in ("report", "do")]
    assert service.call("GET", "/v1/nodes") == before


def test_a_token_that_is_changed_or_taken_away_ends(service: Running) -> None:
    old = service.token("mine", "user", uid=1000)
    new = service.token("mine", "user", uid=1000)
    assert "unknown token; ask" in service.error("GET", "/v1/grants", token=old, status=401)
    assert service.call("GET", "/v1/grants", token=new)["grants"] == []
    service.call("DELETE", "/v1/tokens/mine")
    assert "unknown token; ask" in service.error("GET", "/v1/grants", token=new, status=401)


def test_no_secret_is_in_the_store_the_log_or_an_error(service: Running, tmp_path: Path) -> None:
    secret = service.token("mine", "user", uid=1000)
    wrong = service.error("GET", "/v1/grants", token=f"{secret}x", status=401)
    assert secret not in wrong + service.log.getvalue()
    assert secret not in json.dumps(service.call("GET", "/v1/tokens"))
    with open_store(str(tmp_path / "journal.db")) as store, store.open_reader() as connection:
        assert all(secret not in str(token) for token in list_tokens(connection))
    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


def test_what_tokens_need(service: Running) -> None:
    wrong = (
        ({"name": "x", "role": "user"}, "uid: is missing; a user's token needs one"),
        ({"name": "x", "role": "agent"}, "node: '' is not a valid node name"),
        ({"name": "x", "role": "administrator", "node": "n"}, "node: only an agent's token has a node"),
        ({"name": "x y", "role": "administrator"}, "name: "),
        ({"name": "x", "role": "king"}, "role: "),
    )
    for body, words in wrong:
        assert service.error("POST", "/v1/tokens", body).startswith(words)


def test_a_secret_goes_to_a_file_that_only_its_owner_may_read(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("o" * 43)
    write_secret(path, "n" * 43)
    assert path.read_text() == "n" * 43 + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["token"]


ASK = """
import json, os, sys, httpx
with httpx.Client(transport=httpx.HTTPTransport(uds={socket!r}), base_url="http://x", timeout=60) as client:
    os.setgroups([]); os.setgid({uid}); os.setuid({uid})
    answers = [client.post("/v1/grants", json={{"size": 10, "seconds": 60}}), client.get("/v1/journal"),
               client.post("/v1/nodes/n/hello", json={{"disks": []}})]
print(json.dumps([[a.status_code, a.json()] for a in answers]))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_the_kernel_tells_who_is_at_the_other_end_of_the_socket() -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        with running(Path(name)) as service:
            service.hello()
            script = ASK.format(uid=OTHER, socket=str(service.socket))
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd="/")
            assert done.returncode == 0, done.stderr
            asked, journal, hello = json.loads(done.stdout)
            assert (asked[0], asked[1]["uid"], asked[1]["gid"]) == (201, OTHER, OTHER)
            assert (journal[0], hello[0]) == (403, 403)


def test_only_health_is_for_anybody(service: Running) -> None:
    headers = {"Authorization": "Basic eDp5"}
    with service.client() as client:
        assert client.get("/v1/health", headers=headers).status_code == 200
        for path in ("/v1/grants", "/v1/nodes", "/metrics", "/openapi.json", "/v1/events", "/v1/policy", "/v1/rules"):
            answer = client.get(path, headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


class Register:
    """Tokens that there are, and how often somebody looked."""

    def __init__(self) -> None:
        self.tokens: list[Token] = []
        self.looks = 0

    async def read(self) -> list[Token]:
        self.looks += 1
        return list(self.tokens)

    def add(self, secret: str) -> None:
        self.tokens.append(Token(name="t", digest=digest_token(secret), role="administrator"))


def test_a_token_that_was_made_just_now_is_known() -> None:
    async def show() -> Who:
        register = Register()
        authenticator = Authenticator((), register.read)
        with pytest.raises(NotAuthenticated, match="unknown token"):
            await authenticator.identify(None, "Bearer new")
        register.add("new")
        return await authenticator.identify(None, "Bearer new")

    assert asyncio.run(show()).role == "administrator"


def test_however_many_show_nonsense_one_look_serves_them_all() -> None:
    async def show() -> int:
        register = Register()
        authenticator = Authenticator((), register.read)
        calls = (authenticator.identify(None, f"Bearer {number}") for number in range(100))
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(one, NotAuthenticated) for one in found)
        return register.looks

    assert asyncio.run(show()) <= 2
