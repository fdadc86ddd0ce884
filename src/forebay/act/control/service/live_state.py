"""The state that follows from the journal: how to load it from the store, and how to checkpoint it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from forebay.decide.grants import events as ev
from forebay.decide.grants.codec import from_line, plain, to_line
from forebay.decide.grants.control import Control
from forebay.history.store import Store
from forebay.history.store.journal import Entry, checkpoints_before, last_number, read_after
from forebay.model.errors import UserError

_RECENT = 10_000
_SLICE = 0.001  # seconds of writing a checkpoint without a pause
_SHARE = 0.2  # the share of time for a checkpoint while it is written

Texts = dict[str, tuple[object, str]]  # by key: a row, and the same as JSON


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event with its place in the journal."""

    entry: Entry
    event: ev.Event

    @classmethod
    def of(cls, number: int, event: ev.Event) -> EventRecord:
        return cls(Entry(number, event.at, event.grant_id, to_line(event)), event)


def stamp_entry(entry: Entry) -> str:
    """The number and a digest of an entry, by which an agent recognizes the entry and its journal."""
    return f"{entry.number}:{hashlib.sha256(entry.line.encode()).hexdigest()[:32]}"


@dataclass(slots=True, eq=False)
class Live:
    """The state after event number `last`: when each grant last changed, the number of events by kind, and the most
    recent events. `texts` are the rows of the last checkpoint, by table."""

    control: Control = field(default_factory=Control)
    last: int = 0
    changed: dict[str, float] = field(default_factory=dict)
    counted: Counter[str] = field(default_factory=Counter)
    recent: deque[Entry] = field(default_factory=lambda: deque(maxlen=_RECENT))
    texts: dict[str, Texts] = field(default_factory=dict)

    @property
    def stamp(self) -> str:
        """The stamp of the last entry, if everything is written; "" for an empty journal."""
        return stamp_entry(self.recent[-1]) if self.recent else ""

    def apply(self, record: EventRecord) -> None:
        self.control.apply(record.event)
        self._note(record)

    def note_done(self, events: Iterable[ev.Event]) -> list[EventRecord]:
        """Number the events that the control has just applied."""
        records = [EventRecord.of(number, event) for number, event in enumerate(events, self.last + 1)]
        for record in records:
            self._note(record)
        return records

    def _note(self, record: EventRecord) -> None:
        entry, event = record.entry, record.event
        self.last = entry.number
        self.recent.append(entry)
        self.counted[event.counted_as] += 1
        if entry.grant:
            self.changed[entry.grant] = entry.at
        if isinstance(event, ev.Forgotten):
            for name in event.grants:
                self.changed.pop(name, None)

    def follow(self, entries: Iterable[Entry]) -> list[EventRecord]:
        """Apply entries that other processes wrote; skip known ones."""
        records = []
        for entry in entries:
            if entry.number > self.last:
                records.append(EventRecord(entry, from_line(entry.line, f"journal, number {entry.number}")))
                self.apply(records[-1])
        return records


def load(store: Store) -> Live:
    """Load the newest valid checkpoint, and apply all entries after it."""
    with store.open_reader() as connection:
        live = Live()
        for number, text in checkpoints_before(connection, last_number(connection)):
            try:
                document = json.loads(text)
                control = Control.from_document(document["control"], f"checkpoint {number}")
                changed = {str(name): float(at) for name, at in document["changed"].items()}
                counted = Counter({str(name): int(n) for name, n in document.get("counted", {}).items()})  # early: none
                live = Live(control, number, changed, counted)
                live.recent.extend(read_after(connection, number - 1, 1))
                break
            except (UserError, ValueError, KeyError, TypeError):
                continue  # checkpoints only save time; the journal has everything
        live.follow(read_after(connection, live.last))
    return live


async def checkpoint(live: Live) -> tuple[int, str]:
    """The current state as JSON. It pauses often, so that callers need not wait for it."""
    number, changed, counted = live.last, dict(live.changed), json.dumps(live.counted)
    tables = {name: dict(rows) for name, rows in live.control.tables.rows().items()}  # rows never change
    parts = [
        f'"{name}":{{{await _write_rows(rows, live.texts.setdefault(name, {}))}}}' for name, rows in tables.items()
    ]
    changes = await _write_rows(changed, {})
    return number, f'{{"control":{{{",".join(parts)}}},"changed":{{{changes}}},"counted":{counted}}}'


async def _write_rows(rows: Mapping[str, object], texts: Texts) -> str:
    """The rows as JSON. Rows that have not changed take their text from `texts`, the last checkpoint."""
    known, begin = dict(texts), time.perf_counter()
    texts.clear()
    for key, row in rows.items():
        text = known.get(key)
        if text is None or text[0] is not row:
            text = (row, f"{json.dumps(key)}:{json.dumps(plain(row))}")
        texts[key] = text
        elapsed = time.perf_counter() - begin
        if elapsed > _SLICE:
            await asyncio.sleep(elapsed * (1 / _SHARE - 1))
            begin = time.perf_counter()
    return ",".join(text for _, text in texts.values())
