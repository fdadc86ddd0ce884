"""Darshan logs into the history: many at a time, each once.

Workers read, one process writes, a batch in a transaction; whatever ends it, the batches before are
kept and the next ingest goes on from there. Logs are taken in in the order that they were found in, whoever read them
and how fast, so that the history is the same whatever the number of workers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from forebay.history.darshan.log_worker import PRELOADED, failed_log, read_many
from forebay.history.darshan.process_logs import merge_processes
from forebay.history.scanned_log import ScannedLog, Status, path_text
from forebay.history.store import Store
from forebay.history.store.logs import clear_stale, find_unchanged, list_stale, read_process_summaries, record_logs
from forebay.history.store.runs import add_runs, remove_runs
from forebay.model.errors import BadInput, UserError, why
from forebay.work import Died, Workers, is_local, run_pieces

CHUNK = 50
"""Logs that a worker reads before it reports."""
AHEAD = 8
"""Chunks for each worker to go on with while a batch is being written."""
BATCH = 500
"""Logs in a transaction."""
SUFFIXES = (".darshan", ".darshan_partial")


@dataclass(slots=True)
class Report:
    """What an ingest did, in numbers of logs; `listed` names those with something to say of them.

    `listed` is (path, status, reason), sorted by path.
    """

    read: int = 0
    known: int = 0
    copies: int = 0
    failed: int = 0
    listed: list[tuple[str, Status, str]] = field(default_factory=list)

    @property
    def seen(self) -> int:
        return self.read + self.known + self.copies + self.failed

    def add_failed(self, path: str, reason: str) -> None:
        self.failed += 1
        self.listed.append((path, "failed", reason))


def ingest(
    store: Store, paths: Sequence[Path], *, workers: Workers, progress: Callable[[int], None] = lambda _done: None
) -> Report:
    """Read all logs under `paths` that are not known yet."""
    check_library()
    report = Report()
    _combine(store)  # what an ingest before could not finish
    wanted = _new(store, find_logs(paths, report.add_failed), report)
    batch: list[ScannedLog] = []
    try:
        with closing(_read_all(wanted, workers)) as chunks:
            for chunk in chunks:
                batch += chunk
                if len(batch) >= BATCH:
                    full, batch = batch, []
                    _take_in(store, full, report)
                progress(report.seen + len(batch))
    finally:
        if batch:
            _take_in(store, batch, report)
    _combine(store)
    report.listed.sort()
    return report


def check_library() -> None:
    """PyDarshan's packages for some Pythons bring no library to read logs with, and then none can be read."""
    package = find_spec("darshan")
    if package is None:
        raise ModuleNotFoundError("PyDarshan is not installed", name="darshan")
    origin = package.origin
    if origin and any((Path(origin).parents[1] / "darshan.libs").glob("libdarshan-util*")):
        return
    try:
        import_module("forebay.history.darshan.log")
    except (ImportError, RuntimeError):
        version = ".".join(map(str, sys.version_info[:2]))
        raise UserError(
            f"cannot read Darshan logs: PyDarshan for Python {version} came without libdarshan-util. Use Python 3.11 "
            "or 3.12, or install darshan-util and name its folder in LD_LIBRARY_PATH"
        ) from None


def find_logs(paths: Sequence[Path], refused: Callable[[str, str], None]) -> Iterator[Path]:
    """The files among `paths`, and all logs in folders below them, in order.

    `refused` is told of folders that can't be entered.
    """
    for path in paths:
        try:
            is_folder = path.is_dir()
            if not is_folder:
                path.stat()
            elif not os.access(path, os.R_OK | os.X_OK):
                raise PermissionError(13, "permission denied", str(path))
        except OSError as error:
            raise BadInput(str(path), why(error)) from None
    for path in paths:
        if path.is_dir():
            yield from _logs_below(path, refused)
        else:
            yield _absolute(path)


def _logs_below(folder: Path, refused: Callable[[str, str], None]) -> Iterator[Path]:
    def on_error(error: OSError) -> None:
        refused(path_text(str(error.filename)), why(error))

    for at, folders, files in os.walk(_absolute(folder), onerror=on_error):
        folders.sort(key=lambda name: (len(name), name))  # 2 before 10: days and months as they went by
        yield from (Path(at, name) for name in sorted(files) if name.endswith(SUFFIXES))


def _absolute(path: Path) -> Path:
    """Without `..`, but with symbolic links as they are: a log is known by the name that it was found under."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def _new(store: Store, found: Iterable[Path], report: Report) -> Iterator[str]:
    """Those that are not known, or have changed."""
    remaining = iter(found)
    while some := {path_text(str(path)): path for path in islice(remaining, BATCH)}:
        states: dict[str, tuple[int, int]] = {}
        for name, path in some.items():
            try:
                state = path.stat()
                states[name] = state.st_size, state.st_mtime_ns
            except OSError as error:
                report.add_failed(name, why(error))
        with store.reading() as connection:
            same = find_unchanged(connection, states)
        report.known += len(same)
        yield from (str(some[name]) for name in states if name not in same)


def _take_in(store: Store, batch: Sequence[ScannedLog], report: Report) -> None:
    readable = [found for found in batch if found.row is not None]
    with store.writing() as connection:
        became = record_logs(connection, readable)
    for found in batch:
        if found.row is None:  # not kept: the next ingest tries again, for it may still be being written
            report.add_failed(found.path, found.reason)
            continue
        report.read += became[found.path] == "read"
        report.copies += became[found.path] == "copy"
        if found.status:
            report.listed.append((found.path, found.status, found.reason))


def _combine(store: Store) -> None:
    """Put runs of many logs together."""
    while True:
        with store.writing() as connection:
            keys = list_stale(connection, BATCH)
            if not keys:
                return
            made = {
                key: merge_processes(some) | {"run_key": key} for key, some in read_process_summaries(connection, keys)
            }
            add_runs(connection, list(made.values()))
            remove_runs(connection, [key for key in keys if key not in made])
            clear_stale(connection, keys)


def _read_all(paths: Iterator[str], workers: Workers) -> Generator[list[ScannedLog], None, None]:
    """All logs, in chunks. One that a reader died on is read log by log, to know which it was."""
    with closing(_read(iter(lambda: list(islice(paths, CHUNK)), []), workers)) as chunks:
        for chunk, found in chunks:
            if isinstance(found, Died):
                yield from _one_by_one(chunk, workers)
            else:
                yield found if is_local(workers) else list(map(_seen_from_here, chunk, found))


def _one_by_one(chunk: list[str], workers: Workers) -> Iterator[list[ScannedLog]]:
    with closing(_read(([path] for path in chunk), workers)) as logs:
        for [path], found in logs:
            yield [failed_log(path, "is damaged: the process that read it died")] if isinstance(found, Died) else found


def _read(
    chunks: Iterable[list[str]], workers: Workers
) -> Generator[tuple[list[str], list[ScannedLog] | Died], None, None]:
    # Apart, for Darshan's library may die, and prints.
    return run_pieces(workers, read_many, chunks, ahead=AHEAD, in_order=True, apart=True, preload=PRELOADED)


def _seen_from_here(path: str, found: ScannedLog) -> ScannedLog:
    """A log that is there, but not where the worker is."""
    if found.size < 0 and Path(path).exists():
        found.reason += " where the worker is; it must see the same files as this machine"
    return found
