"""One instance of the control service: its journal, its callers and its timers."""

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from forebay.act.control.api.connection_limits import Calls, Crowd, Waits
from forebay.act.control.auth.callers import Authenticator
from forebay.act.control.auth.logins import Logins, signing_key
from forebay.act.control.auth.volume_keys import Keys
from forebay.act.control.errors import Unavailable
from forebay.act.control.page.files import NO_PAGES, Pages
from forebay.act.control.page.updates import Rates, Updates
from forebay.act.control.service.journal_writer import Writer
from forebay.act.control.service.live_state import EventRecord, Live
from forebay.act.control.service.node_liveness import NodeLiveness
from forebay.act.control.service.settings import ServiceSettings
from forebay.act.log import Log
from forebay.decide.grants import commands as co
from forebay.decide.grants.control import warm_up
from forebay.history.store import Store
from forebay.history.store.journal import last_heard, record_heard
from forebay.history.store.tokens import list_tokens, shared_secret
from forebay.model.errors import ForebayError

_ANY = "any"  # a name that every change notifies
_NOT_LOGGED = ("v", "kind", "at", "turned", "ask")
_LONGEST_SLEEP = 60.0
_SHORTEST_SLEEP = 0.005
_LOOK = 0.5  # seconds between reads of what other instances wrote
_AGAIN = 1.0  # seconds before a failed task is retried


