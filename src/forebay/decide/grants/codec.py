"""Events as JSON documents and back: {"v": 1, "kind": "Granted", "at": 1.0, ...}."""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from forebay.decide.grants.events import EVENTS, Event
from forebay.decide.grants.machine import KEPT_AS
from forebay.model.errors import BadInput

VERSION = 1
T = TypeVar("T")
Reader = Callable[[str, Any], Any]  # converts the JSON value at a place, or raises an error that names the place
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_AS_IT_IS = frozenset((str, int, float, bool, NoneType))


def to_line(event: Event) -> str:
    return _ENCODER.encode({"v": VERSION, "kind": type(event).__name__, **plain(event)})


def from_line(line: str | bytes, where: str = "journal") -> Event:
    """The event in a line of a journal; an error names `where`."""
    try:
        document = json.loads(line)
    except ValueError:
        raise BadInput(where, "is not valid JSON; the journal may be cut off here") from None
    if not isinstance(document, dict):
        raise BadInput(where, "is not an event; an event is a JSON object")
    return event_of(document, where)


def event_of(document: Mapping[str, Any], where: str = "journal") -> Event:
    values = dict(document)
    version, kind = values.pop("v", None), values.pop("kind", None)
    if version != VERSION:
        raise BadInput(where, f"has version {version!r}; this release reads version {VERSION}")
    if kind not in EVENTS:
        raise BadInput(where, f"unknown kind of event {kind!r}; a later release may have written it")
    return read(EVENTS[kind], values, where)


@cache
def _fields(kind: Any) -> tuple[tuple[str, str, Any, Any, bool], ...]:
    """For each field of a record: its name, its stored name, its default, its type, and whether 1 means 1.0."""
    hints = get_type_hints(kind)
    return tuple(
        (
            field.name,
            field.metadata.get(KEPT_AS, field.name),
            field.default if field.default_factory is MISSING else field.default_factory(),
            hints[field.name],
            float in (hints[field.name], *get_args(hints[field.name])),
        )
        for field in fields(kind)
    )


def plain(value: Any) -> Any:
    """A value as text, numbers, lists and dictionaries, without the fields that have their default."""
    kind: Any = type(value)
    if kind in _AS_IT_IS:
        return value
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(kind):
        document = {}
        for name, kept_name, default, _, is_real in _fields(value.__class__):
            item = getattr(value, name)
            if item is not default and item != default:
                if type(item) not in _AS_IT_IS:
                    item = item.value if isinstance(item, Enum) else plain(item)
                document[kept_name] = float(item) if is_real and item is not None else item
        return document
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): plain(value[name]) for name in sorted(value)}
    return value


def read(kind: type[T], document: Any, where: str) -> T:
    """The reverse of `plain`: the value of this kind in a document."""
    reader: Any = _reader
    value: T = reader(kind)(where, document)
    return value


@cache
def _reader(kind: Any) -> Reader:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        some = next(_reader(part) for part in inner if part is not NoneType)
        return lambda where, value: None if value is None else some(where, value)
    if origin is tuple and inner[1:] == (...,):
        item = _reader(inner[0])
        return lambda where, value: tuple(item(where, part) for part in _check(list, where, value))
    if origin is tuple:
        items = [_reader(part) for part in inner]
        return lambda where, value: _read_items(items, where, value)
    if is_dataclass(kind):
        return _record_reader(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda where, value: _read_enum(kind, where, value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        entry = _reader(inner[1])
        return lambda where, value: {k: entry(f"{where}.{k}", v) for k, v in _check(dict, where, value).items()}
    if kind is object:
        return lambda _, value: value
    if kind is float:
        return lambda where, value: float(_check((int, float), where, value))
    return lambda where, value: _check(kind, where, value)


def _record_reader(kind: Any) -> Reader:
    readers = {kept_name: (name, _reader(hint)) for name, kept_name, _, hint, _ in _fields(kind)}
    required = {kept_name for _, kept_name, default, _, _ in _fields(kind) if default is MISSING}

    def read_record(where: str, value: Any) -> Any:
        document = _check(dict, where, value)
        if unknown := document.keys() - readers.keys():
            raise BadInput(where, f"{kind.__name__} has an unknown field {min(unknown)!r}")
        if missing := required - document.keys():
            raise BadInput(where, f"{kind.__name__} lacks {min(missing)!r}")
        values = {}
        for kept_name, item in document.items():
            name, reader = readers[kept_name]
            values[name] = reader(f"{where}.{kept_name}", item)
        return kind(**values)

    return read_record


def _check(kind: Any, where: str, value: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise BadInput(where, f"unexpected value {value!r:.60}")
    return value


def _read_items(items: list[Reader], where: str, value: Any) -> tuple[Any, ...]:
    if len(_check(list, where, value)) != len(items):
        raise BadInput(where, f"must have {len(items)} items, not {len(value)}")
    return tuple(item(where, part) for item, part in zip(items, value, strict=True))


def _read_enum(kind: type[Enum], where: str, value: Any) -> Enum:
    try:
        return kind(value)
    except ValueError as error:
        raise BadInput(where, str(error)) from None
