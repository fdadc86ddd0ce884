"""A server on this machine that answers as Prometheus does, or not."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.client import IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import gaierror
from typing import Any
from urllib.error import URLError
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forebay.act.filesystems.load as module
from forebay.act.filesystems.load import METRICS, Load, MetricsUnavailable, query_job_rates, rate_query, read_loads
from forebay.act.filesystems.settings import Settings
from forebay.model.errors import BadInput

WRITES, READS = METRICS
Answer = tuple[int, bytes]
Answering = Callable[[str], Answer]


def sample(target: str, job: str, value: str) -> dict[str, Any]:
    return {"metric": {"jobid": job, "target": target}, "value": [1720516680.781, value]}


def vector(*samples: dict[str, Any]) -> Answer:
    body = {"status": "success", "data": {"resultType": "vector", "result": list(samples)}}
    return 200, json.dumps(body).encode()


class Server:
    """Answers as told; `asked` has the queries so far."""

    def __init__(self) -> None:
        self.answer: Answering = lambda _: vector()
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = parse_qs(parts.query).get("query", [""])[0]
                outer.asked.append(f"{parts.path} {query}")
                code, body = outer.answer(query)
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        class Patient(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """A client may leave early."""

        self.http = Patient(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.http.shutdown()
    thread.join(60)
    made.http.server_close()


def rates(server: Server, name: str = "scratch", timeout: float = 60.0) -> list[tuple[int, str, float]]:
    return list(query_job_rates(server.url, name, 60.0, timeout))


def test_reads_and_writes_of_each_ost_and_job(server: Server) -> None:
    server.answer = lambda query: (
        vector(sample("scratch-OST0000", "4711", "1048576.5"), sample("scratch-OST000a", "4712", "7"))
        if WRITES in query
        else vector(sample("scratch-OST0000", "4711", "3"))
    )
    assert rates(server) == [(0, "4711", 1048576.5), (10, "4712", 7.0), (0, "4711", 3.0)]


def test_asks_for_the_rate_over_the_window_by_target_and_job(server: Server) -> None:
    rates(server)
    assert server.asked == [
        f'/api/v1/query sum by (target, jobid) (rate({metric}{{target=~"scratch-OST.*"}}[60s]))' for metric in METRICS
    ]


def test_a_server_below_a_path_is_asked_there(server: Server) -> None:
    list(query_job_rates(f"{server.url}/prom/", "", 90.4, 60.0))
    assert server.asked[0] == f"/prom/api/v1/query sum by (target, jobid) (rate({WRITES}[90s]))"


def test_file_systems_are_not_mixed_where_nobody_says_which(server: Server) -> None:
    server.answer = lambda _: vector(sample("scratch-OST000e", "1", "5"), sample("home-OST000e", "2", "5"))
    with pytest.raises(BadInput, match=r"several file systems \(home, scratch\); set `name` under \[filesystem\]"):
        rates(server, name="")
    assert [job for _, job, _ in rates(server, name="home")] == ["2", "2"]


def test_a_dot_in_a_name_is_no_wildcard() -> None:
    assert 'target=~"my[.]fs-OST.*"' in rate_query(WRITES, "my.fs", 60)


def test_what_is_no_ost_or_no_number_is_left_out(server: Server) -> None:
    server.answer = lambda _: vector(
        sample("scratch-MDT0000", "1", "5"),
        sample("home-OST0000", "1", "5"),
        sample("scratch-OST0001", "1", "NaN"),
        sample("scratch-OST0001", "1", "+Inf"),
        sample("scratch-OST0002", "1", "-3"),
        {"metric": {}, "value": [1.0, "5"]},
        sample("scratch-OST0003", "1", "5"),
    )
    assert rates(server) == [(3, "1", 5.0)] * 2


def test_rates_become_loads(server: Server) -> None:
    server.answer = lambda _: vector(sample("scratch-OST0003", "4711", "5"), sample("scratch-OST0004", "4711", "0"))
    settings = Settings(kind="lustre", name="scratch", prometheus=server.url, timeout=60.0)
    assert read_loads(settings) == (Load(index=3, rate=10.0, jobs=frozenset({"4711"})),)


@pytest.mark.parametrize(
    "answer, reason",
    [
        ((400, b'{"status":"error","errorType":"bad_data","error":"parse\\nerror"}'), "HTTP 400: parse error"),
        ((503, b"<html>sorry</html>"), "HTTP 503: Service Unavailable"),
        ((404, b""), "HTTP 404: Not Found"),
    ],
)
def test_a_refusal_is_one_line_with_the_servers_words(server: Server, answer: Answer, reason: str) -> None:
    server.answer = lambda _: answer
    with pytest.raises(MetricsUnavailable) as wrong:
        rates(server)
    assert str(wrong.value) == f"{server.url}: {reason}"


@pytest.mark.parametrize(
    "body, reason",
    [
        (b"", "the reply is not from Prometheus"),
        (b"hello", "the reply is not from Prometheus"),
        (b"\xff\xfe", "the reply is not from Prometheus"),
        (b"[]", "the reply is not from Prometheus"),
        (b'{"status":"success"}', "the reply is not from Prometheus"),
        (b"[" * 200_000, "the reply is not from Prometheus"),
        (b'{"data":{"resultType":"matrix","result":[]}}', "the reply is not a vector"),
        (b'{"data":{"resultType":"vector","result":{}}}', "the reply is not a vector"),
        (b'{"data":{"resultType":"vector","result":[3]}}', "a row that is not a sample"),
        (b'{"data":{"resultType":"vector","result":[{"metric":{},"value":[]}]}}', "a row that is not a sample"),
        (
            b'{"data":{"resultType":"vector","result":[{"metric":{"target":3},"value":[1,"2"]}]}}',
            "a row that is not a sample",
        ),
        (b'{"data":{"resultType":"vector","result":[{"metric":{},"value":[1,"much"]}]}}', "a row that is not a sample"),
    ],
)
def test_an_answer_that_is_none_is_one_line(server: Server, body: bytes, reason: str) -> None:
    server.answer = lambda _: (200, body)
    with pytest.raises(BadInput, match=reason) as wrong:
        rates(server)
    assert "\n" not in str(wrong.value)


def test_an_answer_without_end_is_not_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)
    server.answer = lambda _: (200, b" " * (2 << 20))
    with pytest.raises(MetricsUnavailable, match="the reply is larger than 1 MiB"):
        rates(server)


def test_a_server_that_does_not_answer_is_given_up(server: Server) -> None:
    gone = threading.Event()

    def answer(_: str) -> Answer:
        gone.wait(60.0)
        return vector()

    server.answer = answer
    try:
        with pytest.raises(MetricsUnavailable, match=r"no answer within 0.2 s$"):
            rates(server, timeout=0.2)
    finally:
        gone.set()


def test_a_server_that_dribbles_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 10_000, 10))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    with pytest.raises(MetricsUnavailable, match=r"no answer within 5 s$"):
        rates(server, timeout=5.0)


def test_a_server_that_is_away_is_one_line() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        address = f"http://127.0.0.1:{closed.server_port}"
    with pytest.raises(MetricsUnavailable, match=rf"^{address}: connection refused$"):
        list(query_job_rates(address, "", 60.0, 60.0))


@pytest.mark.parametrize(
    "error, reason",
    [
        (URLError(gaierror(-2, "Name or service not known")), "name or service not known"),
        (URLError(TimeoutError("timed out")), "no answer within 60 s"),
        (URLError("unknown url type: x"), "unknown url type: x"),
        (ConnectionResetError(104, "Connection reset by peer"), "connection reset by peer"),
        (IncompleteRead(b"half"), "the reply ended early"),
    ],
)
def test_whatever_goes_wrong_on_the_way_is_one_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    def urlopen(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(module, "urlopen", urlopen)
    with pytest.raises(MetricsUnavailable, match=rf"^http://metrics: {reason}$"):
        list(query_job_rates("http://metrics", "", 60.0, 60.0))


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["metric", "value", "target", "jobid", "x"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.lists(json_values, max_size=3))
def test_rows_of_any_shape_are_read_or_one_line(rows: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_get", lambda *_: json.dumps({"data": {"resultType": "vector", "result": rows}}))
        try:
            assert all(rate >= 0 for _, _, rate in query_job_rates("http://x", "", 60.0, 1.0))
        except BadInput as wrong:
            assert "\n" not in str(wrong)