class ChangeSignals:
    """Lets callers wait, without polling, for a change of a grant, of a node, or of anything."""

    def __init__(self) -> None:
        self._events: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()  # those with a waiting caller
        self.is_closed = False

    def notify(self, names: Iterable[str]) -> None:
        for name in names:
            event = self._events.pop(name, None)
            if event is not None:
                event.set()

    async def wait(self, name: str, seconds: float) -> bool:
        """Wait for a change of this name for up to `seconds`; returns whether it came."""
        if self.is_closed or seconds <= 0:
            return False
        event = self._events.setdefault(name, asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
        return event.is_set() and not self.is_closed

    def close(self) -> None:
        """End all waits, now and later."""
        self.is_closed = True
        self.notify(list(self._events))


class Service:
    """One instance. `clock` gives seconds since 1970, `monotonic` seconds by a clock that never jumps."""

    monotonic = staticmethod(time.monotonic)

    def __init__(
        self,
        store: Store,
        settings: ServiceSettings,
        *,
        log: Log,
        clock: Callable[[], float] = time.time,
        pages: Pages = NO_PAGES,
    ) -> None:
        self.settings, self.log, self.clock = settings, log, clock
        self.changes = ChangeSignals()
        self.writer = Writer(store, self._publish, clock=clock, every=settings.checkpoint)
        self.do = self.writer.do
        self.authenticator = Authenticator(
            settings.administrators, lambda: self.writer.read(list_tokens), settings.munge
        )
        self.liveness = NodeLiveness(settings.silent)
        self.keys = Keys("")
        self.waits = Waits(settings.limits.waiting)
        self.crowd = Crowd(settings.limits.connections)
        self.calls: Calls = Counter()
        self.logins = Logins(self.authenticator, signing_key(settings.key), clock=clock)
        self.updates = Updates(self)
        self.rates = Rates()
        self.pages = pages
        self._tasks: list[asyncio.Task[None]] = []
        self._due_changed = asyncio.Event()
        self._awaited = math.inf  # the time until which `_tick` sleeps

    async def start(self) -> None:
        """Read the journal and compile the kernels. After this, the service can answer."""
        await self.writer.start()
        self.keys = Keys(await self.writer.write(shared_secret))
        await self._first_settings()
        live = await self.writer.now()
        await asyncio.to_thread(warm_up, live.control.policy)
        self.liveness.begin(live.control.tables.nodes)
        for work in (self._tick, self._watch, self._look):
            self._tasks.append(asyncio.create_task(self._for_ever(work)))

    async def stop(self) -> None:
        self.changes.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.writer.stop()

    async def _first_settings(self) -> None:
        """Write the file's policy and rules into a new journal. Later, the journal's own apply."""
        live, wanted = await self.writer.now(), self.settings
        is_new, rules = live.last == 0, live.control.rules  # `live` changes with what is done
        if is_new or rules.shadow != wanted.shadow:
            rules = wanted.rules if is_new else replace(rules, shadow=wanted.shadow)
            await self.do(co.ChangeRules(caller=co.SERVICE, rules=rules))
        if is_new:
            await self.do(co.ChangePolicy(caller=co.SERVICE, policy=wanted.policy))
        live = await self.writer.now()
        if (live.control.policy, live.control.rules) != (wanted.policy, wanted.rules):
            self.log.info("the journal's policy and rules apply, not those of the file", policy=live.control.policy)

    def _publish(self, records: Sequence[EventRecord]) -> None:
        live = self.writer.latest
        if not records or live is None:
            return
        with suppress(OSError):  # a full log must not stop the service
            for record in records:
                log_event(self.log, record, live)
        self.changes.notify(names_to_notify(records, live))
        due = live.control.next_due(self.clock())
        if due is not None and due < self._awaited:  # else `_tick` wakes in time
            self._due_changed.set()

    async def _for_ever(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Repeat a task. Retry it after an error, such as a store that does not answer."""
        logged = ""
        while True:
            try:
                await work()
                logged = ""
            except (ForebayError, OSError) as error:
                if str(error) != logged:
                    logged = str(error)
                    self.log.error("background task failed; trying again", because=logged)
                await asyncio.sleep(_AGAIN)

    async def _tick(self) -> None:
        """Do what is due, then sleep until something is."""
        live = await self.writer.now()
        now = self.clock()
        due = live.control.next_due(now)
        self._due_changed.clear()
        if due is not None and due <= now:
            await self.do(co.Tick(caller=co.SERVICE))
            await asyncio.sleep(_SHORTEST_SLEEP)
            return
        self._awaited = math.inf if due is None else due
        # Sleep only briefly, because the clock can be set meanwhile.
        seconds = min(_LONGEST_SLEEP, max(_SHORTEST_SLEEP, self._awaited - now))
        try:
            async with asyncio.timeout(seconds):
                await self._due_changed.wait()
        except TimeoutError:
            await self.do(co.Tick(caller=co.SERVICE))
        finally:
            self._awaited = math.inf

    async def _watch(self) -> None:
        """Share the stamps of nodes with other instances, and mark nodes that call no instance as silent."""
        await asyncio.sleep(max(0.05, min(5.0, self.settings.silent / 4)))
        new = self.liveness.take_new_stamps()
        if new:
            await self.writer.write(lambda connection: record_heard(connection, new))
        self.liveness.merge_stamps(await self.writer.read(last_heard))
        live = await self.writer.now()
        answering = [name for name, node in live.control.tables.nodes.items() if not node.silent]
        for node in self.liveness.find_silent(answering):
            await self.do(co.Silent(caller=co.SERVICE, node=node))

    async def _look(self) -> None:
        """Read what other instances wrote, and notify the callers that wait here."""
        await asyncio.sleep(_LOOK)
        await self.writer.look()

    async def heartbeat(self, node: str, caller: co.Caller) -> Live:
        """Note that an agent is alive; returns the state."""
        live = await self.writer.now()
        known = live.control.tables.nodes.get(node)
        if known is None or known.silent:
            await self.do(co.Seen(caller=caller, node=node))
            live = await self.writer.now()
        self.note_heard(node)
        return live

    def note_heard(self, node: str) -> None:
        """Note a call for a node, if the node is registered."""
        live = self.writer.latest
        if live is not None and node in live.control.tables.nodes:
            self.liveness.note_call(node, self.clock())

    async def wait_for_change(self, seconds: float) -> bool:
        return await self.changes.wait(_ANY, seconds)

    def state(self) -> Live:
        """The latest state, without waiting."""
        live = self.writer.latest
        if live is None:
            raise Unavailable("the store does not answer; try again")
        return live


def names_to_notify(records: Iterable[EventRecord], live: Live) -> set[str]:
    """The grants that changed, and the nodes whose agents may have new actions."""
    tables = live.control.tables
    names = set()
    for record in records:
        names |= {_ANY, f"node {record.event.node_name}", f"grant {record.entry.grant}"}
        grant = tables.grants.get(record.entry.grant)
        if grant is not None:
            names |= {f"node {volume.node}" for volume in tables.volumes_of(grant)}
    return names


def log_event(log: Log, record: EventRecord, live: Live) -> None:
    """Write an event to the log, unless its kind is not logged."""
    event, entry = record.event, record.entry
    if not event.is_logged:
        return
    document = json.loads(entry.line)  # faster than converting the event again
    values = {name: value for name, value in document.items() if name not in _NOT_LOGGED}
    grant = live.control.tables.grants.get(entry.grant)
    if grant is not None:
        values |= {"uid": grant.ask.uid, "job": grant.ask.job, "size": grant.ask.size}
    write = log.warning if event.is_warning else log.info
    write(type(event).__name__, journal=entry.number, **values)
