"""What follows from an event in the service: a line of its log, and who is woken."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from forebay.act.control.service.live_state import EventRecord, Live
from forebay.act.control.service.notifications import ANY
from forebay.act.log import Log

_LEFT_OUT = ("v", "kind", "at", "turned", "ask")


def log_event(log: Log, record: EventRecord, live: Live) -> None:
    """Write the event to the log, if it is worth a line."""
    event, entry = record.event, record.entry
    if not event.is_logged:
        return
    document = json.loads(entry.line)  # faster than to convert the event once more
    values: dict[str, Any] = {name: v for name, v in document.items() if name not in _LEFT_OUT}
    grant = live.control.tables.grants.get(entry.grant)
    if grant is not None:
        values |= {"uid": grant.ask.uid, "job": grant.ask.job, "size": grant.ask.size}
    write = log.warning if event.is_warning else log.info
    write(type(event).__name__, journal=entry.number, **values)


def names_to_notify(records: Iterable[EventRecord], live: Live) -> set[str]:
    """The grants that something happened to, and the nodes whose agents may have something to do."""
    tables = live.control.tables
    names: set[str] = set()
    for record in records:
        names.add(ANY)
        if record.event.node_name:
            names.add(f"node {record.event.node_name}")
        if record.entry.grant:
            names.add(f"grant {record.entry.grant}")
        grant = tables.grants.get(record.entry.grant)
        if grant is not None:
            names |= {f"node {volume.node}" for volume in tables.volumes_of(grant)}
    return names
