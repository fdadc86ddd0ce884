"""The journal as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from forebay.act.control.auth.callers import Who
from forebay.act.control.auth.volume_keys import public
from forebay.act.control.service.live_state import Live
from forebay.act.control.service.service import Service
from forebay.history.store.journal import Entry, read_after

_AT_ONCE = 1000
_QUIET = 15.0  # seconds after which a comment shows that somebody is there


async def stream(service: Service, who: Who, after: int, seconds: float) -> AsyncIterator[str]:
    """Events after that number, as they come, for so many seconds."""
    with service.waits.one_more(who, "events"):
        yield ": forebay\n\n"
        async for words in _followed(service, who, after, seconds):
            yield words


async def _followed(service: Service, who: Who, after: int, seconds: float) -> AsyncIterator[str]:
    end = service.monotonic() + seconds
    while not service.changes.is_closed:
        live = await service.writer.now()
        entries = await _entries(service, live, after)
        for entry in entries:
            after = entry.number
            if _may_see(live, entry, who):
                kind = json.loads(entry.line)["kind"]
                yield f"id: {entry.number}\nevent: {kind}\ndata: {public(entry.line)}\n\n"
        if entries:
            continue
        if service.monotonic() >= end:
            return
        if not await service.wait_for_change(min(_QUIET, end - service.monotonic())):
            yield ":\n\n"


async def _entries(service: Service, live: Live, after: int) -> list[Entry]:
    """From memory, where it goes back so far."""
    if live.last <= after:
        return []
    if live.recent and live.recent[0].number <= after + 1:
        first = len(live.recent) - (live.last - after)
        return [live.recent[at] for at in range(first, min(len(live.recent), first + _AT_ONCE))]
    return await service.writer.read(lambda connection: list(read_after(connection, after, _AT_ONCE)))


def _may_see(live: Live, entry: Entry, who: Who) -> bool:
    if who.role == "administrator":
        return True
    grant = live.control.tables.grants.get(entry.grant)
    return who.role == "user" and grant is not None and grant.ask.uid == who.uid
