"""docs/reference/http.md: the HTTP API, from the application's own description of itself."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, cast

from fastapi.openapi.utils import get_openapi

from forebay.act.control.api.app import build
from forebay.act.control.api.description import all_schemas
from forebay.act.control.errors import ErrorCode
from forebay.model.reasons import Reason
from generate.json_fields import schema_kind, schemas_section
from generate.markdown import code, page, table, words

HEAD = """\
On the service's UNIX socket, the kernel identifies the caller. At `listen` (TLS), a caller sends a token
(`Authorization: Bearer TOKEN`) or a MUNGE credential. Bodies and answers are JSON. Times are seconds since 1970, and
sizes are bytes; a body can also have a size or duration as text with a unit. The running service serves most of this
description at `/openapi.json` to identified callers.

```console
$ curl --unix-socket /run/forebay/service.sock http://forebay/v1/health
```

Every error is `{"error": SENTENCE, "code": CODE}`. The sentence is for people and may change; programs use the code.
"""
_AGENTS = ("hello", "actions", "reports", "log", "rates")


def http_page() -> str:
    document = described()
    calls = [_call(*call) for call in all_calls(document)]
    return page(
        "HTTP API",
        HEAD,
        _errors(),
        _reasons(),
        *calls,
        schemas_section(document["components"]["schemas"]),
    )


def described() -> dict[str, Any]:
    """The application's description, with what it leaves out of the one that it serves."""
    document = get_openapi(title="Forebay", version="", routes=[_told(route) for route in routes()])
    document["components"]["schemas"] = all_schemas(document)
    return document


def _told(route: Any) -> Any:
    own = copy.copy(route)
    own.include_in_schema = True
    return own


def routes() -> list[Any]:
    """All that the service answers to; nobody calls it here, so that it needs nothing behind it."""
    return sorted(_routes(build(cast(Any, None)).routes), key=lambda route: (route.path, min(route.methods)))


def all_calls(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any], str]]:
    """(method, path, its description, who may) of each call, in the order of the paths."""
    for route in routes():
        for method in sorted(route.methods - {"HEAD", "OPTIONS"}):
            yield method, route.path, document["paths"][route.path][method.lower()], _may(route)


def _routes(found: list[Any]) -> Iterator[Any]:
    for route in found:
        if hasattr(route, "dependant"):
            yield route
        else:  # what was included, in the way of the installed FastAPI
            yield from _routes(getattr(getattr(route, "original_router", None), "routes", []))


def _may(route: Any) -> str:
    asked = set(_dependencies(route.dependant))
    if route.path.startswith("/v1/nodes/{node}/") and route.path.rsplit("/", 1)[1] in _AGENTS:
        return "the agent of that node"
    if "_require_administrator" in asked:
        return "administrators"
    if "{grant}" in route.path:
        return "the grant's owner, administrators"
    return "identified callers" if "identify_caller" in asked else "anybody"


def _dependencies(dependant: Any) -> Iterator[str]:
    for one in dependant.dependencies:
        yield one.call.__name__
        yield from _dependencies(one)


def _errors() -> str:
    rows = [(code(each.value), str(each.status), words(each.meaning)) for each in ErrorCode]
    return "## Errors\n\n" + table(("code", "status", "meaning"), rows)


def _reasons() -> str:
    rows = [(code(each.value) if each else "(empty)", words(each.meaning)) for each in Reason]
    head = "Where `because` has a sentence, `reason` has its code. Read an unknown code as `other`."
    return f"## Reasons\n\n{head}\n\n" + table(("code", "meaning"), rows)


def _call(method: str, path: str, found: dict[str, Any], may: str) -> str:
    parts = [
        f"## `{method} {path}`",
        words(" ".join((found.get("description") or "").split())),
        f"May: {may}.",
        _parameters(found.get("parameters", [])),
        _body(found.get("requestBody")),
        _answers(found.get("responses", {})),
    ]
    return "\n\n".join(part for part in parts if part)


def _parameters(found: list[dict[str, Any]]) -> str:
    rows = [
        (
            code(one["name"]),
            one["in"],
            schema_kind(one["schema"]),
            "needed" if one.get("required") else code(one["schema"].get("default", "")),
            words(one.get("description", "")),
        )
        for one in found
    ]
    return table(("parameter", "in", "kind", "default", "meaning"), rows) if rows else ""


def _body(found: dict[str, Any] | None) -> str:
    return f"Body: {_content(found)}." if found else ""


def _answers(found: dict[str, Any]) -> str:
    said = [f"{status} {_content(one)}".strip() for status, one in found.items() if status[0] == "2"]
    return f"Answer: {', '.join(said)}." if said else ""


def _content(found: dict[str, Any]) -> str:
    contents: dict[str, Any] = found.get("content", {})
    kind = next(iter(contents), "")
    schema = contents[kind].get("schema", {}) if kind else {}
    if "$ref" in schema and kind != "application/json":
        return f"{code(kind)} of {schema_kind(schema)}"
    return schema_kind(schema) if schema and kind == "application/json" else code(kind)
