"""Decides and writes: the one who changes the state, and its journal, which is what others see of it.

Commands that come while a batch is being written are decided and written together after it, so that the time that a
durable commit takes does not limit how many there can be in a second. Whatever fails on the way to the store, the
state is read from the journal again before anything else is decided.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import TypeVar

from forebay.act.control.errors import Unavailable
from forebay.act.control.service.live_state import EventRecord, Live, checkpoint, load
from forebay.decide.grants.commands import Command
from forebay.history.store import Connection, Store
from forebay.history.store.journal import Entry, append_entries, compress_state, read_unseen, save_checkpoint
from forebay.model.errors import UserError

T = TypeVar("T")
Heard = Callable[[Sequence[EventRecord]], None]
_MOST = 64  # commands written together
_LONGEST = 0.02  # seconds to decide before what is decided is written
_GAP = 0.004  # seconds from one commit to the next while many ask at once: each takes as much work as a decision
_MEMORY = 8  # batches that tell whether they do
EVENTS_PER_CHECKPOINT = 20_000


@dataclass(frozen=True, slots=True)
class _Wish:
    command: Command
    answer: asyncio.Future[list[EventRecord]]
    since: float


class Timings:
    """Seconds from a command's arrival to its commit, counted up to bounds, for those who watch."""

    bounds = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)

    def __init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0
        self.batches = 0

    def note(self, seconds: float) -> None:
        self.total += seconds
        self.counts[sum(seconds > bound for bound in self.bounds)] += 1


