"""Pieces done by processes of this machine.

A thread stands behind every process and hands it one piece at a time: no piece waits behind a long one while somebody
is idle, and when a process dies it is known which piece it was at. Nobody but these two holds an end of what they talk
through, so that the death of one is seen by the other even in the middle of a message.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection
from typing import Any

from forebay.work.crew import Died, Work

DIED = Died("the process that did it died (out of memory?)")
TRIES = 2
"""Processes that may die over a piece."""


@dataclass(frozen=True, slots=True)
class _Raised:
    """Instead of a result."""

    error: Exception


class ProcessCrew:
    """`count` processes, started as there is something for them; `quiet` ones keep their errors off the screen."""

    def __init__(self, count: int, work: Work, *, quiet: bool, preload: Sequence[str]) -> None:
        # Not forked: the thread of a progress bar must not be copied half way through something.
        context: Any = multiprocessing.get_context("forkserver" if preload else "spawn")
        if preload:
            context.set_forkserver_preload(list(preload))
        self._count = count
        self._to_do: queue.SimpleQueue[tuple[int, Any] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._hand = partial(_Hand, context, work, quiet, self._to_do, self._done)
        self._hands: list[_Hand] = []

    def size(self) -> int:
        return self._count

    def give(self, number: int, piece: Any) -> None:
        self._to_do.put((number, piece))
        if len(self._hands) < self._count:
            self._hands.append(self._hand())

    def ready(self) -> list[tuple[int, Any]]:
        found = [self._done.get()]
        with suppress(queue.Empty):
            while True:
                found.append(self._done.get_nowait())
        for _, result in found:
            if isinstance(result, _Raised):
                raise result.error
        return found

    def __enter__(self) -> ProcessCrew:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for hand in self._hands:
            hand.dismiss()
        if kind is None:
            for hand in self._hands:
                hand.join()


class _Hand(threading.Thread):
    """One process after the other, as long as there is something to do."""

    def __init__(
        self,
        context: Any,
        work: Work,
        quiet: bool,
        to_do: queue.SimpleQueue[tuple[int, Any] | None],
        done: queue.SimpleQueue[tuple[int, Any]],
    ) -> None:
        super().__init__(daemon=True)
        self._context, self._work, self._quiet = context, work, quiet
        self._to_do, self._done = to_do, done
        self._process: Any = None
        self._door: Any = None
        self._over = False
        self.start()

    def run(self) -> None:
        # Ctrl-C is the main thread's matter: processes that this one starts never see it, for one that did while it
        # starts would fill the screen.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        while (task := self._to_do.get()) is not None and not self._over:
            number, piece = task
            self._done.put((number, self._result(piece)))
        self._end()

    def _result(self, piece: Any) -> Any:
        try:
            for _ in range(TRIES):
                if self._over:
                    break
                if self._process is None:
                    self._begin()
                with suppress(EOFError, OSError):  # it died
                    self._door.send(piece)
                    return self._door.recv()
                self._end()
            return DIED
        except Exception as error:  # no process can be started, or something can't be sent
            return _Raised(error)

    def _begin(self) -> None:
        self._door, theirs = self._context.Pipe()
        with theirs:
            process = self._context.Process(target=_serve, args=(theirs, self._work, self._quiet), daemon=True)
            process.start()
        self._process = process
        if self._over:
            process.kill()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join()
            self._door.close()

    def dismiss(self) -> None:
        """What it is at is left undone, and nothing else begun. Called by another thread."""
        self._over = True
        process = self._process
        if process is not None:
            process.kill()
        self._to_do.put(None)


def _serve(door: Any, work: Work, quiet: bool) -> None:
    """In the process: one piece after the other, until it is killed."""
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    if quiet:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            door.send_bytes(_answer(work, door.recv()))


def _answer(work: Work, piece: Any) -> bytes:
    try:
        return pickle.dumps(work(piece))
    except Exception as error:
        error.add_note(f"in a process of its own:\n{traceback.format_exc()}")
        return _sendable(error)


def _sendable(error: Exception) -> bytes:
    try:
        return pickle.dumps(_Raised(error))
    except Exception:  # it holds something that can't be sent
        return pickle.dumps(_Raised(RuntimeError(repr(error))))


def _end_with_parent() -> None:
    """However that ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
