"""Updates for open pages: frames, each from one number of the journal to a later one.

A frame holds the new values of everything that changed, so that a page can apply it twice, or apply overlapping
frames. Under load the service sends few frames, and pages with the same view share them, so that watching does not
slow the service down.
"""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forebay.act.control.errors import NotAuthenticated, error_code, error_document
from forebay.act.control.page import views
from forebay.act.control.page.views import Document, Eye, Tally
from forebay.act.control.service.live_documents import Fill, fills
from forebay.act.control.service.live_state import Live
from forebay.decide.grants.codec import from_line
from forebay.decide.grants.events import Forgotten
from forebay.history.store.journal import Entry
from forebay.model.grant import Grant, node_of

if TYPE_CHECKING:
    from forebay.act.control.service.service import Service

_SHORTEST, _LONGEST = 0.15, 0.8  # seconds between frames
_SHARE = 0.01  # the largest share of time that goes into frames
_RATES = 5.0  # seconds between updates of bandwidth
_BEAT = 2.0  # seconds without a change before an event shows that the service is alive
_LOOK = 1.0  # seconds between checks whether the service ends
_BEHIND = 20  # frames that a browser may be behind
_MANY = 300  # changed grants above which a frame has all disks
_ROWS = 100
_SNAPSHOTS = 8  # kept in memory
_LINES = 40
_FRESH = 120.0  # seconds for which a reported rate is valid
Rate = tuple[float, float]  # bytes per second written and read
CheckLogin = Callable[[], Awaitable[object]]  # raises NotAuthenticated once the login has ended


class Rates:
    """Bandwidth in use, as agents last reported it; only in memory. `version` changes with every report."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._reports: dict[str, tuple[float, dict[str, Rate]]] = {}
        self.version = 0

    def update(self, node: str, rates: Mapping[str, Rate]) -> None:
        """Set the rates of all disks of a node, by key."""
        self._reports[node] = self._clock(), dict(rates)
        self.version += 1

    def now(self) -> dict[str, Rate]:
        """The rates of all measured disks."""
        old = self._clock() - _FRESH
        self._reports = {node: report for node, report in self._reports.items() if report[0] > old}
        return {key: (round(w), round(r)) for _, rates in self._reports.values() for key, (w, r) in rates.items()}


class Updates:
    """The updates of one process, which `boot` identifies. It does nothing while no page is open."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._watching: dict[Eye, set[asyncio.Queue[str]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._at = 0
        self._tally: Tally | None = None
        self._snapshots: dict[Eye, tuple[tuple[int, int], bytes]] = {}
        self.boot = secrets.token_hex(8)

    async def snapshot(self, eye: Eye) -> bytes:
        """The state as JSON, cached until something changes."""
        live = await self._service.writer.now()
        now = live.last, self._service.rates.version
        known, text = self._snapshots.get(eye, ((-1, 0), b""))
        if known != now:
            document = {**views.snapshot(live, eye), "boot": self.boot, "rates": self._service.rates.now()}
            text = json.dumps(document, separators=(",", ":")).encode()
            if len(self._snapshots) > _SNAPSHOTS:
                self._snapshots.clear()
            self._snapshots[eye] = now, text
        return text

    async def follow(self, eye: Eye, after: int, check_login: CheckLogin) -> AsyncIterator[str]:
        """Server-sent events: `frame`s after a number, `reset` if a page needs a new snapshot, `logout` at the end."""
        live = await self._service.writer.now()
        queue: asyncio.Queue[str] = asyncio.Queue(_BEHIND)
        self._watching.setdefault(eye, set()).add(queue)
        if self._task is None or self._task.done():
            self._at, self._tally = live.last, None
            self._task = asyncio.create_task(self._run())
        try:
            yield _event("hello", live.last, {"boot": self.boot, "number": live.last, "beat": _BEAT})
            if after != live.last:
                yield frame(live, eye, after)
            async for text in self._frames(eye, queue):
                await check_login()
                yield text
        except NotAuthenticated as error:
            yield _event("logout", None, {**error_document(error_code(error), str(error))})
        finally:
            queues = self._watching.get(eye, set())
            queues.discard(queue)
            if not queues:
                self._watching.pop(eye, None)
            if not self._watching and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _frames(self, eye: Eye, queue: asyncio.Queue[str]) -> AsyncGenerator[str, None]:
        """Ends when the service does, or when the reader is too far behind; the browser then reconnects."""
        while queue in self._watching.get(eye, ()) and self._task is not None and not self._task.done():
            try:
                async with asyncio.timeout(_LOOK):
                    text = await queue.get()
            except TimeoutError:
                continue
            yield text  # outside the timeout, because the reader can be slow

    async def _run(self) -> None:
        published = measured = time.monotonic()
        rates = self._service.rates.version
        while not self._service.changes.is_closed:
            try:
                live = await self._service.writer.now()
            except Exception:  # the store is away; pages keep what they have
                await asyncio.sleep(_LONGEST)
                continue
            if self._service.rates.version != rates and time.monotonic() - measured >= _RATES:
                rates, measured = self._service.rates.version, time.monotonic()
                self._publish(_event("rates", None, {"rates": self._service.rates.now()}))
            if live.last != self._at:
                begin = time.perf_counter()
                self._publish_frames(live)
                published, cost = time.monotonic(), time.perf_counter() - begin
                await asyncio.sleep(min(_LONGEST, max(_SHORTEST, cost / _SHARE)))
            elif time.monotonic() - published >= _BEAT:
                self._publish(_event("still", live.last, {"number": live.last}))
                published = time.monotonic()
            else:
                await self._service.wait_for_change(_BEAT)

    def _publish_frames(self, live: Live) -> None:
        """Publish a frame to every page. Changes are looked up once for all."""
        changes = find_changes(live, self._at)
        if changes is None or self._tally is None:
            self._tally = Tally(live)
        else:
            self._tally.follow(live, changes.names)
        self._at = live.last
        for eye in list(self._watching):
            self._publish(_format_frame(live, eye, changes, self._tally.counted), eye)

    def _publish(self, text: str, *eyes: Eye) -> None:
        for eye in eyes or list(self._watching):
            for queue in list(self._watching[eye]):
                try:
                    queue.put_nowait(text)
                except asyncio.QueueFull:
                    self._watching[eye].discard(queue)


