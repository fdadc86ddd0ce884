"""Runs pieces on Dask workers.

Each worker gets the work function once, then only pieces. Short pieces travel in bundles, because each message costs
some milliseconds. If a worker dies, Dask repeats its bundle. After several deaths, Dask also gives up the bundles that
waited on the same workers, so each piece of these is repeated alone.
"""

from __future__ import annotations

import pickle
import queue
import threading
import time
import uuid
from collections import deque
from contextlib import suppress
from typing import Any

from distributed import KilledWorker, WorkerPlugin

from forebay.work.dask import DaskWorkers
from forebay.work.workers import Died, Gone, Work

POLL = 1.0
"""Seconds without results before a check that workers are left."""
BUNDLE = 0.25
"""Seconds of work to send in one message, in at most `MOST` pieces."""
MOST = 64
_works: dict[str, Work] = {}
"""In a worker: its work, by the unique name of the run."""
_one_at_a_time = threading.Lock()
_Numbered = tuple[int, object]
"""A piece with its number."""
_DIED = Died("its workers died one after the other (out of memory?)")


class _WorkPlugin(WorkerPlugin):
    """Sends the work function to every worker, also to those that join later."""

    def __init__(self, name: str, work: Work) -> None:
        self.name = name
        self._work = pickle.dumps(work)

    def setup(self, worker: object) -> None:
        del worker
        _works[self.name] = pickle.loads(self._work)

    def teardown(self, worker: object) -> None:
        del worker
        _works.pop(self.name, None)


def forebay_pieces(name: str, pieces: list[object]) -> tuple[float, list[Any]]:
    """Do pieces in a worker; returns the seconds that they took, and their results.

    Only one piece runs at a time, even with several threads: Darshan's library and policies may not be thread-safe.
    """
    with _one_at_a_time:
        begin = time.perf_counter()
        results = [_works[name](piece) for piece in pieces]
        return time.perf_counter() - begin, results


class DaskCrew:
    """All workers of a scheduler, for one work function."""

    def __init__(self, workers: DaskWorkers, work: Work) -> None:
        self._workers, self._client = workers, workers.client
        self._name = f"forebay-{uuid.uuid4().hex}"
        self._plugin = _WorkPlugin(self._name, work)
        self._new: deque[_Numbered] = deque()
        self._suspects: deque[_Numbered] = deque()
        self._suspected: set[int] = set()
        self._under_way: dict[str, tuple[Any, list[_Numbered]]] = {}  # futures and their bundles, by key
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._seconds = BUNDLE  # mean of recent pieces

    def size(self) -> int:
        return max(1, self._workers.count()) * self._bundle_size()

    def _bundle_size(self) -> int:
        return max(1, min(MOST, int(BUNDLE / self._seconds)))

    def give(self, number: int, piece: object) -> None:
        self._new.append((number, piece))

    def wait(self) -> list[tuple[int, Any]]:
        while True:
            self._submit()
            if results := self._collect(self._wait_for_futures()):
                return results

    def _submit(self) -> None:
        """Submit new pieces, or a suspect alone."""
        while self._new and not self._suspects:
            self._send([self._new.popleft() for _ in range(min(self._bundle_size(), len(self._new)))])
        if self._suspects and not self._under_way:
            self._send([self._suspects.popleft()])

    def _send(self, bundle: list[_Numbered]) -> None:
        future = self._client.submit(forebay_pieces, self._name, [piece for _, piece in bundle], pure=False)
        self._under_way[future.key] = future, bundle
        future.add_done_callback(self._done.put)

    def _wait_for_futures(self) -> list[Any]:
        """Futures that are done; an empty list after `POLL` seconds without any, if workers are left."""
        try:
            done = [self._done.get(timeout=POLL)]
        except queue.Empty:
            self._workers.count()
            return []
        with suppress(queue.Empty):
            while True:
                done.append(self._done.get_nowait())
        return done

    def _collect(self, done: list[Any]) -> list[tuple[int, Any]]:
        pairs = [self._under_way.pop(future.key) for future in done if future.key in self._under_way]
        finished = [(future, bundle) for future, bundle in pairs if future.status == "finished"]
        answers = self._client.gather([future for future, _ in finished]) if finished else []
        results: list[tuple[int, Any]] = []
        for (_, bundle), (seconds, values) in zip(finished, answers, strict=True):
            self._seconds = 0.7 * self._seconds + 0.3 * max(seconds / len(bundle), 1e-6)
            results += [(number, value) for (number, _), value in zip(bundle, values, strict=True)]
        return results + [pair for future, bundle in pairs for pair in self._handle_failure(future, bundle)]

    def _handle_failure(self, future: Any, bundle: list[_Numbered]) -> list[tuple[int, Any]]:
        """Return `Died` for suspects whose worker died again; make the other pieces suspects, to be repeated."""
        if future.status == "finished":
            return []
        error = future.exception() if future.status == "error" else None
        if error is not None and not isinstance(error, KilledWorker):
            raise error
        if error is None and self._client.status != "running":
            raise Gone(f"{self._workers.where}: lost the connection to the Dask scheduler")
        again = [(number, piece) for number, piece in bundle if number not in self._suspected]
        died = [(number, _DIED) for number, _ in bundle if number in self._suspected]
        self._suspects += again
        self._suspected |= {number for number, _ in again}
        return died

    def __enter__(self) -> DaskCrew:
        self._client.register_plugin(self._plugin)
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel everything. Workers cannot stop a running piece, but its result is dropped."""
        futures = [future for future, _ in self._under_way.values()]
        self._under_way.clear()
        if self._client.status != "running":
            return
        with suppress(OSError, TimeoutError):
            if futures:
                self._client.cancel(futures)
            self._client.unregister_worker_plugin(self._name)
