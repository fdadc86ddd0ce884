"""Many independent pieces of work: done by any number of processes, each kept as soon as it is done.

A piece is known by its key and done by a pure function of it, so it does not matter who does
it, in which order, or in which attempt. Finished pieces are files in a folder; a piece whose
file is there is not done again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from forebay.model.errors import BadInput, ForebayError, why

Work = Callable[[str], Any]
"""From a key to an array; a module's function or a partial of one, so that it can be sent to a process."""


class Interrupted(ForebayError):
    """Stopped before all pieces were done; those that are stay."""

    def __init__(self, done: int, total: int, *, by_user: bool) -> None:
        because = "interrupted" if by_user else "a worker process died (out of memory?)"
        super().__init__(f"{because}; {done} of {total} pieces are done and kept")
        self.by_user = by_user


class Store:
    """A folder of finished pieces, all made with the same settings."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self._folder = folder
        self._settings = settings

    def open(self) -> None:
        """Make the folder, or check that what is in it was made with the same settings."""
        about = self._folder / "settings.json"
        wanted = json.dumps(self._settings, indent=1, sort_keys=True)
        if about.exists() and any(self._folder.rglob("*.npy")):
            try:
                found = dict(json.loads(about.read_text()))
            except (ValueError, TypeError):
                raise BadInput(str(about), "is damaged; delete the folder that it is in") from None
            differ = [k for k in sorted({*found, *self._settings}) if found.get(k) != json.loads(wanted).get(k)]
            if differ:
                raise BadInput(
                    str(self._folder.parent),
                    f"holds a study with other settings ({', '.join(differ)}); give another --out, or delete it",
                )
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(str(self._folder.parent), why(error)) from None
        partial = about.with_suffix(".partial")
        partial.write_text(wanted)
        partial.replace(about)

    def __contains__(self, key: str) -> bool:
        """Whether the piece is there and whole."""
        try:
            self.get(key)
        except (OSError, ValueError, EOFError):
            return False
        return True

    def put(self, key: str, piece: Any) -> None:
        self._path(key).parent.mkdir(parents=True, exist_ok=True)
        partial = self._path(key).with_suffix(".partial")
        with partial.open("wb") as file:
            np.save(file, piece)
        partial.replace(self._path(key))

    def get(self, key: str) -> Any:
        return np.load(self._path(key))

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.npy"


def do_all(keys: Sequence[str], work: Work, store: Store, *, workers: int, progress: Callable[[int], None]) -> None:
    """Do every piece that is not in the store; `progress` is told how many are done.

    Ctrl-C ends it with `Interrupted`; so does the death of a process.
    """
    missing = [key for key in keys if key not in store]
    done = len(keys) - len(missing)
    progress(done)
    try:
        for key, piece in _results(missing, work, workers):
            store.put(key, piece)
            done += 1
            progress(done)
    except KeyboardInterrupt:
        raise Interrupted(done, len(keys), by_user=True) from None
    except BrokenProcessPool:
        raise Interrupted(done, len(keys), by_user=False) from None


def _results(keys: Sequence[str], work: Work, workers: int) -> Iterator[tuple[str, Any]]:
    if workers == 1 or len(keys) < 2:
        for key in keys:
            yield key, work(key)
        return
    # Not forked: the progress bar's thread must not be copied half way through something.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(keys)), context, initializer=_worker) as pool:
        waiting: dict[Future[Any], str] = {}
        rest: Iterator[str] = iter(keys)
        try:
            while True:
                for key in islice(rest, 2 * workers - len(waiting)):
                    waiting[pool.submit(work, key)] = key
                if not waiting:
                    return
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
