"""The writer decides commands and writes their events to the journal. Nothing else changes the state.

Commands that arrive during a commit are decided and written together after it, so that the duration of a durable
commit does not limit the commands per second. If a write fails, the writer reads the state from the journal again
before it decides anything else.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from typing import TypeVar

from forebay.act.control.errors import Unavailable
from forebay.act.control.service.live_state import EventRecord, Live, checkpoint, load, stamp_entry
from forebay.decide.grants.commands import Command
from forebay.history.store import Connection, Store, journal
from forebay.model.errors import UserError

T = TypeVar("T")
Publish = Callable[[Sequence[EventRecord]], None]
_MOST = 64  # commands written together
_LONGEST = 0.02  # seconds of deciding before a batch is written
_GAP = 0.004  # seconds between commits under load: a commit costs as much work as a decision
_MEMORY = 8  # recent batches that show whether there is load


@dataclass(frozen=True, slots=True)
class _Wish:
    command: Command
    answer: asyncio.Future[list[EventRecord]]
    since: float


class Timings:
    """A histogram of the seconds from a command's arrival to its commit, for the metrics."""

    bounds = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)

    def __init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0
        self.batches = 0

    def note(self, seconds: float) -> None:
        self.total += seconds
        self.counts[sum(seconds > bound for bound in self.bounds)] += 1


