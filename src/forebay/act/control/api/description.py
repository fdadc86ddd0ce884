"""The description of the API at /openapi.json: every call, document and event, who may call, and where."""

import copy
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib.resources import files
from itertools import groupby
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from forebay.act.control import documents
from forebay.act.control.api import forms
from forebay.act.control.auth.logins import COOKIE, PROOF
from forebay.act.control.errors import ErrorCode, ErrorDocument
from forebay.act.control.service.settings import ServiceSettings
from forebay.decide.grants.codec import VERSION
from forebay.decide.grants.events import EVENTS

Schema = dict[str, Any]
EVENT, STREAMED = "Event", "StreamedEvent"
"""The schemas of one event, of whichever kind, and of one event of the stream at /v1/events."""
_REF = "#/components/schemas/"
_OPEN = frozenset({("get", "/v1/health"), ("post", "/v1/login")})
_LEAST, _MOST = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
_WIDEST: dict[str, tuple[tuple[tuple[str, ...], float], ...]] = {
    "integer": ((_LEAST, -(2**63)), (_MOST, 2**64 - 1)),
    "number": ((_LEAST, -1.7976931348623157e308), (_MOST, 1.7976931348623157e308)),
    "string": ((("maxLength", "pattern", "enum", "const"), 16 * 2**20),),  # an agent's largest body
    "array": ((("maxItems",), 1_000_000),),
}
"""By type: groups of keywords. A schema without any keyword of a group gets the first, with this value."""
_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    object: {},
}


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(files("forebay.act.control.api").joinpath("description.toml").read_text())


def event_meanings() -> Mapping[str, str]:
    """The meanings of the fields of events, by name."""
    meanings: Mapping[str, str] = _texts()["event_fields"]
    return meanings


def response(description: str, media: str, schema: str = "") -> Schema:
    """An answer of this media type; `schema` names its schema, "" means text."""
    content = {"$ref": f"{_REF}{schema}"} if schema else {"type": "string"}
    return {"description": description, "content": {media: {"schema": content}}}


def document_response(document: type[Any]) -> Schema:
    return response(_meaning(document), "application/json", document.__name__)


ERRORS: dict[int | str, Schema] = {
    status: response(" ".join(f"`{code.value}`: {code.meaning}" for code in codes), "application/json", "ErrorDocument")
    for status, codes in groupby(ErrorCode, key=attrgetter("status"))
}


def describe_api(app: FastAPI, settings: ServiceSettings) -> Schema:
    about, tags = _texts()["about"], _texts()["tagged"]
    description = get_openapi(title=app.title, version=app.version, description=about, routes=app.routes)
    for path, calls in description["paths"].items():
        for method, call in calls.items():
            call["responses"].pop("422", None)  # FastAPI's default; ours answers a malformed request with 400
            call["security"] = [] if (method, path) in _OPEN else _security(method)
            call["tags"] = [next((tag for tag, start in tags.items() if path.startswith(tuple(start))), "service")]
    description["components"]["schemas"] = all_schemas(description)
    _add_bounds(description["paths"])
    schemes = copy.deepcopy(_texts()["schemes"])
    schemes["login"]["name"], schemes["proof"]["name"] = COOKIE, PROOF
    description["components"]["securitySchemes"] = schemes
    description["servers"] = [{"url": "/", "description": "Where this description was read from."}]
    if settings.socket is not None:
        how = f"curl --unix-socket {settings.socket} http://localhost/v1/health"
        place = {"url": "http://localhost", "description": f"On the UNIX socket {settings.socket}: {how}"}
        description["servers"].append(place)
    description["security"] = _security("get")
    description["tags"] = [{"name": name, "description": meaning} for name, meaning in _texts()["tags"].items()]
    return description


def _security(method: str) -> list[Schema]:
    """A token, a credential, a login, or nothing: the kernel identifies a caller on the UNIX socket."""
    login: Schema = {"login": []} if method == "get" else {"login": [], "proof": []}
    return [{"token": []}, {"munge": []}, login, {}]


