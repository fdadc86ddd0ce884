"""Reads YAML as events with line numbers: faster than objects, and errors can name the line."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import yaml

from forebay.model.errors import BadInput

_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# On a file of nothing but brackets, libyaml takes minutes, and its loader overflows the stack and crashes Python.
_DEEPEST = 50


def events(path: Path, content: BinaryIO | bytes) -> Iterator[yaml.Event]:
    depth = 0
    try:
        for event in yaml.parse(content, Loader=_Loader):
            depth += nesting(event)
            if depth > _DEEPEST:
                raise BadInput(f"{path}:{line_of(event)}", "is nested too deeply")
            yield event
    except yaml.YAMLError as error:
        raise _not_yaml(path, error) from None


def line_of(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def nesting(event: yaml.Event) -> int:
    """1 at the start of a list or table, -1 at its end, else 0."""
    return isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)


def skip(event: yaml.Event, stream: Iterator[yaml.Event]) -> None:
    """Skip to the end of the list or table that `event` starts."""
    depth = nesting(event)
    while depth > 0:
        depth += nesting(next(stream))


def load_yaml(path: Path, content: bytes) -> object:
    """The whole document as lists, dicts and values."""
    for _ in events(path, content):
        pass  # checks the depth
    try:
        return yaml.load(content, _Loader)
    except (yaml.YAMLError, ValueError) as error:
        raise _not_yaml(path, error) from None


def _not_yaml(path: Path, error: Exception) -> BadInput:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return BadInput(f"{path}:{error.problem_mark.line + 1}", f"is not YAML: {error.problem}")
    return BadInput(str(path), f"is not YAML: {str(error).splitlines()[0]}")
