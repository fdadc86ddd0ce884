"""The state of the service as its journal tells it, and how it is read from the store."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from forebay.decide.grants import events as ev
from forebay.decide.grants.codec import from_line, plain, to_line
from forebay.decide.grants.control import Control
from forebay.history.store import Store
from forebay.history.store.journal import Entry, checkpoints_before, last_number, read_after
from forebay.model.errors import UserError

_RECENT = 10_000
_SLICE = 0.001  # seconds for which values of a checkpoint are put into words at a time
_SHARE = 0.2  # of the time for checkpoints while they are made


Words = dict[str, tuple[object, str]]
"""Values by their keys, and each as it is written."""


@dataclass(frozen=True, slots=True)
class Happened:
    """An event with its place in the journal."""

    entry: Entry
    event: ev.Event


def happened(number: int, event: ev.Event) -> Happened:
    return Happened(Entry(number, event.at, event.grant_id, to_line(event)), event)


class Live:
    """The control after event number `last`, when each grant changed last, how many events of each kind there were,
    and the latest of them."""

    def __init__(
        self,
        control: Control | None = None,
        last: int = 0,
        changed: dict[str, float] | None = None,
        counted: dict[str, int] | None = None,
    ) -> None:
        self.control = control or Control()
        self.last = last
        self.changed = changed or {}
        self.counted = Counter(counted or {})
        self.recent: deque[Entry] = deque(maxlen=_RECENT)
        self.words: dict[str, Words] = {}  # of the last checkpoint

    def apply(self, one: Happened) -> None:
        self.control.apply(one.event)
        self._note(one)

    def note_done(self, events: Iterable[ev.Event]) -> list[Happened]:
        """What the control has just done, with its place in the journal."""
        found = [happened(number, event) for number, event in enumerate(events, self.last + 1)]
        for one in found:
            self._note(one)
        return found

    def _note(self, one: Happened) -> None:
        self.last = one.entry.number
        self.recent.append(one.entry)
        self.counted[one.event.counted_as] += 1
        if one.entry.grant:
            self.changed[one.entry.grant] = one.entry.at
        if isinstance(one.event, ev.Forgotten):
            for name in one.event.grants:
                self.changed.pop(name, None)

    def follow(self, entries: Iterable[Entry]) -> list[Happened]:
        """Apply what others wrote; what is known already is passed over."""
        new = []
        for entry in entries:
            if entry.number > self.last:
                new.append(Happened(entry, from_line(entry.line, f"journal, number {entry.number}")))
                self.apply(new[-1])
        return new


def load(store: Store) -> Live:
    """The state by the newest checkpoint that is whole, and all that came after it."""
    with store.reading() as connection:
        live = Live()
        for number, text in checkpoints_before(connection, last_number(connection)):
            try:
                live = _restored(number, text)
                live.recent.extend(read_after(connection, number - 1, 1))
                break
            except (UserError, ValueError, KeyError, TypeError):
                continue  # it is only a short cut
        live.follow(read_after(connection, live.last))
    return live


def _restored(number: int, text: str) -> Live:
    document = json.loads(text)
    control = Control.from_document(document["control"], f"checkpoint {number}")
    changed = {str(name): float(at) for name, at in document["changed"].items()}
    # A checkpoint from before anything was counted: counts begin with it.
    return Live(
        control, number, changed, {str(name): int(count) for name, count in document.get("counted", {}).items()}
    )


async def checkpoint(live: Live) -> tuple[int, str]:
    """The state as it is now, in words. It is put together in small pieces, so that nobody waits for it meanwhile."""
    number, changed, counted = live.last, dict(live.changed), json.dumps(live.counted)
    tables = {name: dict(rows) for name, rows in live.control.tables.rows().items()}  # its values never change
    told = [f'"{name}":{{{await _told(rows, live.words.setdefault(name, {}))}}}' for name, rows in tables.items()]
    return number, f'{{"control":{{{",".join(told)}}},"changed":{{{await _told(changed, {})}}},"counted":{counted}}}'


async def _told(rows: Mapping[str, object], words: Words) -> str:
    """The rows; what is still as it was at the last checkpoint is in `words`, which those of this one replace."""
    known, begin = dict(words), time.perf_counter()
    words.clear()
    for key, value in rows.items():
        was = known.get(key)
        if was is None or was[0] is not value:
            was = (value, f"{json.dumps(key)}:{json.dumps(plain(value))}")
        words[key] = was
        taken = time.perf_counter() - begin
        if taken > _SLICE:
            await asyncio.sleep(taken * (1 / _SHARE - 1))
            begin = time.perf_counter()
    return ",".join(text for _, text in words.values())
