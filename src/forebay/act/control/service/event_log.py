"""What follows from an event in the service: a line of its log, and who is woken."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from forebay.act.control.service.live_state import Happened, Live
from forebay.act.control.service.notifications import ANY
from forebay.act.log import Log

_LEFT_OUT = ("v", "kind", "at", "turned", "ask")


def log_event(log: Log, one: Happened, live: Live) -> None:
    """Write the event to the log, if it is worth a line."""
    event = one.event
    if not event.is_logged:
        return
    document = json.loads(one.entry.line)  # faster than to put the event into words once more
    values: dict[str, Any] = {name: v for name, v in document.items() if name not in _LEFT_OUT}
    grant = live.control.tables.grants.get(one.entry.grant)
    if grant is not None:
        values |= {"uid": grant.ask.uid, "job": grant.ask.job, "size": grant.ask.size}
    write = log.warning if event.is_warning else log.info
    write(type(event).__name__, journal=one.entry.number, **values)


def bells_of(happened: Iterable[Happened], live: Live) -> set[str]:
    """Which bells to ring: of the grants that something happened to, and of the nodes that may have to do something."""
    tables = live.control.tables
    names: set[str] = set()
    for one in happened:
        names.add(ANY)
        if one.event.node_name:
            names.add(f"node {one.event.node_name}")
        grant = tables.grants.get(one.entry.grant)
        if one.entry.grant:
            names.add(f"grant {one.entry.grant}")
        if grant is not None:
            names |= {f"node {volume.node}" for volume in tables.volumes_of(grant)}
    return names
