"""One line of the log for each decision, with its reason; and whom an event is about."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from forebay.act.control.service.live_state import Happened, Live
from forebay.act.control.service.notifications import ANY
from forebay.act.log import Log
from forebay.decide.grants import events as ev
from forebay.model.grant import node_of

# These follow from another event that is told, or tell nothing to people.
_QUIET = (ev.Asked, ev.Making, ev.Swept, ev.Reported, ev.VolumeMade, ev.VolumeGone)
_WORRYING = (
    ev.NodeSilent, ev.NodeDoubted, ev.VolumeLost, ev.VolumeMoved, ev.VolumeStuck, ev.DiskVanished, ev.DiskUnseen,
    ev.DiskFailed, ev.DiskSuspended, ev.VolumeHalf, ev.Strayed, ev.Told,
)  # fmt: skip
_LEFT_OUT = ("v", "kind", "at", "turned", "ask")


def tell(log: Log, one: Happened, live: Live | None) -> None:
    """The event as a line of the log, if it is worth one."""
    event = one.event
    if isinstance(event, _QUIET):
        return
    document = json.loads(one.entry.line)  # faster than to put the event into words once more
    values: dict[str, Any] = {name: v for name, v in document.items() if name not in _LEFT_OUT}
    grant = live.control.tables.grants.get(one.entry.grant) if live is not None and one.entry.grant else None
    if grant is not None:
        values |= {"uid": grant.ask.uid, "job": grant.ask.job, "size": grant.ask.size}
    say = log.warning if isinstance(event, _WORRYING) else log.info
    say(type(event).__name__, journal=one.entry.number, **values)


def bells_of(happened: Iterable[Happened], live: Live) -> set[str]:
    """Which bells to ring: of the grants that something happened to, and of the nodes that may have to do something."""
    tables = live.control.tables
    names: set[str] = set()
    for one in happened:
        names.add(ANY)
        names |= {f"node {node}" for node in _nodes_in(one.event)}
        grant = tables.grants.get(one.entry.grant)
        if one.entry.grant:
            names.add(f"grant {one.entry.grant}")
        if grant is not None:
            names |= {f"node {volume.node}" for volume in tables.volumes_of(grant)}
    return names


def _nodes_in(event: ev.Event) -> list[str]:
    if isinstance(event, ev.Strayed | ev.StrayGone):
        return [node_of(event.stray.disk)]
    if isinstance(event, ev.DiskTried):
        return [node_of(event.disk)]
    node = getattr(event, "node", "")
    return [node] if node else []
