"""docs/reference/json.md: what `--json` prints, field by field; and the values of the HTTP API."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from generate.commands import all_commands
from generate.markdown import code, page, table, words

HEAD = """\
With `--json`, a command prints one JSON document on stdout and nothing else. Times are seconds since 1970, durations
are seconds, sizes are bytes, and bandwidths are bytes per second. `null` means unknown or not a number. `a.b` is the
field `b` of the object `a`, and `a[]` is each element of the list `a`.
"""


@cache
def meanings() -> Mapping[str, Any]:
    """What the fields mean that `commands` print."""
    return tomllib.loads(files("forebay.show").joinpath("fields.toml").read_text())


def json_page() -> str:
    return page("JSON fields", HEAD, *(_command(path) for path in printing()))


def printing() -> Iterator[str]:
    """The commands that have `--json`."""
    return (path for path, found in all_commands() if any("--json" in one.opts for one in found.params))


def _command(path: str) -> str:
    cases = [name for name in meanings()["commands"] if name == path or name.startswith(f"{path}: ")]
    return "\n\n".join((f"## forebay {path}", *(_case(name, path) for name in cases)))


def _case(name: str, path: str) -> str:
    found = dict(meanings()["commands"][name])
    said, value = found.pop("_", ""), found.pop("_value", "")
    rows = [(code(field), *_kind_and_meaning(text)) for field, text in found.items()]
    parts = (
        f"**{words(name.removeprefix(f'{path}: '))}**" if name != path else "",
        _is_value(value) if value else "",
        said,
        table(("field", "kind", "meaning"), rows) if rows else "",
    )
    return "\n\n".join(part for part in parts if part)


def _is_value(value: str) -> str:
    name = value.removesuffix("[]")
    return f"{'A list of' if value.endswith('[]') else 'A'} [{name}](http.md#{name.lower()})."


def _kind_and_meaning(text: str) -> tuple[str, str]:
    kind, _, meaning = text.partition(": ")
    return kind, words(meaning)


def schemas_section(schemas: Mapping[str, Any]) -> str:
    """The values that bodies and answers are made of."""
    shown = {name: schema for name, schema in sorted(schemas.items()) if not name.endswith("ValidationError")}
    return "\n\n".join(("## Values", *(_schema(name, schema) for name, schema in shown.items())))


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    needed = schema.get("required", ())
    rows = [
        (
            code(field),
            schema_kind(one),
            _default(one, field in needed),
            words(one.get("description", "")),
        )
        for field, one in schema.get("properties", {}).items()
    ]
    is_body = name.endswith("Form")
    columns = ("field", "kind", "default", "meaning")
    if not is_body:
        columns, rows = ("field", "kind", "meaning"), [(a, b, d) for a, b, _, d in rows]  # type: ignore[assignment, misc]
    said = words(" ".join(str(schema.get("description", "")).split()))
    told = table(columns, rows) if rows else f"{schema_kind(schema)}."
    return "\n\n".join(part for part in (f"({name.lower()})=\n### {name}", said, told) if part)


def _default(schema: Mapping[str, Any], needed: bool) -> str:
    if needed or "default" not in schema:
        return "needed" if needed else ""
    return "" if schema["default"] in (None, "", [], {}) else code(str(schema["default"]))


_KINDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "boolean", "null": "null"}


def schema_kind(schema: Mapping[str, Any]) -> str:
    """A JSON schema in words; what is described elsewhere as a link."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(dict.fromkeys(schema_kind(one) for one in schema.get("anyOf", schema.get("oneOf"))))
    if "enum" in schema or "const" in schema:
        return " or ".join(code(json.dumps(one)) for one in schema.get("enum", [schema.get("const")]))
    if "prefixItems" in schema:
        return f"list of {' and '.join(schema_kind(one) for one in schema['prefixItems'])}"
    if schema.get("type") == "array":
        return f"list of {schema_kind(schema.get('items', {}))}"
    if schema.get("type") == "object":
        inside = schema.get("additionalProperties")
        return f"object of {schema_kind(inside)}" if isinstance(inside, dict) and inside else "object"
    return _KINDS.get(str(schema.get("type")), "anything")
