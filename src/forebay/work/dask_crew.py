"""Pieces done by Dask workers.

The work goes to each worker once, and then only pieces and results travel; short pieces are sent in bundles, for each
message costs some milliseconds. Dask itself does a bundle again whose worker dies. When several workers died over one,
the others that were waiting there with it are as suspect to Dask as the culprit: so each of their pieces is done once
more, alone.
"""

from __future__ import annotations

import pickle
import queue
import threading
import time
import uuid
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from distributed import KilledWorker, WorkerPlugin

from forebay.work.crew import Died, Work
from forebay.work.workers import Gone

if TYPE_CHECKING:
    from forebay.work.dask import DaskWorkers

POLL = 1.0
"""Seconds without news after which to see whether anybody is left."""
BUNDLE = 0.25
"""Seconds of work to send in one message, as far as pieces are that short; no more than `MOST` of them."""
MOST = 64
_works: dict[str, Work] = {}
"""In a worker: what it does, by a name that only this one run has."""
_one_at_a_time = threading.Lock()
_DIED = Died("the workers that did it died, one after the other (out of memory?)")


class _Bring(WorkerPlugin):
    """Brings the work to every worker, also to those that come later."""

    def __init__(self, name: str, work: Work) -> None:
        self.name = name
        self._work = pickle.dumps(work)

    def setup(self, worker: object) -> None:
        del worker
        _works[self.name] = pickle.loads(self._work)

    def teardown(self, worker: object) -> None:
        del worker
        _works.pop(self.name, None)


def forebay_pieces(name: str, pieces: list[Any]) -> tuple[float, list[Any]]:
    """In a worker: what comes of each, and the seconds that it took.

    A worker may have several threads, but neither Darshan's library nor anybody's policy need be ready for that.
    """
    with _one_at_a_time:
        begin = time.perf_counter()
        results = [_works[name](piece) for piece in pieces]
        return time.perf_counter() - begin, results


@dataclass(slots=True)
class _Given:
    """A piece; `suspect` if several workers died while it was with them."""

    number: int
    piece: Any
    suspect: bool = False


class DaskCrew:
    """All workers that there are, for one kind of work."""

    def __init__(self, workers: DaskWorkers, work: Work) -> None:
        self._workers, self._client = workers, workers.client
        self._name = f"forebay-{uuid.uuid4().hex}"
        self._plugin = _Bring(self._name, work)
        self._new: deque[_Given] = deque()
        self._suspects: deque[_Given] = deque()
        self._under_way: dict[str, tuple[Any, list[_Given]]] = {}  # futures with what is in them, by their key
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._seconds = BUNDLE  # of a piece, as of late

    def size(self) -> int:
        return max(1, self._workers.count()) * self._bundle()

    def _bundle(self) -> int:
        """How many pieces to send at once."""
        return max(1, min(MOST, int(BUNDLE / self._seconds)))

    def give(self, number: int, piece: Any) -> None:
        self._new.append(_Given(number, piece))

    def ready(self) -> list[tuple[int, Any]]:
        while True:
            self._submit()
            found = self._taken(self._news())
            if found:
                return found

    def _submit(self) -> None:
        """As much as may be under way together: a suspect only alone."""
        while self._new and not self._suspects:
            self._send([self._new.popleft() for _ in range(min(self._bundle(), len(self._new)))])
        if self._suspects and not self._under_way:
            self._send([self._suspects.popleft()])

    def _send(self, bundle: list[_Given]) -> None:
        future = self._client.submit(forebay_pieces, self._name, [given.piece for given in bundle], pure=False)
        self._under_way[future.key] = future, bundle
        future.add_done_callback(self._done.put)

    def _news(self) -> list[Any]:
        """Futures that are done; none if nothing happens for a while and there is still somebody at work."""
        try:
            done = [self._done.get(timeout=POLL)]
        except queue.Empty:
            self._workers.count()
            return []
        with suppress(queue.Empty):
            while True:
                done.append(self._done.get_nowait())
        return done

    def _taken(self, done: list[Any]) -> list[tuple[int, Any]]:
        pairs = [self._under_way.pop(future.key) for future in done if future.key in self._under_way]
        finished = [(future, bundle) for future, bundle in pairs if future.status == "finished"]
        answers = self._client.gather([future for future, _ in finished]) if finished else []
        found: list[tuple[int, Any]] = []
        for (_, bundle), (seconds, results) in zip(finished, answers, strict=True):
            self._seconds = 0.7 * self._seconds + 0.3 * max(seconds / len(bundle), 1e-6)
            found += [(given.number, result) for given, result in zip(bundle, results, strict=True)]
        return found + [pair for future, bundle in pairs for pair in self._not_finished(future, bundle)]

    def _not_finished(self, future: Any, bundle: list[_Given]) -> list[tuple[int, Any]]:
        """What to say of pieces without a result: nothing, if they are done again."""
        if future.status == "finished":
            return []
        error = future.exception() if future.status == "error" else None
        if error is not None and not isinstance(error, KilledWorker):
            raise error
        if error is None and self._client.status != "running":
            raise Gone(f"{self._workers.where}: the Dask scheduler went away")
        self._suspects += [replace(given, suspect=True) for given in bundle if not given.suspect]
        return [(given.number, _DIED) for given in bundle if given.suspect]

    def __enter__(self) -> DaskCrew:
        self._client.register_plugin(self._plugin)
        return self

    def __exit__(self, *_: object) -> None:
        """What has begun can't be stopped in a worker, but what comes of it is dropped."""
        futures = [future for future, _ in self._under_way.values()]
        self._under_way.clear()
        if self._client.status != "running":
            return
        with suppress(OSError, TimeoutError):
            if futures:
                self._client.cancel(futures)
            self._client.unregister_worker_plugin(self._name)
