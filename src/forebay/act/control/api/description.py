"""The description of the API at /openapi.json: every call, document and event, who may call, and where."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib.resources import files
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from forebay.act.control import documents
from forebay.act.control.api import forms
from forebay.act.control.auth.browsers import PROOF
from forebay.act.control.auth.logins import COOKIE
from forebay.act.control.errors import ErrorCode, ErrorDocument
from forebay.act.control.service.settings import ServiceSettings
from forebay.decide.grants.codec import VERSION
from forebay.decide.grants.events import EVENTS

Schema = dict[str, Any]
Responses = dict[int | str, Schema]
EVENT = "Event"
"""The schema of one event, of whichever kind."""
STREAMED = "StreamedEvent"
"""The schema of one event of the stream at /v1/events."""
_REF = "#/components/schemas/"


def returns(document: type[Any], *statuses: int) -> Schema:
    """How a route declares its answer; FastAPI does not check it again in every call."""
    answer = _response((document.__doc__ or "").split("\n")[0], "application/json", document.__name__)
    return {"response_model": None, "responses": dict.fromkeys(statuses or (200,), answer)}


def _response(description: str, media: str, schema: str = "") -> Schema:
    content = {"$ref": f"{_REF}{schema}"} if schema else {"type": "string"}
    return {"description": description, "content": {media: {"schema": content}}}


def _error(status: int) -> Schema:
    meanings = " ".join(f"`{code.value}`: {code.meaning}" for code in ErrorCode if code.status == status)
    return _response(meanings, "application/json", ErrorDocument.__name__)


ERRORS: Responses = {code.status: _error(code.status) for code in ErrorCode}
STREAM: Responses = {
    200: _response(
        "Server-sent events. A line that begins with a colon keeps the connection alive.", "text/event-stream", STREAMED
    )
}
TEXT: Responses = {200: _response("Text in the format of Prometheus.", "text/plain")}
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
def event_meanings() -> Mapping[str, str]:
    """What the fields of events mean, by name."""
    return tomllib.loads(files("forebay.act.control.api").joinpath("event_fields.toml").read_text())


def describe_api(app: FastAPI, settings: ServiceSettings) -> Schema:
    description = get_openapi(title=app.title, version=app.version, description=_ABOUT, routes=app.routes)
    for path, calls in description["paths"].items():
        for method, call in calls.items():
            call["responses"].pop("422", None)  # FastAPI's own; a malformed request is answered with 400
            call["security"] = [] if (method, path) in _OPEN else _security(method)
            call.setdefault("tags", ["service"])
    description["components"]["schemas"] = all_schemas(description)
    _bound(description["paths"])
    description["components"]["securitySchemes"] = _SCHEMES
    description["servers"] = list(_servers(settings))
    description["security"] = _security("get")
    description["tags"] = [{"name": name, "description": meaning} for name, meaning in _TAGS.items()]
    return description


def all_schemas(description: Schema) -> dict[str, Schema]:
    """Schemas of forms (which FastAPI has put into `description`), of documents and of events."""
    schemas: dict[str, Schema] = description["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for name, schema in schemas.items():
        hints = get_type_hints(getattr(forms, name), include_extras=True)
        for field, own in schema.get("properties", {}).items():
            own |= _notes(hints[field])
    for document in (ErrorDocument, *filter(is_typeddict, vars(documents).values())):
        schemas[document.__name__] = _record(document, schemas)
    schemas |= event_schemas()
    _bound(schemas)
    return schemas


def _servers(settings: ServiceSettings) -> Iterator[Schema]:
    yield {"url": "/", "description": "Where this description was read from."}
    if settings.socket is not None:
        how = f"curl --unix-socket {settings.socket} http://localhost/v1/health"
        yield {"url": "http://localhost", "description": f"By the UNIX socket {settings.socket}: {how}"}


def _security(method: str) -> list[Schema]:
    login: Schema = {"login": []} if method == "get" else {"login": [], "proof": []}
    return [{"token": []}, {"munge": []}, login, _ON_SOCKET]


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


# Documents and events


def event_schemas() -> dict[str, Schema]:
    """Of every kind of event, of the values in them, and of any event, whose `kind` tells which one it is."""
    schemas: dict[str, Schema] = {}
    for kind in EVENTS.values():
        schema = _record(kind, schemas)
        schema["properties"] = {"v": {"const": VERSION}, "kind": {"const": kind.__name__}, **schema["properties"]}
        schema["required"] = ["v", "kind", *schema["required"]]
        schemas[f"{kind.__name__}{EVENT}"] = schema
    for schema in schemas.values():
        for name, field in schema["properties"].items():
            field["description"] = event_meanings().get(name, "")
    names = {name: f"{_REF}{name}{EVENT}" for name in EVENTS}
    schemas[STREAMED] = {
        "type": "object",
        "title": STREAMED,
        "description": "One of the server-sent events of a stream. Each field is a line.",
        "properties": {
            "id": {
                "type": "string",
                "pattern": "^[0-9]{1,19}$",
                "description": "The event's number in the journal. Send it as Last-Event-ID to continue after it.",
            },
            "event": {"type": "string", "enum": list(names), "description": "The kind of event."},
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": {"$ref": f"{_REF}{EVENT}"},
                "description": "The event as one line of JSON.",
            },
        },
        "required": ["id", "event", "data"],
    }
    schemas[EVENT] = {
        "title": EVENT,
        "description": "Something that happened, as in the journal. Fields with their default value are left out.",
        "oneOf": [{"$ref": name} for name in names.values()],
        "discriminator": {"propertyName": "kind", "mapping": names},
    }
    _bound(schemas)
    return schemas


def _record(kind: type[Any], schemas: dict[str, Schema]) -> Schema:
    """The schema of a TypedDict or dataclass; other records in it go to `schemas`."""
    hints = get_type_hints(kind, include_extras=True)
    own = {each.name: each for each in fields(kind)} if is_dataclass(kind) else dict.fromkeys(hints)
    required = [name for name, each in own.items() if each is None or each.default is each.default_factory is MISSING]
    return {
        "type": "object",
        "title": kind.__name__,
        "description": " ".join((kind.__doc__ or "").split()),
        "properties": {name: _of_type(hints[name], schemas) for name in own},
        "required": required,
        "additionalProperties": False,
    }


def _notes(hint: Any) -> Schema:
    """What an annotation adds: its meaning (text), and keywords of JSON Schema (a dict)."""
    notes: Schema = {}
    for note in get_args(hint)[1:] if get_origin(hint) is Annotated else ():
        notes |= {"description": note} if isinstance(note, str) else note if isinstance(note, dict) else {}
    return notes


def _of_type(kind: Any, schemas: dict[str, Schema]) -> Schema:
    """The schema of a field; records go to `schemas`."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _of_type(inner[0], schemas) | _notes(kind)
    if origin is Literal:
        return dict(_SCALARS[type(inner[0])]) | {"enum": list(inner)}
    if origin in (Union, UnionType):
        return {"anyOf": [_of_type(each, schemas) for each in inner]}
    if origin is list or (origin is tuple and inner[1:] == (...,)):
        return {"type": "array", "items": _of_type(inner[0], schemas)}
    if origin is tuple:
        items = [_of_type(each, schemas) for each in inner]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of_type(inner[1], schemas)}
    if isinstance(kind, type) and (is_dataclass(kind) or is_typeddict(kind)):
        if kind.__name__ not in schemas:
            schemas[kind.__name__] = _record(kind, schemas)
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
