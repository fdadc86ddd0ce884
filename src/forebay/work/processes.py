"""Pieces done by processes of this machine.

Every process has a pool of its own, so that when one dies it is known which piece it was at.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any

from forebay.work.crew import Died, Work

DIED = Died("the process that did it died (out of memory?)")


class ProcessCrew:
    """`count` processes, started as there is something for them; `quiet` ones keep their errors off the screen."""

    def __init__(self, count: int, work: Work, *, quiet: bool, preload: Sequence[str]) -> None:
        # Not forked: the thread of a progress bar must not be copied half way through something.
        context: Any = multiprocessing.get_context("forkserver" if preload else "spawn")
        if preload:
            context.set_forkserver_preload(list(preload))

        def pool() -> ProcessPoolExecutor:
            return ProcessPoolExecutor(1, mp_context=context, initializer=_begin, initargs=(quiet,))

        self._before = set(multiprocessing.active_children())
        self._hands = [_Hand(work, pool) for _ in range(count)]

    def size(self) -> int:
        return len(self._hands)

    def give(self, number: int, piece: Any) -> None:
        min(self._hands, key=len).give(_Task(number, piece))

    def ready(self) -> list[tuple[int, Any]]:
        while True:
            found = [pair for hand in self._hands for pair in hand.ready()]
            if found:
                return found
            self._level()
            wait([future for hand in self._hands for future in hand.futures()], return_when=FIRST_COMPLETED)

    def _level(self) -> None:
        """Nobody shall be idle while another has a queue."""
        for idle in (hand for hand in self._hands if not len(hand)):
            task = max(self._hands, key=len).give_up()
            if task is not None:
                idle.give(task)

    def __enter__(self) -> ProcessCrew:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for hand in self._hands:
            hand.end(wait=kind is None)
        if kind is not None:
            for child in set(multiprocessing.active_children()) - self._before:
                child.terminate()


@dataclass(slots=True)
class _Task:
    number: int
    piece: Any
    tries: int = 1


class _Hand:
    """One process, and what it has been given: it does that one after the other."""

    def __init__(self, work: Work, pool: Callable[[], ProcessPoolExecutor]) -> None:
        self._work, self._new_pool = work, pool
        self._pool: ProcessPoolExecutor | None = None
        self._given: deque[tuple[_Task, Future[Any]]] = deque()

    def __len__(self) -> int:
        return len(self._given)

    def futures(self) -> list[Future[Any]]:
        return [future for _, future in self._given]

    def give(self, task: _Task) -> None:
        self._pool = self._pool or self._new_pool()
        try:
            with _leaving_ctrl_c_to_us():
                future = self._pool.submit(self._work, task.piece)
        except BrokenProcessPool as error:  # it died meanwhile: then that is what comes of this one too
            future = Future()
            future.set_exception(error)
        self._given.append((task, future))

    def give_up(self) -> _Task | None:
        """The last that it was given, unless it has begun with it."""
        if not self._given or not self._given[-1][1].cancel():
            return None
        return self._given.pop()[0]

    def ready(self) -> Iterator[tuple[int, Any]]:
        while self._given and self._given[0][1].done():
            task, future = self._given.popleft()
            if not isinstance(future.exception(), BrokenProcessPool):
                yield task.number, future.result()
            elif task.tries > 1:
                self._begin_again([])
                yield task.number, DIED
            else:
                self._begin_again([_Task(task.number, task.piece, task.tries + 1)])

    def _begin_again(self, first: list[_Task]) -> None:
        """In a new process: what killed the old one, if it gets another chance, and then what came after it."""
        self.end(wait=True)
        tasks = [*first, *(task for task, _ in self._given)]
        self._given.clear()
        for task in tasks:
            self.give(task)

    def end(self, *, wait: bool) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=wait, cancel_futures=True)


@contextmanager
def _leaving_ctrl_c_to_us() -> Iterator[None]:
    """Processes that are started meanwhile never see it; one that did while it starts would fill the screen."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(quiet: bool) -> None:
    """In the new process: it ends when its parent ends, however that was."""
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    if quiet:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
