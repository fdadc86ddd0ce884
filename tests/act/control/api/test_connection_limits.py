"""Nobody can take the service from the others: not by what they send, nor by what they don't."""

import asyncio
import json
import os
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from forebay.act.control.api.app import Bounded
from forebay.act.control.api.connection_limits import Crowd, Waits, room_for
from forebay.act.control.api.proxies import read_head
from forebay.act.control.auth.callers import Who
from forebay.act.control.service.settings import Limits, ServiceSettings, read_service
from forebay.model.errors import BadInput
from support.certificates import certificate
from support.control import GB, Running, running
from support.processes import limited, piped, started

LONG = 60.0
SMALL = Limits(
    body=10_000, report=50_000, bodies=60_000, send=LONG, take=LONG, connections=8, each=3, host=4, waiting=2
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service"), limits=SMALL) as found:
        found.hello()
        yield found


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Waits for nobody: callers that are a little slow are hung up on."""
    with running(tmp_path_factory.mktemp("hasty"), limits=SMALL.model_copy(update={"send": 0.5, "take": 0.5})) as found:
        yield found


def connected(service: Running) -> socket.socket:
    caller = socket.socket(socket.AF_UNIX)
    caller.settimeout(LONG)
    caller.connect(str(service.socket))
    return caller


def first_line(caller: socket.socket) -> bytes:
    """Of the answer, whose end may be a long time coming."""
    with caller.makefile("rb") as answer:
        return answer.readline()


def answered(caller: socket.socket) -> bytes:
    """All that comes until the other end hangs up; nothing if it does so at once."""
    heard = b""
    try:
        while more := caller.recv(1 << 16):
            heard += more
    except ConnectionResetError:
        pass
    return heard


def is_well(service: Running) -> bool:
    return bool(service.call("GET", "/v1/health")["status"] == "ready")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_long_is_not_taken(service: Running, chunked: bool) -> None:
    before = service.call("GET", "/v1/health")["journal"]
    body = json.dumps({"size": GB, "seconds": 60, "job": "x" * 10_000}).encode()
    sent: Any = iter([body[:5000], body[5000:]]) if chunked else body
    with service.client() as client:
        found = client.post("/v1/grants", content=sent, headers={"Content-Type": "application/json"})
        assert found.status_code == 413
        assert found.json()["error"].startswith("request body too large (limit 10.00 kB)")
        assert client.get("/v1/health").json()["journal"] == before


def test_agents_may_tell_more_than_others(service: Running) -> None:
    lines = [{"time": 0, "text": "x" * 20_000}]
    assert service.call("POST", "/v1/nodes/n/log", lines) == {"done": 0}
    assert service.error("POST", "/v1/nodes/n/log", 3 * lines, status=413).startswith(
        "request body too large (limit 50.00 kB"
    )


def test_a_length_that_is_not_true_or_absurd_is_not_believed(service: Running) -> None:
    for length, status in ((b"9" * 18, b"413"), (b"-1", b"400"), (b"1e3", b"400"), (b"9" * 3000, b"400")):
        with connected(service) as caller:
            caller.sendall(b"POST /v1/grants HTTP/1.1\r\nHost: x\r\nContent-Length: " + length + b"\r\n\r\n")
            assert first_line(caller).startswith(b"HTTP/1.1 " + status), length
    assert is_well(service)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /v1/gra",
        b"POST /v1/grants HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
        b"POST /v1/grants HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
    ],
)
def test_a_caller_that_never_ends_is_hung_up_on(hasty: Running, sent: bytes) -> None:
    with connected(hasty) as caller:
        caller.sendall(sent)
        assert answered(caller) == b""


def test_a_body_that_trickles_is_not_waited_for(hasty: Running) -> None:
    """Each byte comes in time, all of them don't."""
    with connected(hasty) as caller:
        caller.sendall(b"POST /v1/grants HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n")
        assert trickle(caller, 5000) < 5000


def trickle(caller: socket.socket, most: int) -> int:
    """How many bytes could be sent, one at a time, until the other end hung up."""
    caller.settimeout(0.02)
    for count in range(most):
        try:
            caller.send(b" ")
            if caller.recv(1) == b"":
                return count
        except TimeoutError:
            continue
        except OSError:
            return count
    return most


def test_a_connection_that_is_used_is_kept(service: Running) -> None:
    with connected(service) as caller:
        line = HTTPConnection("x")
        line.sock = caller
        for _ in range(3):
            line.request("GET", "/v1/health")
            with line.getresponse() as found:
                assert (found.status, json.load(found)["status"]) == (200, "ready")
        assert line.sock is caller


def test_an_answer_that_nobody_takes_is_given_up(hasty: Running) -> None:
    with ExitStack() as stack:
        caller = stack.enter_context(connected(hasty))
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asked = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(1000):
                caller.sendall(20 * asked)


def test_what_is_no_http_or_has_a_head_without_end_is_told_in_one_line(service: Running) -> None:
    for sent in (b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET /v1/health HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 20_000):
        with connected(service) as caller:
            caller.sendall(sent)
            head, _, body = answered(caller).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 400")
            assert json.loads(body)["code"] == "malformed"


def test_a_body_without_a_bottom_is_no_json(service: Running) -> None:
    with service.client() as client:
        for body in (b"[" * 9000, b'{"size":' + b"9" * 5000 + b"}"):
            found = client.post("/v1/grants", content=body, headers={"Content-Type": "application/json"})
            assert found.status_code == 400
            assert found.json()["code"] == "malformed"


TAKE = """
import os, socket, sys
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
callers = []
for _ in range({count}):
    caller = socket.socket(socket.AF_UNIX); caller.settimeout(60); caller.connect({socket!r})
    callers.append(caller)
    try: caller.sendall(b"GET /v1/health HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    except BrokenPipeError: pass  # it was refused before it asked; the answer is there all the same
print(" ".join(caller.recv(65536).split()[1].decode() for caller in callers), flush=True)
sys.stdin.read()
"""


@contextmanager
def crowd(service: Running, uid: int, count: int) -> Iterator[list[str]]:
    """Connections of a user that stay; what each was answered."""
    words = [sys.executable, "-SEc", TAKE.format(uid=uid, count=count, socket=str(service.socket))]
    with started(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as process:
        yield limited(piped(process.stdout).readline).split()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_a_user_has_some_connections_and_leaves_the_others_to_others() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        with running(Path(name), limits=Limits(each=3, connections=7, send=LONG)) as service:
            with crowd(service, 1001, 5) as first, crowd(service, 1002, 3) as second, crowd(service, 1003, 3) as third:
                assert first == ["200"] * 3 + ["503"] * 2
                assert second == ["200"] * 3
                assert third == ["200"] + ["503"] * 2
                assert is_well(service)  # an administrator is always let in
            for _ in range(200):
                with crowd(service, 1001, 3) as again:
                    if again == ["200"] * 3:
                        break
            assert again == ["200"] * 3


def test_over_tcp_a_host_has_some_connections_also_before_it_has_said_anything(tmp_path: Path) -> None:
    own, key = certificate(tmp_path)
    limits = Limits(host=3, send=LONG)
    with (
        running(tmp_path, listen="127.0.0.1:0", certificate=own, key=key, limits=limits) as service,
        ExitStack() as stack,
    ):
        host, port = service.addresses[1].removeprefix("https://").split(":")
        silent = [stack.enter_context(socket.create_connection((host, int(port)), LONG)) for _ in range(3)]
        with socket.create_connection((host, int(port)), LONG) as more:
            assert answered(more) == b""
        silent.pop().close()
        trust = ssl.create_default_context(cafile=str(own))
        for _ in range(500):
            try:
                with httpx.Client(base_url=service.addresses[1], verify=trust, timeout=LONG) as client:
                    assert client.get("/v1/health").status_code == 200
                    break
            except httpx.TransportError:
                continue
        else:
            raise AssertionError("nobody is let in any more")


PROXY_LINE = b"PROXY TCP4 192.0.2.%d 192.0.2.200 40000 7443\r\n"


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    """A service that others reach by TLS, three connections each."""
    folder = tmp_path_factory.mktemp("far")
    own, key = certificate(folder)
    limits = Limits(host=3, send=LONG)
    how: dict[str, Any] = {"listen": "127.0.0.1:0", "certificate": own, "key": key, "limits": limits}
    with running(folder, **how, proxies=["127.0.0.2", "127.0.1.0/24"]) as found:
        yield found, own


class Caller:
    """One connection by TLS, from that address of this machine; `head` is what a proxy sends first."""

    def __init__(self, far: tuple[Running, Path], source: str, head: bytes = b"") -> None:
        service, authority = far
        host, port = service.addresses[1].removeprefix("https://").split(":")
        raw = socket.create_connection((host, int(port)), LONG, source_address=(source, 0))
        raw.sendall(head)
        self._line = HTTPConnection(host)
        trust = ssl.create_default_context(cafile=str(authority))
        self._line.sock = trust.wrap_socket(raw, server_hostname=host)

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()

    def status(self, token: str = "", forwarded: str = "", path: str = "/v1/grants") -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._line.request("GET", path, headers=headers | ({"X-Forwarded-For": forwarded} if forwarded else {}))
        with self._line.getresponse() as found:
            found.read()
            return found.status


def test_callers_of_one_address_who_say_who_they_are_have_connections_of_their_own(
    far: tuple[Running, Path],
) -> None:
    mine, other = far[0].token("mine", "user", uid=1000), far[0].token("other", "user", uid=1001)
    with ExitStack() as stack:
        callers = [stack.enter_context(Caller(far, "127.0.0.3")) for _ in range(1)]
        for _ in range(3):
            assert callers[-1].status(mine) == 200
            callers.append(stack.enter_context(Caller(far, "127.0.0.3")))
        assert callers[-1].status(mine) == 429, "a fourth of one caller"
        assert [callers[-1].status(other), callers[-1].status(), callers[-1].status(mine)] == [200, 401, 429]


def test_a_proxy_for_tcp_tells_for_whom_it_calls_and_nobody_else_is_believed(far: tuple[Running, Path]) -> None:
    with ExitStack() as stack:
        for _ in range(3):
            assert stack.enter_context(Caller(far, "127.0.0.2", PROXY_LINE % 1)).status() == 401
        with pytest.raises((OSError, ssl.SSLError)):
            Caller(far, "127.0.0.2", PROXY_LINE % 1).status()
        assert stack.enter_context(Caller(far, "127.0.0.2", PROXY_LINE % 2)).status() == 401
        for _ in range(4):
            assert stack.enter_context(Caller(far, "127.0.1.9")).status() == 401, "it tells nothing"
    with pytest.raises((OSError, ssl.SSLError)):
        Caller(far, "127.0.0.9", PROXY_LINE % 3)


def test_a_proxy_for_http_tells_for_whom_each_call_is_and_nobody_else_is_believed(far: tuple[Running, Path]) -> None:
    with ExitStack() as stack:
        streams = [stack.enter_context(Caller(far, "127.0.0.2")) for _ in range(5)]
        assert {caller.status(forwarded="192.0.2.1") for caller in streams} == {401}, "calls that are over don't count"
        token = far[0].token("follower", "user", uid=1002)
        held = [stack.enter_context(Caller(far, "127.0.0.2")) for _ in range(3)]
        for caller in held:
            headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": "192.0.2.7"}
            caller._line.request("GET", "/v1/events", headers=headers)
            assert caller._line.getresponse().status == 200
        assert streams[0].status(token, forwarded="192.0.2.8") == 429, "three of this caller follow the events"
        assert streams[0].status(far[0].token("third", "user", uid=1003), forwarded="192.0.2.7") == 200
        for number in range(3):
            liar = stack.enter_context(Caller(far, "127.0.0.5"))
            assert liar.status(forwarded=f"192.0.2.{number}") == 401
        with pytest.raises((OSError, ssl.SSLError)):
            Caller(far, "127.0.0.5").status(forwarded="192.0.2.99")


def test_wrong_tokens_of_one_caller_behind_a_proxy_don_t_keep_others_from_logging_in(
    far: tuple[Running, Path],
) -> None:
    def log_in(forwarded: str) -> int:
        with Caller(far, "127.0.0.2") as caller:
            headers = {"X-Forwarded-For": forwarded, "Content-Type": "application/json"}
            caller._line.request("POST", "/v1/login", body=b'{"secret": "wrong"}', headers=headers)
            with caller._line.getresponse() as found:
                return found.status

    tries = [log_in("192.0.2.1") for _ in range(7)]
    assert tries[0] == 401 and tries[-1] == 429
    assert log_in("192.0.2.2") == 401


@pytest.mark.parametrize("named", ["proxy", "10.0.0.1/8", "10.0.0.1:80", ""])
def test_proxies_are_addresses_or_networks(named: str) -> None:
    with pytest.raises(BadInput, match=r"service\.proxies: must be addresses or networks"):
        ServiceSettings(proxies=[named])


@pytest.mark.parametrize(
    ("heard", "found"),
    [
        (b"", None),
        (b"PROXY TCP4 192.0.2.1", None),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", (36, "192.0.2.1")),
        (b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n\x16", (40, "2001:db8::1")),
        (b"PROXY UNKNOWN\r\n", (15, "")),
        (b"PROXY TCP4 nonsense 192.0.2.2 1 2\r\n", (35, "")),
        (b"PROXY " + b"x" * 200, (0, "")),
        (b"\x16\x03\x01", (0, "")),
        (b"\r\n\r\n\x00\r\nQUIT\n\x21", None),
        (b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01" + b"\0" * 8 + b"more", (28, "192.0.2.1")),
        (b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00", (16, "")),
        (b"\r\n\r\n\x00\r\nQUIT\n\x31\x11\x00\x0c", (0, "")),
    ],
)
def test_what_a_proxy_sends_first(heard: bytes, found: tuple[int, str] | None) -> None:
    assert read_head(heard) == found


@given(st.binary(max_size=60), st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", b"\r\n\r\n\x00\r\nQUIT\n\x21\x11"]))
def test_whatever_comes_first_takes_no_more_than_there_is(rest: bytes, begin: bytes) -> None:
    found = read_head(begin + rest)
    assert found is None or 0 <= found[0] <= len(begin + rest)


def test_a_handshake_that_never_ends_is_given_up(tmp_path: Path) -> None:
    own, key = certificate(tmp_path)
    with running(
        tmp_path, listen="127.0.0.1:0", certificate=own, key=key, limits=SMALL.model_copy(update={"send": 0.5})
    ) as service:
        host, port = service.addresses[1].removeprefix("https://").split(":")
        with socket.create_connection((host, int(port)), LONG) as caller:
            caller.sendall(b"\x16\x03\x01")
            assert answered(caller) == b""


def test_calls_of_one_user_that_wait_are_few(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(waiting=2)) as service, ExitStack() as stack:
        service.hello()
        mine, other = service.token("mine", "user", uid=1000), service.token("other", "user", uid=1001)
        grant = service.ask(token=mine)["id"]
        streams = [
            stack.enter_context(stack.enter_context(service.client(mine)).stream("GET", "/v1/events")).iter_lines()
            for _ in range(2)
        ]
        assert [next(lines) for lines in streams] == [": forebay"] * 2
        words = service.error("GET", "/v1/events", token=mine, status=429)
        assert words == "too many waiting requests from this caller (limit 2); end some first"
        assert service.error("GET", f"/v1/grants/{grant}/wait", token=mine, status=429) == words
        with service.client(other) as client, client.stream("GET", "/v1/events?seconds=0") as stream:
            assert next(stream.iter_lines()) == ": forebay"
        stack.close()
        for _ in range(1000):
            with service.client(mine) as client:
                if client.get(f"/v1/grants/{grant}/wait?seconds=0").status_code == 200:
                    return
        raise AssertionError("those that ended still count")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60))
def test_a_crowd_is_never_more_than_it_may_be(moves: list[tuple[str, bool]]) -> None:
    crowd, there = Crowd(5), {"a": 0, "b": 0, "c": 0}
    for who, enters in moves:
        if enters:
            room = sum(there.values()) < 5 and there[who] < 3
            assert crowd.enter(who, 3) == room
            there[who] += room
        elif there[who]:
            crowd.leave(who)
            there[who] -= 1
        assert len(crowd) == sum(there.values())
        assert {name: crowd.count(name) for name in "abc"} == there


def test_administrators_wait_without_end() -> None:
    waits, root, user = Waits(1), Who(role="administrator", uid=0), Who(role="user", uid=7)
    with waits.count_waiting(root), waits.count_waiting(root), waits.count_waiting(user):
        waits.check(root)
        with pytest.raises(Exception, match=r"too many waiting requests from this caller \(limit 1\)"):
            waits.check(user)
    waits.check(user)


class Parts:
    """A caller that sends these pieces, and then what the application answers."""

    def __init__(self, *parts: bytes) -> None:
        self._left = list(parts)
        self.said: list[Message] = []

    async def receive(self) -> Message:
        if not self._left:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": self._left.pop(0), "more_body": bool(self._left)}

    async def send(self, message: Message) -> None:
        self.said.append(message)


def test_bodies_of_all_callers_together_are_bounded_and_given_back() -> None:
    limits, inside = Limits(body=100, bodies=150), asyncio.Event()
    got: list[bytes] = []

    async def app(_: Message, receive: Any, send: Any) -> None:
        got.append((await receive())["body"])
        await asyncio.wait_for(inside.wait(), LONG)
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def main() -> list[int]:
        bounded = Bounded(app, limits, Counter())
        scope: Message = {
            "type": "http",
            "method": "POST",
            "path": "/",
            "headers": [(b"transfer-encoding", b"chunked")],
        }
        callers = [Parts(b"a" * 60, b"b" * 40) for _ in range(2)]
        first = asyncio.create_task(bounded(scope, callers[0].receive, callers[0].send))
        await asyncio.sleep(0)
        await bounded(scope, callers[1].receive, callers[1].send)
        inside.set()
        await first
        last = Parts(b"c" * 100)
        await bounded(scope, last.receive, last.send)
        return [caller.said[0]["status"] for caller in (*callers, last)]

    assert asyncio.run(main()) == [200, 503, 200]
    assert got == [b"a" * 60 + b"b" * 40, b"c" * 100]


def test_limits_that_make_no_sense() -> None:
    for wrong in ({"body": 0}, {"connections": -1}, {"waiting": 2**50}, {"send": 0.0}, {"take": float("nan")}):
        with pytest.raises(BadInput, match=f"limits.{next(iter(wrong))}"):
            Limits(**wrong)


def test_limits_are_settings(tmp_path: Path) -> None:
    file = tmp_path / "forebay.toml"
    file.write_text('[service]\nsocket = "s"\nmunge = "m"\n[service.limits]\nbody = "2 MiB"\nsend = "5 s"\neach = 3\n')
    settings = read_service(file, {})
    assert settings.limits == Limits(body=2 << 20, send=5.0, each=3)
    assert settings.munge == tmp_path / "m"


def test_there_is_no_more_room_than_the_system_gives() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert room_for(10) == 10
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        assert room_for(400) == 400
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 400 + 128
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