class Writer:
    """Of one process. Others may write to the same journal: it is locked while a batch is decided and written."""

    def __init__(
        self, store: Store, heard: Heard, *, clock: Callable[[], float] = time.time, every: int = EVENTS_PER_CHECKPOINT
    ) -> None:
        """`heard` is told what was written, by whomever; `clock` gives seconds since 1970."""
        self._store, self._heard, self._clock, self._every = store, heard, clock, every
        self._live: Live | None = None
        self._wishes: deque[_Wish] = deque()
        self._come = asyncio.Event()
        self._pen = asyncio.Lock()  # whoever writes has it from the beginning of the transaction to its end
        self._turn = asyncio.Lock()  # held from the first decision until what follows from it is written
        self._thread = ThreadPoolExecutor(1, "forebay-writer")
        self._task: asyncio.Task[None] | None = None
        self._sizes: deque[int] = deque([0], maxlen=_MEMORY)  # of the last batches
        self._kept = 0
        self._keeping: asyncio.Task[None] | None = None
        self.timings = Timings()

    async def start(self) -> None:
        self._live = await self._in_thread(lambda: load(self._store))
        self._kept = self._live.last
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """What was asked before is still done, and the state is kept, so that the next start is fast."""
        while self._wishes:
            await asyncio.sleep(0.01)
        async with self._pen:  # nobody is in the middle of a transaction
            tasks = [task for task in (self._task, self._keeping) if task is not None]
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._live is not None and self._live.last > self._kept:
            with suppress(Unavailable):  # the journal has it all
                await self._keep(self._live)
        self._thread.shutdown()

    async def do(self, command: Command) -> list[EventRecord]:
        """What a command led to, once it is written."""
        answer: asyncio.Future[list[EventRecord]] = asyncio.get_running_loop().create_future()
        self._wishes.append(_Wish(command, answer, time.perf_counter()))
        self._come.set()
        return await answer

    async def now(self) -> Live:
        """The state with nothing in it that is not written. It is to be read before anything else is waited for."""
        if self._live is None or not self._store.is_sqlite:  # others may have written
            await self._refresh()
        async with self._turn:
            pass
        if self._live is None:
            raise Unavailable("the store failed just now; try again")
        return self._live

    async def settled(self) -> Live:
        """As `now`, but without a look into the store, where others may have written in the last second."""
        if self._live is not None:
            async with self._turn:
                pass
        return self._live if self._live is not None else await self.now()

    @property
    def latest(self) -> Live | None:
        """The state, perhaps with something in it that is not written yet; None if it has to be read again."""
        return self._live

    async def read(self, look: Callable[[Connection], T]) -> T:
        """Look something up in the store."""
        return await _told(asyncio.to_thread(self._reading, look))

    def _reading(self, look: Callable[[Connection], T]) -> T:
        with self._store.reading() as connection:
            return look(connection)

    async def write(self, change: Callable[[Connection], T]) -> T:
        """Change something in the store that is not in the journal."""
        async with self._pen:
            return await _told(self._in_thread(lambda: self._writing(change)))

    def _writing(self, change: Callable[[Connection], T]) -> T:
        with self._store.writing() as connection:
            return change(connection)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _refresh(self) -> None:
        if self._live is None:
            async with self._turn:
                if self._live is None:
                    self._live = await _told(self._in_thread(lambda: load(self._store)))
                    return
            # Somebody else has read it meanwhile, perhaps before what is to be seen here was written.
        if self._live is not None:
            last = self._live.last
            entries = await self.read(lambda connection: read_unseen(connection, last))
            async with self._turn:
                if entries and self._live is not None:
                    self._heard(self._live.follow(entries))

    async def look(self) -> None:
        """See what others wrote."""
        await self._refresh()

    async def _run(self) -> None:
        while True:
            await self._come.wait()
            self._come.clear()
            while self._wishes:
                begin = time.perf_counter()
                await self._batch()
                if max(self._sizes) > 1:  # who asks one thing after the other need not wait
                    await asyncio.sleep(max(0.0, begin + _GAP - time.perf_counter()))

    async def _batch(self) -> None:
        taken: list[_Wish] = []
        try:
            if self._live is None:
                await self._refresh()
            assert self._live is not None
            async with self._pen:
                await self._transact(self._live, taken)
        except Exception as error:  # whatever it was, nothing of this batch holds
            self._live = None
            taken = taken or self._take_all()
            for wish in taken:
                _fail(wish, _unavailable(error))

    async def _transact(self, live: Live, taken: list[_Wish]) -> None:
        transaction, entries = await self._in_thread(lambda: self._begin(live.last))
        async with self._turn:
            await self._decide_and_write(live, transaction, entries, taken)

    def _take_all(self) -> list[_Wish]:
        taken = list(self._wishes)
        self._wishes.clear()
        return taken

    async def _decide_and_write(
        self, live: Live, transaction: _Transaction, entries: list[Entry], taken: list[_Wish]
    ) -> None:
        try:
            others = live.follow(entries)
            decided = self._decide(live, taken)
            new = [one for _, found in decided for one in found]
        except BaseException:
            await self._in_thread(transaction.give_up)
            raise
        await self._in_thread(lambda: transaction.finish([one.entry for one in new]))
        self.timings.batches += 1
        self._sizes.append(len(taken))
        self._heard([*others, *new])
        for wish, found in decided:
            self.timings.note(time.perf_counter() - wish.since)
            if not wish.answer.done():
                wish.answer.set_result(found)
        self._keep_sometimes(live)

    def _decide(self, live: Live, taken: list[_Wish]) -> list[tuple[_Wish, list[EventRecord]]]:
        """As many as there is time for; those that make no sense are told so."""
        decided = []
        until = time.perf_counter() + _LONGEST
        while self._wishes and len(taken) < _MOST and time.perf_counter() < until:
            wish = self._wishes.popleft()
            taken.append(wish)
            try:
                events = live.control.do(wish.command, self._clock())
            except Exception as error:  # the state is as before, so the others need not know
                _fail(wish, error)
                continue
            decided.append((wish, live.note_done(events)))
        return decided

    def _begin(self, last: int) -> tuple[_Transaction, list[Entry]]:
        transaction = _Transaction(self._store.writing())
        try:
            return transaction, read_unseen(transaction.connection, last)
        except BaseException:
            transaction.give_up()
            raise

    def _keep_sometimes(self, live: Live) -> None:
        if live.last - self._kept >= self._every and (self._keeping is None or self._keeping.done()):
            self._keeping = asyncio.create_task(self._keep(live))

    async def _keep(self, live: Live) -> None:
        async with self._turn:  # so that nothing is in it that is not written; the rest works on a copy
            made = checkpoint(live)
            first = asyncio.ensure_future(made)
            await asyncio.sleep(0)
        number, text = await first
        state = await asyncio.to_thread(compress_state, text)
        await self.write(lambda connection: save_checkpoint(connection, number, state))
        self._kept = number


class _Transaction:
    """One that begins in one call and ends in another."""

    def __init__(self, context: AbstractContextManager[Connection]) -> None:
        self._context = context
        self.connection = context.__enter__()

    def finish(self, entries: Sequence[Entry]) -> None:
        """Write entries, and make sure that they hold."""
        try:
            append_entries(self.connection, entries)
        except BaseException as error:
            self._context.__exit__(type(error), error, error.__traceback__)
            raise
        self._context.__exit__(None, None, None)

    def give_up(self) -> None:
        try:
            raise _GivenUp
        except _GivenUp as error:
            with suppress(_GivenUp):
                self._context.__exit__(_GivenUp, error, error.__traceback__)


class _GivenUp(Exception):
    pass


def _fail(wish: _Wish, error: Exception) -> None:
    if not wish.answer.done():
        wish.answer.set_exception(error)


def _unavailable(error: Exception) -> Unavailable:
    words = str(error) if isinstance(error, UserError | Unavailable) else f"the store failed: {error}"
    return Unavailable(" ".join(words.split())[:300])


async def _told(work: Awaitable[T]) -> T:
    try:
        return await work
    except Exception as error:
        raise _unavailable(error) from error
