"""Runs pieces in local processes.

Each process has a thread here that sends it one piece at a time, so that no piece waits behind a long one while a
process is idle, and the thread knows the piece of a process that dies. Only these two hold the ends of their pipe, so
that each notices the other's death, even in the middle of a message.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any

from forebay.model.compile_hooks import hooks
from forebay.work.workers import Died, Work

DIED = Died("its worker process died (out of memory?)")
TRIES = 2
"""Processes that may die on one piece before it counts as `Died`."""


@dataclass(frozen=True, slots=True)
class _Raised:
    """The error that the work raised, in place of a result."""

    error: Exception


class ProcessCrew:
    """Up to `count` processes, started when they have work; stderr of `quiet` ones is discarded."""

    def __init__(self, count: int, work: Work, *, quiet: bool, preload: Sequence[str]) -> None:
        # Not "fork", which would copy locks that the thread of a progress bar holds.
        self.context: Any = multiprocessing.get_context("forkserver" if preload else "spawn")
        if preload:
            self.context.set_forkserver_preload(list(preload))
        self._count, self.work, self.quiet = count, work, quiet
        self.to_do: queue.SimpleQueue[tuple[int, Any] | None] = queue.SimpleQueue()
        self.done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._hands: list[_Hand] = []

    def size(self) -> int:
        return self._count

    def give(self, number: int, piece: object) -> None:
        self.to_do.put((number, piece))
        if len(self._hands) < self._count:
            self._hands.append(_Hand(self, announces=not self._hands))

    def wait(self) -> list[tuple[int, Any]]:
        results = [self.done.get()]
        with suppress(queue.Empty):
            while True:
                results.append(self.done.get_nowait())
        for _, result in results:
            if isinstance(result, _Raised):
                raise result.error
        return results

    def __enter__(self) -> ProcessCrew:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for hand in self._hands:
            hand.dismiss()
        if kind is None:
            for hand in self._hands:
                hand.join()


class _Hand(threading.Thread):
    """A thread with one process, which it replaces if it dies."""

    def __init__(self, crew: ProcessCrew, *, announces: bool) -> None:
        super().__init__(daemon=True)
        self._crew, self._announces = crew, announces
        self._process: Any = None
        self._pipe: Any = None
        self._dismissed = False
        self.start()

    def run(self) -> None:
        # The main thread handles Ctrl-C. Processes inherit the mask: interrupted at its start, one prints a traceback.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        while (task := self._crew.to_do.get()) is not None and not self._dismissed:
            number, piece = task
            self._crew.done.put((number, self._result(piece)))
        self._end()

    def _result(self, piece: object) -> Any:
        try:
            for _ in range(TRIES):
                if self._dismissed:
                    break
                if self._process is None:
                    self._begin()
                with suppress(EOFError, OSError):  # the process died
                    self._pipe.send(piece)
                    return self._pipe.recv()
                self._end()
            return DIED
        except Exception as error:  # it cannot start a process, or cannot send a piece
            return _Raised(error)

    def _begin(self) -> None:
        crew = self._crew
        self._pipe, theirs = crew.context.Pipe()
        with theirs:
            prepare = hooks.set_in_worker if self._announces else None
            process = crew.context.Process(target=_serve, args=(theirs, crew.work, crew.quiet, prepare), daemon=True)
            process.start()
        self._process = process
        if self._dismissed:
            process.kill()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join()
            self._pipe.close()

    def dismiss(self) -> None:
        """Drop the current piece, and begin no other. Other threads call this."""
        self._dismissed = True
        process = self._process
        if process is not None:
            process.kill()
        self._crew.to_do.put(None)


def _serve(pipe: Any, work: Work, quiet: bool, prepare: Callable[[], None] | None) -> None:
    """Do one piece after the other in the child process, until it is killed."""
    if prepare is not None:
        prepare()
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    if quiet:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            pipe.send_bytes(_answer(work, pipe.recv()))


def _answer(work: Work, piece: object) -> bytes:
    try:
        return pickle.dumps(work(piece))
    except Exception as error:
        error.add_note(f"in a worker process:\n{traceback.format_exc()}")
        try:
            return pickle.dumps(_Raised(error))
        except Exception:  # the error cannot be pickled
            return pickle.dumps(_Raised(RuntimeError(repr(error))))


def _end_with_parent() -> None:
    """End this process when its parent ends, for whatever reason."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