def all_schemas(description: Schema) -> dict[str, Schema]:
    """The schemas of forms (which FastAPI put into `description`), of documents and of events."""
    schemas: dict[str, Schema] = description["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for name, schema in schemas.items():
        hints = get_type_hints(getattr(forms, name), include_extras=True)
        for field, properties in schema.get("properties", {}).items():
            properties |= _notes(hints[field])
    for name in re.findall(rf'"{_REF}(\w+)"', json.dumps(description["paths"])):
        document = ErrorDocument if name == ErrorDocument.__name__ else getattr(documents, name, None)
        if document is not None and name not in schemas:
            schemas[name] = _record(document, schemas)
    schemas |= event_schemas()
    _add_bounds(schemas)
    return schemas


def event_schemas() -> dict[str, Schema]:
    """The schemas of every kind of event, of their values, and of any event, with `kind` as the discriminator."""
    schemas: dict[str, Schema] = {}
    for kind in EVENTS.values():
        schema = _record(kind, schemas)
        schema["properties"] = {"v": {"const": VERSION}, "kind": {"const": kind.__name__}, **schema["properties"]}
        schema["required"] = ["v", "kind", *schema["required"]]
        schemas[f"{kind.__name__}{EVENT}"] = schema
    for schema in schemas.values():
        for name, field in schema["properties"].items():
            field["description"] = event_meanings().get(name, "")
    schemas |= copy.deepcopy(_texts()["schemas"])
    names = {name: f"{_REF}{name}{EVENT}" for name in EVENTS}
    schemas[STREAMED]["properties"]["event"]["enum"] = list(names)
    schemas[EVENT]["oneOf"] = [{"$ref": name} for name in names.values()]
    schemas[EVENT]["discriminator"] = {"propertyName": "kind", "mapping": names}
    _add_bounds(schemas)
    return schemas


def _add_bounds(schema: Any) -> None:
    """Add the widest possible bounds to everything without bounds."""
    if isinstance(schema, list | dict):
        for each in schema if isinstance(schema, list) else schema.values():
            _add_bounds(each)
    if isinstance(schema, dict) and isinstance(kind := schema.get("type"), str):
        for keywords, widest in _WIDEST.get(kind, ()):
            if not schema.keys() & set(keywords):
                schema[keywords[0]] = widest


def _record(kind: type[Any], schemas: dict[str, Schema]) -> Schema:
    """The schema of a TypedDict or dataclass; other records in it go to `schemas`."""
    hints = get_type_hints(kind, include_extras=True)
    required = list(hints)
    if is_dataclass(kind):
        hints = {each.name: hints[each.name] for each in fields(kind)}
        required = [each.name for each in fields(kind) if each.default is each.default_factory is MISSING]
    return {
        "type": "object",
        "title": kind.__name__,
        "description": _meaning(kind),
        "properties": {name: _of_type(hint, schemas) for name, hint in hints.items()},
        "required": required,
        "additionalProperties": False,
    }


def _meaning(kind: type[Any]) -> str:
    """The docstring of a record, or the meaning of its only field."""
    fields = get_type_hints(kind, include_extras=True).values()
    return " ".join((kind.__doc__ or _notes(*fields)["description"]).split())


def _notes(hint: Any) -> Schema:
    """The additions of an annotation: a meaning (text), and keywords of JSON Schema (a dict)."""
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
        return _SCALARS[type(inner[0])] | {"enum": list(inner)}
    if origin in (Union, UnionType):
        return {"anyOf": [_of_type(each, schemas) for each in inner]}
    if origin is list or (origin is tuple and inner[1:] == (...,)):
        return {"type": "array", "items": _of_type(inner[0], schemas)}
    if origin is tuple:
        items = [_of_type(each, schemas) for each in inner]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of_type(inner[1], schemas)}
    if is_dataclass(kind) or is_typeddict(kind):
        if kind.__name__ not in schemas:
            schemas[kind.__name__] = _record(kind, schemas)
        return {"$ref": f"{_REF}{kind.__name__}"}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"type": "string", "enum": [each.value for each in kind]}
    return dict(_SCALARS[kind])