class Writer:
    """The writer of one process. It locks the journal for each batch, because other processes may write to it."""

    def __init__(
        self, store: Store, publish: Publish, *, clock: Callable[[], float] = time.time, every: int = 20_000
    ) -> None:
        """Calls `publish` with all new events, also of other processes; `clock` gives seconds since 1970."""
        self._store, self._publish, self._clock, self._every = store, publish, clock, every
        self.latest: Live | None = None
        """The state, which may include changes that are not written yet; None if it must be read again."""
        self.timings = Timings()
        self._wishes: deque[_Wish] = deque()
        self._come = asyncio.Event()
        self._pen = asyncio.Lock()  # held by a writer during its transaction
        self._turn = asyncio.Lock()  # held from the first decision of a batch until it is written
        self._thread = ThreadPoolExecutor(1, "forebay-writer")
        self._tasks: list[asyncio.Task[None]] = []
        self._sizes: deque[int] = deque([0], maxlen=_MEMORY)  # of the last batches
        self._kept = 0
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.latest = await self._in_thread(lambda: load(self._store))
        self._kept = self.latest.last
        self._tasks.append(asyncio.create_task(self._run()))

    async def stop(self) -> None:
        """Finish pending commands and store the state, so that the next start is fast."""
        while self._wishes:
            await asyncio.sleep(0.01)
        tasks = [*self._tasks, *([] if self._keeping is None else [self._keeping])]
        async with self._pen:  # so that no transaction is under way
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.latest is not None and self.latest.last > self._kept:
            with suppress(Unavailable):  # the journal has it all
                await self._keep(self.latest)
        self._thread.shutdown()

    async def do(self, command: Command) -> list[EventRecord]:
        """Carry out a command; returns its events once they are written."""
        answer: asyncio.Future[list[EventRecord]] = asyncio.get_running_loop().create_future()
        self._wishes.append(_Wish(command, answer, time.perf_counter()))
        self._come.set()
        return await answer

    async def now(self, *, look: bool = True) -> Live:
        """The state, with all its changes written. Read from it before the next `await`.

        Without `look`, it may lack what other processes wrote in the last second.
        """
        if self.latest is None or (look and not self._store.is_sqlite):
            await self.look()
        async with self._turn:
            pass
        if self.latest is None:
            raise Unavailable("the store failed just now; try again")
        return self.latest

    async def is_known(self, seen: str) -> bool | None:
        """Whether the journal has the entry that an agent has `seen` last (see `Live.stamp`); None for no entry.

        A store that was restored from an earlier copy lacks that entry, or later has another one with its number.
        """
        if not seen:
            return None
        live, text = await self.now(), seen.partition(":")[0]
        if not (text.isascii() and text.isdigit() and len(text) < 19 and 0 < int(text) <= live.last):
            return False
        number = int(text)
        first = live.recent[0].number if live.recent else live.last + 1
        if number >= first:
            return seen == stamp_entry(live.recent[number - first])
        entries = await self.read_entries(number - 1, 1)
        return [stamp_entry(entry) for entry in entries] == [seen]

    async def read(self, look: Callable[[Connection], T]) -> T:
        """Look something up in the store."""
        return await _or_unavailable(asyncio.to_thread(_call_within, self._store.open_reader, look))

    async def read_entries(self, after: int, most: int) -> list[journal.Entry]:
        """The next entries of the journal after a number, at most `most`."""
        return await self.read(lambda connection: list(journal.read_after(connection, after, most)))

    async def write(self, change: Callable[[Connection], T]) -> T:
        """Change something in the store that is not in the journal."""
        async with self._pen:
            return await _or_unavailable(self._in_thread(lambda: _call_within(self._store.open_writer, change)))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def look(self) -> None:
        """Read what other processes wrote."""
        if self.latest is None:
            async with self._turn:
                if self.latest is None:
                    self.latest = await _or_unavailable(self._in_thread(lambda: load(self._store)))
                    return
            # Another task has just read it, perhaps too early for this caller.
        if self.latest is not None:
            last = self.latest.last
            entries = await self.read(lambda connection: journal.read_unseen(connection, last))
            async with self._turn:
                if entries and self.latest is not None:
                    self._publish(self.latest.follow(entries))

    async def _run(self) -> None:
        while True:
            await self._come.wait()
            self._come.clear()
            while self._wishes:
                begin = time.perf_counter()
                await self._batch()
                if max(self._sizes) > 1:  # a caller that sends one command after another need not wait
                    await asyncio.sleep(max(0.0, begin + _GAP - time.perf_counter()))

    async def _batch(self) -> None:
        batch: list[_Wish] = []
        try:
            if self.latest is None:
                await self.look()
            assert self.latest is not None
            async with self._pen:
                await self._decide_and_write(self.latest, batch)
        except Exception as error:  # after any error, nothing of this batch is valid
            self.latest = None
            if not batch:
                batch, self._wishes = list(self._wishes), deque()
            for wish in batch:
                _fail(wish, _unavailable(error))

    async def _decide_and_write(self, live: Live, batch: list[_Wish]) -> None:
        transaction = await self._in_thread(lambda: _Transaction(self._store, live.last))
        async with self._turn:
            try:
                others = live.follow(transaction.unseen)
                decided = self._decide(live, batch)
            except BaseException:
                await self._in_thread(transaction.give_up)
                raise
            new = [record for _, records in decided for record in records]
            await self._in_thread(lambda: transaction.finish([record.entry for record in new]))
            self.timings.batches += 1
            self._sizes.append(len(batch))
            self._publish([*others, *new])
            for wish, records in decided:
                self.timings.note(time.perf_counter() - wish.since)
                if not wish.answer.done():
                    wish.answer.set_result(records)
            if live.last - self._kept >= self._every and (self._keeping is None or self._keeping.done()):
                self._keeping = asyncio.create_task(self._keep(live))

    def _decide(self, live: Live, batch: list[_Wish]) -> list[tuple[_Wish, list[EventRecord]]]:
        """Decide as many commands as time permits; an invalid command gets its error."""
        decided = []
        until = time.perf_counter() + _LONGEST
        while self._wishes and len(batch) < _MOST and time.perf_counter() < until:
            wish = self._wishes.popleft()
            batch.append(wish)
            try:
                events = live.control.do(wish.command, self._clock())
            except Exception as error:  # the state is unchanged, so the other commands go on
                _fail(wish, error)
                continue
            decided.append((wish, live.note_done(events)))
        return decided

    async def _keep(self, live: Live) -> None:
        async with self._turn:  # so that all changes are written; what follows works on a copy
            made = checkpoint(live)
            first = asyncio.ensure_future(made)
            await asyncio.sleep(0)
        number, text = await first
        state = await asyncio.to_thread(journal.compress_state, text)
        await self.write(lambda connection: journal.save_checkpoint(connection, number, state))
        self._kept = number


class _Transaction:
    """A transaction that begins in one call, which reads what other processes wrote, and ends in another."""

    def __init__(self, store: Store, last: int) -> None:
        with ExitStack() as stack:
            self.connection = stack.enter_context(store.open_writer())
            self.unseen = journal.read_unseen(self.connection, last)
            self._open = stack.pop_all()

    def finish(self, entries: Sequence[journal.Entry]) -> None:
        """Write entries and commit them."""
        with self._open:
            journal.append_entries(self.connection, entries)

    def give_up(self) -> None:
        with suppress(_GivenUp), self._open:
            raise _GivenUp


class _GivenUp(Exception):
    pass


def _call_within(context: Callable[[], AbstractContextManager[Connection]], work: Callable[[Connection], T]) -> T:
    with context() as connection:
        return work(connection)


def _fail(wish: _Wish, error: Exception) -> None:
    if not wish.answer.done():
        wish.answer.set_exception(error)


def _unavailable(error: Exception) -> Unavailable:
    text = str(error) if isinstance(error, UserError | Unavailable) else f"the store failed: {error}"
    return Unavailable(" ".join(text.split())[:300])


async def _or_unavailable(work: Awaitable[T]) -> T:
    try:
        return await work
    except Exception as error:
        raise _unavailable(error) from error
