"""The API as its own description says it can be called, and in ways that it says it can't: never an error of ours."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from support.control import Running, running
from support.examples import examples

_CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]
_PARTS = ("method", "url", "params", "headers", "json")
_STREAM = "/v1/events"  # does not end by itself


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service")) as found:
        found.hello("n", "a", "b")
        found.ask(key="known")
        yield found


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_call_breaks_the_service(service: Running, mode: GenerationMode) -> None:
    description = schemathesis.openapi.from_dict(service.call("GET", "/openapi.json"))
    known = service.call("GET", "/v1/grants")["grants"][0]["id"]
    called = 0
    with service.client() as client:
        for found in description.get_all_operations():
            assert isinstance(found, Ok), found
            operation = found.ok()
            if operation.path != _STREAM:
                called += 1
                _fuzz(operation, mode, client, known)
    assert called >= 25
    assert service.call("GET", "/v1/health")["status"] == "ready"


def _fuzz(operation: Any, mode: GenerationMode, client: httpx.Client, known: str) -> None:
    @settings(
        max_examples=examples(8), deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def call(case: Any) -> None:
        _aim(case, known)
        drawn = case.as_transport_kwargs(base_url="http://forebay")
        request = {name: value for name, value in drawn.items() if name in _PARTS}
        try:
            made = client.build_request(**request, content=drawn.get("data"))
        except (ValueError, TypeError, httpx.InvalidURL):  # no HTTP at all
            return
        answer = client.send(made)
        assert answer.status_code < 500, (request, answer.text)
        if answer.status_code >= 400:
            assert set(answer.json()) == {"error", "code"}
        case.validate_response(schemathesis.Response.from_any(answer), checks=_CHECKS)

    with suppress(Unsatisfiable):  # where there is nothing that could be wrong
        call()


def _aim(case: Any, known: str) -> None:
    """At things that are there, half of the time by the length of what was drawn; and never wait."""
    for name, value in (("grant", known), ("node", "n")):
        if name in (case.path_parameters or {}) and len(str(case.path_parameters[name])) % 2:
            case.path_parameters[name] = value
    if case.operation.path.endswith(("/wait", "/actions")):
        case.query = {**(case.query or {}), "seconds": 0}