@dataclass(frozen=True, slots=True)
class Changes:
    """What some events changed: names of grants, the grants that still exist (the latest first), disks with their
    fills, nodes, and forgotten grants."""

    after: int
    names: Sequence[str]
    entries: Sequence[Entry]
    grants: Sequence[Grant]
    disks: Mapping[str, Fill]
    nodes: Sequence[Document]
    forgotten: Sequence[str]


def find_changes(live: Live, after: int) -> Changes | None:
    """What the events after a number changed, with the current values; None if these events are not in memory."""
    entries = views.entries_after(live, after)
    if entries is None:
        return None
    tables = live.control.tables
    names = dict.fromkeys(entry.grant for entry in entries if entry.grant)
    events = [from_line(entry.line) for entry in entries if not entry.grant]
    nodes = dict.fromkeys(event.node_name for event in events if event.node_name and event.group is not None)
    forgotten = [name for event in events if isinstance(event, Forgotten) for name in event.grants]
    grants = [tables.grants[name] for name in reversed(names) if name in tables.grants]
    if len(grants) > _MANY or len(grants) < len(names):  # the disks of a forgotten grant are unknown
        disks = fills(live)
    else:
        keys = dict.fromkeys(volume.disk for grant in grants for volume in tables.volumes_of(grant))
        disks = fills(live, [key for key in keys if node_of(key) not in nodes])
    return Changes(after, [*names, *forgotten], entries, grants, disks, views.nodes(live, nodes), forgotten)


def frame(live: Live, eye: Eye, after: int) -> str:
    """What changed after a number; a `reset` if that is not in memory."""
    return _format_frame(live, eye, find_changes(live, after), Tally(live).counted)


def _format_frame(live: Live, eye: Eye, changes: Changes | None, counted: views.States) -> str:
    if changes is None:
        return _event("reset", live.last, {"number": live.last})
    visible = [grant for grant in changes.grants if eye is None or grant.ask.uid == eye]
    lines = views.feed(live, reversed(changes.entries), eye, _LINES)
    older = (entry for entry in changes.entries if entry.number < lines[-1]["n"]) if lines else iter(())
    document = {
        **views.head(live, eye, counted), "after": changes.after, "disks": changes.disks, "nodes": changes.nodes,
        "grants": [views.row(live, grant) for grant in visible[:_ROWS]], "more": len(visible) > _ROWS,
        "forgotten": changes.forgotten, "lines": lines,
        "whole": len(lines) < _LINES or not any(views.may_see(live, entry, eye) for entry in older),
    }  # fmt: skip
    return _event("frame", live.last, document)


def _event(kind: str, number: int | None, document: Document) -> str:
    mark = "" if number is None else f"id: {number}\n"
    return f"{mark}event: {kind}\ndata: {json.dumps(document, separators=(',', ':'))}\n\n"
