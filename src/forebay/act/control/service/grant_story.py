"""One story per grant: what was decided of it, and what agents did for it."""

from __future__ import annotations

import json
from collections.abc import Iterable

from forebay.act.control.auth.volume_keys import public
from forebay.act.control.documents import StoryLine
from forebay.decide.grants.codec import event_of
from forebay.history.store import Connection
from forebay.history.store.journal import Entry, LogLine, list_entries, list_log_lines

_LEFT_OUT = ("v", "kind", "at", "turned", "grant")


def story_of(connection: Connection, grant: str) -> list[StoryLine]:
    """All that the store knows of a grant, by time."""
    return tell_story(list_entries(connection, grant), list_log_lines(connection, grant))


def tell_story(entries: Iterable[Entry], logs: Iterable[LogLine]) -> list[StoryLine]:
    """By time; `what` is the kind of event, or "log" for a line that the agent of `node` wrote."""
    lines: list[StoryLine] = []
    for entry in entries:
        event = json.loads(public(entry.line))
        more = {name: value for name, value in event.items() if name not in _LEFT_OUT}
        text = event_of(event).sentence()
        lines.append(
            StoryLine(
                time=entry.at, what=event["kind"], number=entry.number, node="", level="info", text=text, more=more
            )
        )
    for log in logs:
        lines.append(
            StoryLine(time=log.at, what="log", number=0, node=log.node, level=log.level, text=log.text, more={})
        )
    return sorted(lines, key=lambda line: line["time"])  # what is at the same time stays in its order
