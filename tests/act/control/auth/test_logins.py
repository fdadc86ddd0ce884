"""Logging in at the page: by a token or a link, for a time, and for nobody else's page."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from forebay.act.control.auth.callers import Authenticator, Peer
from forebay.act.control.auth.logins import (
    COOKIE,
    LASTS,
    PROOF,
    TUNNEL,
    Logins,
    cookie_of,
    find_login,
    is_browser,
    signing_key,
)
from forebay.act.control.errors import NotAuthenticated
from forebay.history.store.tokens import Token, digest_token
from forebay.model.grant import NotAllowed
from support.certificates import certificate
from support.control import Running, running

HOST = "10.0.0.1"


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class World:
    """Two people with tokens, and an agent."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.tokens = {
            "root": Token(name="admin", digest=digest_token("root"), role="administrator"),
            "ann": Token(name="ann", digest=digest_token("ann"), role="user", uid=4_000_001, gid=5),
            "agent": Token(name="n1", digest=digest_token("agent"), role="agent", node="n1"),
        }
        self.authenticator = Authenticator([77], self._all)
        self.logins = Logins(self.authenticator, b"k" * 32, clock=self.clock)

    async def _all(self) -> list[Token]:
        return list(self.tokens.values())


@pytest.fixture
def world() -> World:
    return World()


async def _entered(world: World, secret: str = "ann") -> Any:
    return await world.logins.log_in(secret, HOST)


def run(work: Any) -> Any:
    import asyncio

    return asyncio.run(work)


def test_a_token_is_changed_for_a_cookie_that_stands_for_its_owner(world: World) -> None:
    login = run(_entered(world))
    assert (login.who.role, login.who.uid, login.until) == ("user", 4_000_001, world.clock.now + LASTS)
    assert run(world.logins.check(login.cookie)).who == login.who


def test_a_login_ends_by_itself_and_says_so(world: World) -> None:
    login = run(_entered(world))
    world.clock.now += LASTS - 1
    run(world.logins.check(login.cookie))
    world.clock.now += 1
    with pytest.raises(NotAuthenticated, match="your login has ended; log in again"):
        run(world.logins.check(login.cookie))


def test_it_outlives_a_restart_but_not_its_token(world: World) -> None:
    login = run(_entered(world))
    again = Logins(world.authenticator, b"k" * 32, clock=world.clock)
    assert run(again.check(login.cookie)).who.uid == 4_000_001
    del world.tokens["ann"]
    run(world.authenticator.refresh())
    with pytest.raises(NotAuthenticated, match="was removed"):
        run(again.check(login.cookie))


@pytest.mark.parametrize("change", ["first", "last", "dot", "empty", "other key"])
def test_a_cookie_that_was_changed_counts_for_nothing(world: World, change: str) -> None:
    cookie = run(_entered(world)).cookie
    made = {
        "first": ("A" if cookie[0] != "A" else "B") + cookie[1:],
        "last": cookie[:-1] + ("0" if cookie[-1] != "0" else "1"),
        "dot": cookie.replace(".", ""),
        "empty": ".",
        "other key": run(Logins(world.authenticator, b"x" * 32, clock=world.clock).log_in("ann", HOST)).cookie,
    }
    with pytest.raises(NotAuthenticated):
        run(world.logins.check(made[change]))


def test_after_a_logout_the_cookie_does_not_count(world: World) -> None:
    login, other = run(_entered(world)), run(_entered(world))
    world.logins.log_out(login.cookie)
    with pytest.raises(NotAuthenticated):
        run(world.logins.check(login.cookie))
    assert run(world.logins.check(other.cookie)).who == login.who


def test_a_link_logs_in_once_and_only_for_five_minutes(world: World) -> None:
    code, until = world.logins.make_link(world.authenticator.user(1234, 5))
    assert until == world.clock.now + 300
    login = run(_entered(world, code))
    assert (login.who.role, login.who.uid, login.who.local) == ("user", 1234, False)
    with pytest.raises(NotAuthenticated):
        run(_entered(world, code))
    late, until = world.logins.make_link(world.authenticator.user(1234, 5))
    world.clock.now = until
    with pytest.raises(NotAuthenticated):
        run(_entered(world, late))


def test_a_link_of_an_administrator_makes_an_administrator(world: World) -> None:
    code, _ = world.logins.make_link(world.authenticator.user(77, 5))
    assert run(_entered(world, code)).who.role == "administrator"


