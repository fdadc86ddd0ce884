"""What is wrong is said in one line, and changes nothing."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.control import DISK, GB, Running, running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service")) as found:
        found.hello("n", "a", "b", fields={"tier": "nvme"})
        yield found


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"size": 0, "seconds": 60}, "size: must be a whole number, at least 1"),
    ({"size": -5, "seconds": 60}, "size: must be a whole number, at least 1"),
    ({"size": "-5 GB", "seconds": 60}, "size: must be a whole number, at least 1"),
    ({"size": "many", "seconds": 60}, "size: 'many' is not a number with a unit"),
    ({"size": "5 parsec", "seconds": 60}, "size: '5 parsec' has no unit of bytes"),
    ({"size": 10**30, "seconds": 60}, "size: must be below 4 EiB"),
    ({"size": "1e400 GB", "seconds": 60}, "size: must be finite"),
    ({"size": True, "seconds": 60}, "size"),
    ({"size": GB}, "seconds: is missing"),
    ({"size": GB, "seconds": 0}, "seconds: must be above 0"),
    ({"size": GB, "seconds": "-1h"}, "seconds: must be above 0"),
    ({"size": GB, "seconds": "soon"}, "seconds: 'soon' is not a number with a unit"),
    ({"size": GB, "seconds": "1000d"}, "seconds: a grant lasts at most 30 d"),
    ({"size": GB, "seconds": 60, "start": 4e9}, "start: must be within the next 30 d"),
    ({"size": GB, "seconds": 60, "start": 1e300}, "start: must be seconds since 1970"),
    ({"size": GB, "seconds": 60, "sise": 3}, "sise: unknown field"),
    ({"size": GB, "seconds": 60, "job": "a\nb"}, "job: must be at most 200 printable characters"),
    ({"size": GB, "seconds": 60, "hosts": [""]}, "hosts: must have 1 to 200 printable characters"),
    ({"size": GB, "seconds": 60, "fields": {"tier": "a"}, "tier": "b"}, "tier: is 'b', but fields has 'a'"),
    ({"size": GB, "seconds": 60, "uid": -1}, "uid: must be a whole number, at least 0"),
    ({"size": GB, "seconds": 60, "ceiling": "-1 GB/s"}, "ceiling: must be finite and not negative"),
]


@pytest.mark.parametrize(("body", "words"), WRONG)
def test_a_request_that_makes_no_sense(service: Running, body: dict[str, Any], words: str) -> None:
    before = service.call("GET", "/v1/health")["journal"]
    assert service.error("POST", "/v1/grants", body).startswith(words)
    assert service.call("GET", "/v1/health")["journal"] == before


def test_what_is_no_json(service: Running) -> None:
    with service.client() as client:
        answer = client.post("/v1/grants", content=b"{", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()) == (
        400,
        {"error": "request body is not valid JSON", "code": "malformed"},
    )


@pytest.mark.parametrize(("kind", "body"), [("text/plain", b'{"size": 1}'), ("application/json", b"[1]")])
def test_a_body_that_is_no_json_object_is_told_how_to_be_one(service: Running, kind: str, body: bytes) -> None:
    with service.client() as client:
        answer = client.post("/v1/grants", content=body, headers={"Content-Type": kind})
    words = "request body must be a JSON object, sent with Content-Type: application/json"
    assert (answer.status_code, answer.json()["error"]) == (400, words)


@pytest.mark.parametrize(
    ("wants", "words"),
    [
        ({"tier": "tape"}, "no disk has tier 'tape'; known values: nvme"),
        ({"fields": {"colour": "red"}}, "no disk has the field 'colour'; known fields: tier"),
    ],
)
def test_fields_and_tiers_that_nothing_has(service: Running, wants: dict[str, Any], words: str) -> None:
    found = service.ask(**wants)
    assert (found["state"], found["because"]) == ("refused", words)


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/v1/grants/nobody", 404, "no grant 'nobody'"),
        ("POST", "/v1/grants/nobody/release", 404, "no grant 'nobody'"),
        ("POST", "/v1/nodes/m/drain", 404, "no node 'm'; use one of: n"),
        ("GET", "/v1/nodes/m/actions?seconds=0", 404, "no node 'm'; use one of: n"),
        ("GET", "/v1/grants?state=lost", 400, "state: "),
        ("GET", "/v1/grants?limit=0", 400, "limit: "),
        ("GET", "/v1/nowhere", 404, "not found"),
        ("DELETE", "/v1/health", 405, "method not allowed"),
        ("DELETE", "/v1/tokens/nobody", 404, "no token 'nobody'"),
    ],
)
def test_what_is_not_there(service: Running, method: str, path: str, status: int, words: str) -> None:
    assert service.error(method, path, status=status).startswith(words)


def test_a_disk_that_is_registered_twice(service: Running) -> None:
    before = service.call("GET", "/v1/nodes")
    twice = [{"name": "a", **DISK}, {"name": "a", **DISK}]
    words = service.error("POST", "/v1/nodes/n/hello", {"disks": twice, "volumes": [], "number": 9})
    assert words == "node n: disk[1]: disk 'a' is registered twice"
    assert service.call("GET", "/v1/nodes") == before


def test_rules_that_make_no_sense(service: Running) -> None:
    before = service.call("GET", "/v1/rules")
    assert service.error("PUT", "/v1/rules", {"interval": "0 s"}).startswith("rules.interval: must be from 1")
    assert service.error("PUT", "/v1/rules", {"tries": -1}).startswith("rules.tries: must not be negative")
    assert service.call("GET", "/v1/rules") == before


def test_the_description_names_every_way_in(service: Running) -> None:
    paths = service.call("GET", "/openapi.json")["paths"]
    assert {"/v1/grants", "/v1/grants/{grant}", "/v1/nodes/{node}/hello", "/v1/events", "/metrics"} <= set(paths)
    assert set(paths["/v1/grants"]["post"]["responses"]) >= {"200", "201", "400", "401", "403", "409", "503"}


def test_the_description_says_of_everything_what_it_means_and_how_far_it_goes(service: Running) -> None:
    document = service.call("GET", "/openapi.json")
    assert list(_undescribed(document)) == []
    assert document["servers"][0]["url"] == "/" and str(service.socket) in document["servers"][1]["description"]
    assert set(document["components"]["securitySchemes"]) == {"token", "munge", "login", "proof"}
    stream = document["paths"]["/v1/events"]["get"]["responses"]["200"]["content"]["text/event-stream"]["schema"]
    streamed = document["components"]["schemas"][stream["$ref"].rpartition("/")[2]]
    assert streamed["properties"]["data"]["contentSchema"] == {"$ref": "#/components/schemas/Event"}
    assert all("422" not in call["responses"] for calls in document["paths"].values() for call in calls.values())


def _undescribed(document: dict[str, Any]) -> Iterator[str]:
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            where = f"{method} {path}"
            if not (call.get("description") and call["tags"]):
                yield where
            for one in call.get("parameters", ()):
                if not one.get("description"):
                    yield f"{where} {one['name']}"
                yield from _unbounded(one["schema"], f"{where} {one['name']}")
    for name, schema in document["components"]["schemas"].items():
        if not schema.get("description"):
            yield name
        for field, one in schema.get("properties", {}).items():
            if not one.get("description"):
                yield f"{name}.{field}"
            yield from _unbounded(one, f"{name}.{field}")


_BOUNDS = {
    "integer": ({"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}),
    "number": ({"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}),
    "string": ({"maxLength", "pattern", "enum", "const"},),
    "array": ({"maxItems"},),
}


def _unbounded(schema: dict[str, Any], where: str) -> Iterator[str]:
    for needed in _BOUNDS.get(schema.get("type", ""), ()):
        if not needed & set(schema):
            yield f"{where}: {schema}"
    for inner in (*schema.get("anyOf", ()), *schema.get("prefixItems", ()), schema.get("items"),
                  schema.get("additionalProperties")):  # fmt: skip
        if isinstance(inner, dict):
            yield from _unbounded(inner, where)


def test_letters_that_are_none_are_told_as_they_came(service: Running) -> None:
    disks = [{"name": name, **DISK} for name in "ab"]
    body = rb'{"disks": %s, "volumes": [], "number": 11, "fields": {"tier": "nvme", "odd": "\ud800"}}'
    with service.client() as client:
        headers = {"Content-Type": "application/json"}
        answer = client.post("/v1/nodes/n/hello", content=body % json.dumps(disks).encode(), headers=headers)
        assert answer.status_code == 200
        assert rb'"odd":"\ud800"' in client.get("/v1/nodes").content


def test_nobody_is_heard_of_who_is_not_there(service: Running) -> None:
    for path in ("reports", "log"):
        service.call("POST", f"/v1/nodes/n/{path}", [])
    assert service.error("POST", "/v1/nodes/x%00y/log", [], status=404).startswith("no node 'x\\x00y'")
    service.call("POST", "/v1/nodes/x%00y/reports", [])
    assert [node["name"] for node in service.call("GET", "/v1/nodes")["nodes"]] == ["n"]
