"""The description of the API, as /openapi.json tells it: what every field means and may be, who may call, where, and
what the stream of events holds."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib.resources import files
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from forebay.act.control.auth.browsers import PROOF
from forebay.act.control.auth.logins import COOKIE
from forebay.act.control.service.settings import ServiceSettings
from forebay.decide.grants.codec import VERSION
from forebay.decide.grants.events import EVENTS

Schema = dict[str, Any]
EVENT = "Event"
"""The schema of one event, of whichever kind."""
STREAMED = "StreamedEvent"
"""The schema of one event of the stream at /v1/events."""
_REF = "#/components/schemas/"
STREAM: dict[int | str, Schema] = {
    200: {
        "description": "Server-sent events, until the time is over; lines that begin with a colon only show that the "
        "service is there.",
        "content": {"text/event-stream": {"schema": {"$ref": f"{_REF}{STREAMED}"}}},
    }
}
TEXT: dict[int | str, Schema] = {
    200: {"description": "Text in the format of Prometheus.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}
_ABOUT = """\
Ask for space on storage nodes, look at what was granted, and give it back; what agents and administrators do besides.

On the UNIX socket the kernel tells who calls, and nothing need be shown. Over TLS a caller shows a token or a MUNGE
credential, a browser the cookie of its login. Bodies and answers are JSON. Times are seconds since 1970, sizes bytes,
bandwidths bytes per second; where a body takes a size, a duration or a bandwidth, it may be text with a unit, such as
"2 TB" or "1h". Every error is {"error": SENTENCE, "code": CODE}: the sentence is for people, the code for programs.\
"""
_TAGS = {
    "grants": "Ask for space, look, wait, extend, give back.",
    "nodes": "Storage nodes: what their agents say and do, and what administrators do with them.",
    "strays": "Volumes that no grant owns (any more).",
    "tiers": "What a batch system asks before and between its jobs; all of it only looks.",
    "service": "Health, policy, rules, journal, events, metrics and tokens.",
    "page": "Logins of the page.",
}
_SCHEMES: dict[str, Schema] = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token that `forebay token make` or `POST /v1/tokens` made.",
    },
    "munge": {
        "type": "http",
        "scheme": "MUNGE",
        "description": "`Authorization: MUNGE CREDENTIAL`, a credential made for this very call.",
    },
    "login": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "The login of a browser."},
    "proof": {
        "type": "apiKey",
        "in": "header",
        "name": PROOF,
        "description": "With a login: the `proof` of its answer, in every call that changes something.",
    },
}
_ON_SOCKET: Schema = {}
"""Nothing is shown: the kernel tells who is at the other end of the UNIX socket."""
_OPEN = frozenset({("get", "/v1/health"), ("post", "/v1/login")})
_MOST_TEXT = 16 * 2**20
"""Characters: what an agent may send in one call, and so the longest that anything here can be."""
_WIDEST: dict[str, Schema] = {
    "integer": {"minimum": -(2**63), "maximum": 2**64 - 1},
    "number": {"minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308},
    "string": {"maxLength": _MOST_TEXT},
    "array": {"maxItems": 1_000_000},
}
_IS_BOUNDED = {
    "integer": ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"),
    "number": ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"),
    "string": ("maxLength", "pattern", "enum", "const"),
    "array": ("maxItems",),
}


@cache
def meanings() -> Mapping[str, Mapping[str, str]]:
    """What fields mean, by value and name."""
    return tomllib.loads(files("forebay.act.control.api").joinpath("fields.toml").read_text())


def describe_api(app: FastAPI, settings: ServiceSettings) -> Schema:
    document = get_openapi(title=app.title, version=app.version, description=_ABOUT, routes=app.routes)
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            _describe_call(method, path, call)
    for name, schema in schemas.items():
        _describe_fields(schema, meanings().get(name, {}))
    schemas.update(event_schemas())
    schemas["JournalEvent"]["properties"]["event"] |= {"$ref": f"{_REF}{EVENT}"}
    _bound(document["paths"])
    _bound(schemas)
    document["components"]["securitySchemes"] = _SCHEMES
    document["servers"] = list(_servers(settings))
    document["security"] = _security("get")
    document["tags"] = [{"name": name, "description": words} for name, words in _TAGS.items()]
    return document


def _servers(settings: ServiceSettings) -> Iterator[Schema]:
    yield {"url": "/", "description": "Where this description was read from."}
    if settings.socket is not None:
        how = f"curl --unix-socket {settings.socket} http://localhost/v1/health"
        yield {"url": "http://localhost", "description": f"By the UNIX socket {settings.socket}: {how}"}


def _security(method: str) -> list[Schema]:
    login: Schema = {"login": []} if method == "get" else {"login": [], "proof": []}
    return [{"token": []}, {"munge": []}, login, _ON_SOCKET]


def _describe_call(method: str, path: str, call: Schema) -> None:
    call["responses"].pop("422", None)  # what is malformed is told as 400
    call["security"] = [] if (method, path) in _OPEN else _security(method)
    call.setdefault("tags", ["service"])
    for parameter in call.get("parameters", ()):
        parameter.setdefault("description", meanings()["parameters"].get(parameter["name"], ""))


def _describe_fields(schema: Schema, told: Mapping[str, str]) -> None:
    for name, field in schema.get("properties", {}).items():
        if name in told:
            field["description"] = told[name]


def _bound(schema: Any) -> None:
    """Say how far everything goes: what has no bounds of its own gets the widest that there can be."""
    if isinstance(schema, list):
        for each in schema:
            _bound(each)
    elif isinstance(schema, dict):
        for each in schema.values():
            _bound(each)
        kind = schema.get("type")
        if isinstance(kind, str) and kind in _WIDEST and not set(schema) & set(_IS_BOUNDED[kind]):
            schema.update(_WIDEST[kind])
        elif kind in ("integer", "number"):
            _close(schema, _WIDEST[kind])


def _close(schema: Schema, widest: Schema) -> None:
    if not {"minimum", "exclusiveMinimum", "enum", "const"} & set(schema):
        schema["minimum"] = widest["minimum"]
    if not {"maximum", "exclusiveMaximum", "enum", "const"} & set(schema):
        schema["maximum"] = widest["maximum"]


# Events


def event_schemas() -> dict[str, Schema]:
    """Of every kind of event, of the values in them, and of any event, which `kind` tells apart."""
    found: dict[str, Schema] = {}
    for kind in EVENTS.values():
        schema = _record(kind, found)
        schema["properties"] = {
            "v": {"const": VERSION, "description": meanings()["events"]["v"]},
            "kind": {"const": kind.__name__, "description": meanings()["events"]["kind"]},
        } | schema["properties"]
        schema["required"] = ["v", "kind", *schema["required"]]
        found[f"{kind.__name__}{EVENT}"] = schema
    names = {name: f"{_REF}{name}{EVENT}" for name in EVENTS}
    found[STREAMED] = {
        "type": "object",
        "title": STREAMED,
        "description": "One of the server-sent events of a stream; each has these fields, a line each.",
        "properties": {
            "id": {"type": "string", "pattern": "^[0-9]{1,19}$"},
            "event": {"type": "string", "enum": list(names)},
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": {"$ref": f"{_REF}{EVENT}"},
            },
        },
        "required": ["id", "event", "data"],
    }
    _describe_fields(found[STREAMED], meanings()[STREAMED])
    found[EVENT] = {
        "title": EVENT,
        "description": "Something that happened, as the journal has it. Fields that are as by default are left out.",
        "oneOf": [{"$ref": name} for name in names.values()],
        "discriminator": {"propertyName": "kind", "mapping": names},
    }
    _bound(found)
    return found


def _record(kind: type[Any], found: dict[str, Schema]) -> Schema:
    hints, told = get_type_hints(kind), meanings()["events"]
    own = fields(kind)
    return {
        "type": "object",
        "title": kind.__name__,
        "description": " ".join((kind.__doc__ or "").split()),
        "properties": {
            each.name: _of_type(hints[each.name], found) | {"description": told.get(each.name, "")} for each in own
        },
        "required": [each.name for each in own if each.default is MISSING and each.default_factory is MISSING],
        "additionalProperties": False,
    }


def _of_type(kind: Any, found: dict[str, Schema]) -> Schema:
    """The schema of a field of an event, as the journal's codec writes it; other records go to `found`."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return {"anyOf": [_of_type(each, found) for each in inner]}
    if origin is tuple and inner[1:] == (...,):
        return {"type": "array", "items": _of_type(inner[0], found)}
    if origin is tuple:
        items = [_of_type(each, found) for each in inner]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of_type(inner[1], found)}
    if isinstance(kind, type) and is_dataclass(kind):
        found.setdefault(kind.__name__, _record(kind, found))
        return {"$ref": f"{_REF}{kind.__name__}"}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"type": "string", "enum": [each.value for each in kind]}
    return dict(_SCALARS[kind])


_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    object: {},
}
