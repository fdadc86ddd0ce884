"""What follows from events in the service: lines of its log, and who is woken."""

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from weakref import WeakValueDictionary

from forebay.act.control.service.live_state import EventRecord, Live
from forebay.act.log import Log

ANY = "any"  # the name of any change
_NOT_LOGGED = ("v", "kind", "at", "turned", "ask")


class ChangeSignals:
    """Waiting for something to happen to a grant, a node, or at all, without looking again and again."""

    def __init__(self) -> None:
        self._events: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()  # those that somebody waits for
        self.is_closed = False

    def notify(self, names: Iterable[str]) -> None:
        for name in names:
            event = self._events.pop(name, None)
            if event is not None:
                event.set()

    async def wait(self, name: str, seconds: float) -> bool:
        """Whether something of that name happened within so many seconds."""
        if self.is_closed or seconds <= 0:
            return False
        event = self._events.setdefault(name, asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
        return event.is_set() and not self.is_closed

    def close(self) -> None:
        """Nobody waits any more, now or later."""
        self.is_closed = True
        self.notify(list(self._events))


def names_to_notify(records: Iterable[EventRecord], live: Live) -> set[str]:
    """The grants that something happened to, and the nodes whose agents may have something to do."""
    tables = live.control.tables
    names = set()
    for record in records:
        names |= {ANY, f"node {record.event.node_name}", f"grant {record.entry.grant}"}
        grant = tables.grants.get(record.entry.grant)
        if grant is not None:
            names |= {f"node {volume.node}" for volume in tables.volumes_of(grant)}
    return names


def log_event(log: Log, record: EventRecord, live: Live) -> None:
    """Write the event to the log, if it is worth a line."""
    event, entry = record.event, record.entry
    if not event.is_logged:
        return
    document = json.loads(entry.line)  # faster than to convert the event once more
    values = {name: value for name, value in document.items() if name not in _NOT_LOGGED}
    grant = live.control.tables.grants.get(entry.grant)
    if grant is not None:
        values |= {"uid": grant.ask.uid, "job": grant.ask.job, "size": grant.ask.size}
    write = log.warning if event.is_warning else log.info
    write(type(event).__name__, journal=entry.number, **values)
