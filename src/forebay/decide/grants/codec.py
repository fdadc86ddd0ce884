"""Events as JSON documents and back: {"v": 1, "kind": "Granted", "at": 1.0, ...}."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from forebay.decide.grants.events import EVENTS, Event
from forebay.model.errors import BadInput

VERSION = 1
T = TypeVar("T")
Reader = Callable[[str, Any], Any]


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_AS_IT_IS = frozenset((str, int, float, bool, NoneType))


def to_line(event: Event) -> str:
    """One line of a journal."""
    return _ENCODER.encode({"v": VERSION, "kind": type(event).__name__, **plain(event)})


def from_line(line: str | bytes, where: str = "journal") -> Event:
    """The event in a line of a journal; `where` is told if there is none."""
    try:
        document = json.loads(line)
    except ValueError:
        raise BadInput(where, "is not valid JSON; the journal may be cut off here") from None
    if not isinstance(document, dict):
        raise BadInput(where, "is not an event")
    return event_of(document, where)


def event_of(document: Mapping[str, Any], where: str = "journal") -> Event:
    """The event that a line of a journal holds as JSON."""
    fields = dict(document)
    version, kind = fields.pop("v", None), fields.pop("kind", None)
    if version != VERSION:
        raise BadInput(where, f"has version {version!r}; this program reads version {VERSION}")
    if kind not in EVENTS:
        raise BadInput(where, f"unknown kind of event {kind!r}")
    return read(EVENTS[kind], fields, where)


def plain(value: Any) -> Any:
    """A value of ours in words, numbers, lists and dictionaries; what is as by default is left out."""
    if type(value) in _AS_IT_IS:  # almost all are
        return value
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return _record_of(value)
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): plain(value[name]) for name in sorted(value)}
    return value


def _record_of(value: Any) -> dict[str, Any]:
    told, kind = {}, cast(Hashable, type(value))
    for name, default, is_real in _fields(kind):
        own = getattr(value, name)
        if own is not default and own != default:
            told[name] = float(own) if is_real and own is not None else plain(own)
    return told


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    """Of a kind of value, the fields with their defaults, and whether they are real numbers (1 is 1.0 then)."""
    hints = get_type_hints(kind)
    return tuple(
        (
            each.name,
            each.default_factory() if each.default_factory is not MISSING else each.default,
            float in (hints[each.name], *get_args(hints[each.name])),
        )
        for each in fields(kind)
    )


def read(kind: type[T], document: Any, where: str) -> T:
    """The value of that kind that `plain` made the document of."""
    reader: Any = _reader
    made: T = reader(kind)(where, document)
    return made


@cache
def _reader(kind: Any) -> Reader:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _optional(next(_reader(each) for each in inner if each is not NoneType))
    if origin is tuple:
        return _many(_reader(inner[0])) if inner[1:] == (...,) else _fixed([_reader(each) for each in inner])
    if isinstance(kind, type) and is_dataclass(kind):
        return _record(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _checked(lambda value: kind(value))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(_reader(inner[1]))
    return _scalar(kind)


def _optional(own: Reader) -> Reader:
    return lambda where, value: None if value is None else own(where, value)


def _many(own: Reader) -> Reader:
    return lambda where, value: tuple(own(where, item) for item in _of(list, where, value))


def _fixed(own: list[Reader]) -> Reader:
    def read_fixed(where: str, value: Any) -> Any:
        if len(_of(list, where, value)) != len(own):
            raise BadInput(where, f"must have {len(own)} items, not {len(value)}")
        return tuple(each(where, item) for each, item in zip(own, value, strict=True))

    return read_fixed


def _mapping(own: Reader) -> Reader:
    return lambda where, value: {name: own(f"{where}.{name}", item) for name, item in _of(dict, where, value).items()}


def _scalar(kind: Any) -> Reader:
    if kind is object:
        return lambda _, value: value
    if kind is float:
        return lambda where, value: float(_of((int, float), where, value))
    return lambda where, value: _of(kind, where, value)


def _checked(make: Callable[[Any], Any]) -> Reader:
    def read_checked(where: str, value: Any) -> Any:
        try:
            return make(value)
        except ValueError as error:
            raise BadInput(where, str(error)) from None

    return read_checked


def _record(kind: type[Any]) -> Reader:
    hints = get_type_hints(kind)
    readers = {each.name: _reader(hints[each.name]) for each in fields(kind)}
    needed = {e.name for e in fields(kind) if e.default is MISSING and e.default_factory is MISSING}

    def read_record(where: str, value: Any) -> Any:
        document = _of(dict, where, value)
        if wrong := document.keys() - readers.keys():
            raise BadInput(where, f"{kind.__name__} has an unknown field {min(wrong)!r}")
        if missing := needed - document.keys():
            raise BadInput(where, f"{kind.__name__} lacks {min(missing)!r}")
        return kind(**{name: readers[name](f"{where}.{name}", item) for name, item in document.items()})

    return read_record


def _of(kind: Any, where: str, value: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise BadInput(where, f"unexpected value {value!r:.60}")
    return value
