"""Threads that carry out tasks which lead to further tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

Task = Callable[[], "Iterable[Task] | None"]
"""Does something; the tasks that it returns are done before those that wait already."""


class TaskPool:
    """Does tasks in `workers` threads, the newest first, so that few of a large tree are in memory at a time."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._waiting: list[Iterator[Task]] = []
        self._changed = threading.Condition()
        self._busy = 0
        self._error: BaseException | None = None

    def run(self, tasks: Iterable[Task]) -> None:
        """Do the tasks and all that they lead to. After an error, begin no more and raise it."""
        self._waiting.append(iter(tasks))
        threads = [threading.Thread(target=self._work, name=f"copy {i}", daemon=True) for i in range(self._workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        while (task := self._take()) is not None:
            try:
                more = task()
            except BaseException as error:  # raised by `run`
                more, self._error = None, self._error or error
            with self._changed:
                self._busy -= 1
                if more is not None:
                    self._waiting.append(iter(more))
                if more is not None or not self._busy:
                    self._changed.notify_all()

    def _take(self) -> Task | None:
        with self._changed:
            while True:
                while self._waiting and self._error is None:
                    task = next(self._waiting[-1], None)
                    if task is not None:
                        self._busy += 1
                        return task
                    self._waiting.pop()
                if not self._busy or self._error is not None:
                    return None
                self._changed.wait()
