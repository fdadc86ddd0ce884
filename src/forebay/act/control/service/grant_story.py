"""One story per grant: what was decided of it, and what agents did for it."""

from __future__ import annotations

import json
from typing import Any

from forebay.act.control.auth.volume_keys import public
from forebay.act.control.service.event_sentences import sentence
from forebay.history.store import Connection
from forebay.history.store.journal import list_entries, list_log_lines

_LEFT_OUT = ("v", "kind", "at", "turned", "grant")


def story_of(connection: Connection, grant: str) -> list[dict[str, Any]]:
    """By time; `what` is the kind of event, or "log" for a line that the agent of `node` wrote."""
    told = []
    for entry in list_entries(connection, grant):
        event = json.loads(public(entry.line))
        more = {name: value for name, value in event.items() if name not in _LEFT_OUT}
        about = {"number": entry.number, "node": "", "level": "info", "text": sentence(event)}
        told.append({"time": entry.at, "what": event["kind"], **about, "more": more})
    for line in list_log_lines(connection, grant):
        about = {"number": 0, "node": line.node, "level": line.level, "text": line.text, "more": {}}
        told.append({"time": line.at, "what": "log", **about})
    return sorted(told, key=lambda one: one["time"])  # what is at the same time stays in its order