def test_agents_do_not_look_at_pages(world: World) -> None:
    with pytest.raises(NotAllowed):
        run(_entered(world, "agent"))


def test_who_tries_wrong_secrets_waits_longer_and_longer_and_others_do_not(world: World) -> None:
    for _ in range(5):
        with pytest.raises(NotAuthenticated):
            run(_entered(world, "wrong"))
    waits = []
    for _ in range(8):
        with pytest.raises(Exception, match="too many failed logins; try again in") as told:
            run(_entered(world))
        waits.append(float(str(told.value).split()[-2]))
        world.clock.now += waits[-1]
        with pytest.raises(NotAuthenticated):
            run(_entered(world, "wrong"))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    run(world.logins.log_in("ann", "10.0.0.2"))
    world.clock.now += 60
    run(_entered(world))
    with pytest.raises(NotAuthenticated):  # it begins anew
        run(_entered(world, "wrong"))
    run(_entered(world))


def test_the_key_is_made_from_the_certificates_key_so_that_logins_outlive_restarts(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_text("two")
    assert signing_key(tmp_path / "a") == signing_key(tmp_path / "a") != signing_key(tmp_path / "b")
    assert signing_key(None) != signing_key(None)


# Browsers


def _visit(world: World, method: str = "GET", peer: Peer | None = None, **headers: str) -> Any:
    return run(find_login(world.logins, peer, method, {name.replace("_", "-"): v for name, v in headers.items()}))


def test_a_change_by_a_cookie_needs_the_proof_that_only_our_page_has(world: World) -> None:
    login = run(_entered(world))
    cookie = f"other=1; {COOKIE}={login.cookie}"
    assert _visit(world, cookie=cookie).who == login.who
    assert _visit(world, "POST", cookie=cookie, **{PROOF: login.proof}).who == login.who
    for proof in ({}, {PROOF: ""}, {PROOF: TUNNEL}, {PROOF: run(_entered(world)).proof}):
        with pytest.raises(NotAllowed, match="load the page again"):
            _visit(world, "POST", cookie=cookie, **proof)
    with pytest.raises(NotAllowed, match="another site"):
        _visit(world, "POST", cookie=cookie, sec_fetch_site="cross-site", **{PROOF: login.proof})


def test_through_a_tunnel_the_kernel_tells_who_it_is_but_only_at_this_machines_name(world: World) -> None:
    peer = Peer(1, 1234, 5)
    seen = _visit(world, peer=peer, host="localhost:8000", sec_fetch_site="none")
    assert (seen.who.uid, seen.who.role, seen.until) == (1234, "user", 0.0)
    assert _visit(world, "POST", peer, host="127.0.0.1:8000", sec_fetch_site="same-origin", x_forebay=TUNNEL)
    with pytest.raises(NotAllowed):
        _visit(world, "POST", peer, host="localhost:8000", sec_fetch_site="same-origin")
    with pytest.raises(NotAllowed, match="tunnel"):
        _visit(world, peer=peer, host="evil.example.org:8000", sec_fetch_site="same-origin")
    with pytest.raises(NotAuthenticated, match="log in first"):
        _visit(world, sec_fetch_site="none")


def test_programs_are_no_browsers() -> None:
    assert not is_browser({"host": "x", "authorization": "Bearer t"})
    assert is_browser({"origin": "https://x"}) and is_browser({"cookie": f"{COOKIE}=1"})
    assert cookie_of({"cookie": "a=b"}) == "" and cookie_of({"cookie": f"a=b;{COOKIE}=c.d"}) == "c.d"


# Over the wire


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    own, key = certificate(folder)
    with running(folder, listen="127.0.0.1:0", certificate=own, key=key) as found:
        found.hello("n", "a", "b")
        yield found


@pytest.fixture
def browser(service: Running) -> Iterator[httpx.Client]:
    """By https, with a memory for cookies and what browsers send."""
    own = {"Sec-Fetch-Site": "same-origin"}
    with httpx.Client(base_url=service.addresses[1], verify=False, headers=own, timeout=60) as client:
        yield client


def _login(browser: httpx.Client, secret: str) -> dict[str, Any]:
    answer = browser.post("/v1/login", json={"secret": secret})
    assert answer.status_code == 200, answer.text
    browser.headers[PROOF] = answer.json()["proof"]
    return dict(answer.json())


def test_the_cookie_is_for_this_host_over_tls_and_no_script_or_other_page_has_it(
    service: Running, browser: httpx.Client
) -> None:
    token = service.token("ann", "user", uid=1234)
    answer = browser.post("/v1/login", json={"secret": token})
    words = answer.headers["set-cookie"]
    assert words.startswith(f"{COOKIE}=") and "Domain" not in words
    for word in ("HttpOnly", "Secure", "SameSite=strict", "Path=/", "Max-Age="):
        assert word in words, words
    assert answer.json()["role"] == "user" and token not in words


def test_a_user_who_logged_in_sees_own_grants_and_may_release_them_and_no_others(
    service: Running, browser: httpx.Client
) -> None:
    token = service.token("ben", "user", uid=1235)
    own, other = service.ask(uid=1235, gid=5), service.ask(uid=1236, gid=5)
    assert browser.get("/v1/grants").status_code == 401
    _login(browser, token)
    assert [grant["id"] for grant in browser.get("/v1/grants").json()["grants"]] == [own["id"]]
    assert [row["id"] for row in browser.get("/v1/page/grants").json()["rows"]] == [own["id"]]
    assert browser.post(f"/v1/grants/{other['id']}/release").status_code == 403
    assert browser.post("/v1/nodes/n/drain").status_code == 403
    assert browser.post(f"/v1/grants/{own['id']}/release").status_code == 200
    del browser.headers[PROOF]
    refused = browser.post(f"/v1/grants/{own['id']}/release")
    assert refused.status_code == 403 and "x-forebay" in refused.json()["error"]


def test_a_logout_ends_the_login_for_good(service: Running, browser: httpx.Client) -> None:
    _login(browser, service.token("cat", "user", uid=1237))
    kept = browser.cookies[COOKIE]
    assert browser.post("/v1/logout").json() == {"done": 1}
    assert COOKIE not in browser.cookies
    answer = browser.get("/v1/grants", headers={"Cookie": f"{COOKIE}={kept}"})
    assert (answer.status_code, answer.json()["error"]) == (401, "your login has ended; log in again")


def test_to_open_the_page_without_a_login_is_no_error_and_tells_nothing(
    service: Running, browser: httpx.Client
) -> None:
    answer = browser.get("/v1/page")
    assert (answer.status_code, answer.json()) == (
        200,
        {"who": None, "error": "you are not logged in; log in first", "code": "not-logged-in"},
    )
    answer = browser.get("/v1/page", headers={"Cookie": f"{COOKIE}=made.up"})
    assert (answer.status_code, answer.json()) == (
        200,
        {"who": None, "error": "your login has ended; log in again", "code": "login-ended"},
    )
    assert browser.get("/v1/page", headers={"Authorization": "Bearer nobody"}).status_code == 401
    with httpx.Client(base_url=service.addresses[1], verify=False, timeout=60) as program:
        assert program.get("/v1/page").status_code == 401


def test_who_shows_nothing_over_tcp_gets_in_exactly_where_the_description_says_so(service: Running) -> None:
    paths = service.call("GET", "/openapi.json")["paths"]
    with httpx.Client(base_url=service.addresses[1], verify=False, timeout=60) as stranger:
        for path, calls in paths.items():
            for method, call in calls.items():
                status = stranger.request(method, path, json={} if method in ("post", "put") else None).status_code
                is_open = call["security"] == [] or path == "/v1/logout"  # to log out twice is no error
                assert (status == 401) != is_open, (method, path, status)


def test_a_local_user_gets_a_link_and_a_holder_of_a_token_does_not_need_one(
    service: Running, browser: httpx.Client
) -> None:
    made = service.call("POST", "/v1/login/link")
    assert made["link"].startswith("https://127.0.0.1:") and made["link"].endswith(f"/#login={made['secret']}")
    assert _login(browser, made["secret"])["role"] == "administrator"
    dan = service.token("dan", "user", uid=1)
    assert "log in with your token" in service.error("POST", "/v1/login/link", token=dan, status=409)
    assert browser.post("/v1/login", json={"secret": made["secret"]}).status_code == 401


def test_another_page_can_not_log_anybody_in(service: Running, browser: httpx.Client) -> None:
    token = service.token("eve", "user", uid=1)
    answer = browser.post("/v1/login", json={"secret": token}, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403 and "set-cookie" not in answer.headers
