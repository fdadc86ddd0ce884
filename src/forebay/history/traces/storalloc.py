"""Reads requests from StorAlloc's `IOJobs.yml`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import yaml

from forebay.history.text_files import open_bytes
from forebay.history.traces.columns import check_id, id_column, make_requests, parse_bytes, parse_time
from forebay.history.yaml_events import events, line_of, skip
from forebay.model.errors import BadInput
from forebay.model.space_requests import Requests

T = TypeVar("T")
Events = Iterator[yaml.Event]

_NULL = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class _Job:
    """A job in the file: its line, and its scalar values."""

    path: Path
    line: int
    values: dict[str, yaml.ScalarEvent]

    def get(self, key: str, convert: Callable[[str], T]) -> T:
        event = self.values.get(key)
        if event is None or (event.value in _NULL and event.implicit[0]):
            raise BadInput(f"{self.path}:{self.line}", f"{key} is missing")
        try:
            return convert(event.value)
        except ValueError as error:
            raise BadInput(f"{self.path}:{line_of(event)}", f"{key} {error}") from None


def read(path: Path) -> Requests:
    """A request of max(readBytes, writtenBytes) for every job, in the order of the file.

    The YAML is read event by event; building an object for each value takes several times as long.
    """
    lines: dict[str, int] = {}
    ids, times, volumes = [], [], []
    for job in _jobs(path):
        name = job.get("id", check_id)
        if name in lines:
            raise BadInput(f"{path}:{job.line}", f"id {name!r} already belongs to the job on line {lines[name]}")
        lines[name] = job.line
        start, end = job.get("startTime", parse_time), job.get("endTime", parse_time)
        if end < start:
            raise BadInput(f"{path}:{job.line}", "endTime is before startTime")
        submitted = job.get("submissionTime", parse_time)
        volume = job.get("readBytes", parse_bytes), job.get("writtenBytes", parse_bytes)
        if any(volume):
            ids.append(name)
            times.append((submitted, start, end))
            volumes.append(volume)
    return make_requests(id_column(ids), times, volumes, {("job", "without bytes"): len(lines) - len(ids)})


def _jobs(path: Path) -> Iterator[_Job]:
    with open_bytes(path) as file:
        stream = events(path, file)
        if not _enter_jobs(path, stream):
            return
        anchored: dict[str, yaml.ScalarEvent] = {}
        while not isinstance(event := next(stream), yaml.SequenceEndEvent):
            if not isinstance(event, yaml.MappingStartEvent):
                raise BadInput(f"{path}:{line_of(event)}", "must be a job: a table of keys and values")
            yield _Job(path, line_of(event), _scalars(path, stream, anchored))
        for event in stream:  # the remainder must be YAML, too
            if isinstance(event, yaml.DocumentStartEvent):
                raise BadInput(f"{path}:{line_of(event)}", "starts a second YAML document; the file must have only one")


def _enter_jobs(path: Path, stream: Events) -> bool:
    """Advance to the first job; False if there is none."""
    event = next(stream)
    while isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
        event = next(stream)
    if isinstance(event, yaml.StreamEndEvent):
        return False
    if not isinstance(event, yaml.MappingStartEvent):
        raise BadInput(f"{path}:{line_of(event)}", "must be a table with the list 'jobs'")
    while not isinstance(key := next(stream), yaml.MappingEndEvent):
        skip(key, stream)
        value = next(stream)
        if isinstance(key, yaml.ScalarEvent) and key.value == "jobs":
            if isinstance(value, yaml.SequenceStartEvent):
                return True
            if isinstance(value, yaml.ScalarEvent) and value.value in _NULL:
                return False
            raise BadInput(f"{path}:{line_of(value)}", "jobs must be a list")
        skip(value, stream)
    raise BadInput(str(path), "has no list 'jobs'")


def _scalars(path: Path, stream: Events, anchored: dict[str, yaml.ScalarEvent]) -> dict[str, yaml.ScalarEvent]:
    """The scalars of a table by their keys, up to its end; lists and tables in it are skipped."""
    scalars: dict[str, yaml.ScalarEvent] = {}
    while not isinstance(key := next(stream), yaml.MappingEndEvent):
        if not isinstance(key, yaml.ScalarEvent):
            raise BadInput(f"{path}:{line_of(key)}", "a key must be text")
        value = next(stream)
        if isinstance(value, yaml.ScalarEvent):
            scalars[key.value] = value
            if value.anchor:
                anchored[value.anchor] = value
        elif isinstance(value, yaml.AliasEvent):
            if value.anchor not in anchored:
                raise BadInput(f"{path}:{line_of(value)}", f"{key.value} refers to the unknown anchor {value.anchor!r}")
            scalars[key.value] = anchored[value.anchor]
        else:
            skip(value, stream)
    return scalars
