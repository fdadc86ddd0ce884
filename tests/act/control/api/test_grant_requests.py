"""The short way of a request for space tells the same as the general one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.control import GB, Running, running
from support.examples import examples

OWN = ("id", "key", "created", "changed", "start", "until", "volumes", "because", "state")
"""Of two requests these differ."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service")) as found:
        found.hello("n", "a", "b", fields={"tier": "nvme"})
        yield found


def _sent(service: Running, content: bytes, kind: str) -> tuple[int, Any]:
    with service.client() as client:
        answer = client.post("/v1/grants", content=content, headers={"Content-Type": kind})
    told = answer.json()
    return answer.status_code, {name: told[name] for name in told if name not in OWN}


ODD: st.SearchStrategy[object] = (
    st.none() | st.booleans() | st.integers(-5, 10**20) | st.floats() | st.text(max_size=5) | st.just([]) | st.just({})
)
BODIES = st.fixed_dictionaries(
    {"size": st.integers(1, GB) | st.sampled_from(["1 GB", "x", 0, 1.5]), "seconds": st.sampled_from([60, "1h", -1])},
    optional=dict.fromkeys(("start", "tier", "fields", "job", "expose", "hosts", "mode", "uid", "gid", "more"), ODD),
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=BODIES)
def test_both_ways_answer_alike(service: Running, body: dict[str, Any]) -> None:
    content = json.dumps(body).encode()
    # The short way is only for what says that it is JSON in so many words.
    assert _sent(service, content, "application/json") == _sent(service, content, "application/json; charset=utf-8")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000, b'{"size": "\\ud800"}']
)
def test_what_is_no_request_is_told_alike(service: Running, content: bytes) -> None:
    status, told = _sent(service, content, "application/json")
    assert status == 400
    assert (status, told) == _sent(service, content, "application/json; charset=utf-8")


def test_a_key_that_is_known_is_told_with_another_status(service: Running) -> None:
    first = service.ask(key="k-1")
    assert service.ask(key="k-1", status=200)["id"] == first["id"]
    assert "is already used for another request" in service.error(
        "POST", "/v1/grants", {"size": GB, "seconds": 601, "key": "k-1"}, status=409
    )


def test_nobody_knows_a_caller_with_a_wrong_token(service: Running) -> None:
    words = service.error("POST", "/v1/grants", {"size": GB, "seconds": 60}, token="wrong", status=401)
    assert words == "unknown token; ask an administrator for a new one"


def test_other_things_under_the_same_name_go_the_general_way(service: Running) -> None:
    assert "grants" in service.call("GET", "/v1/grants")
    assert service.error("DELETE", "/v1/grants", status=405) == "method not allowed"
