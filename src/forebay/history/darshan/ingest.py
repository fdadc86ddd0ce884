"""Reads many Darshan logs into the history, each once.

Workers read the logs, and one process writes them in batches, each in its own transaction. If an ingest ends early, the
next one continues after its last batch. Logs are recorded in the order of the search, so that the history does not
depend on the number of workers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from forebay.history.darshan.ingest_worker import PRELOADED, read_many
from forebay.history.darshan.process_logs import merge_processes
from forebay.history.scanned_log import ScannedLog, Status, failed_log, path_text
from forebay.history.store import Store
from forebay.history.store.ingested_logs import combine_runs, find_unchanged, list_stale, record_logs
from forebay.model.errors import UserError, name_errors, why
from forebay.work import Died, Workers, run_pieces

if TYPE_CHECKING:
    from forebay.history.darshan.examination import Examine

CHUNK = 50
"""Logs that a worker reads at a time."""
AHEAD = 8
"""Chunks that wait for each worker while a batch is written."""
BATCH = 500
"""Logs in a transaction."""
SUFFIXES = (".darshan", ".darshan_partial")


@dataclass(slots=True)
class Report:
    """The result of an ingest: numbers of logs, and in `listed` the path, status and reason of each with a problem."""

    read: int = 0
    known: int = 0
    copies: int = 0
    failed: int = 0
    listed: list[tuple[str, Status, str]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.read + self.known + self.copies + self.failed

    def add_failed(self, path: str, reason: str) -> None:
        self.failed += 1
        self.listed.append((path, "failed", reason))


def ingest(
    store: Store,
    paths: Sequence[Path],
    *,
    workers: Workers,
    progress: Callable[[int], None] = lambda _done: None,
    examine: Examine | None = None,
) -> Report:
    """Read all new or changed logs under `paths`; with `examine`, also store what is wrong with their I/O."""
    check_library()
    report = Report()
    _combine_runs(store)  # left by an ingest that ended early
    wanted = _find_new(store, find_logs(paths, report.add_failed), report)
    batch: list[ScannedLog] = []
    try:
        with closing(_read(iter(lambda: list(islice(wanted, CHUNK)), []), workers, examine)) as chunks:
            for chunk in chunks:
                batch += chunk
                if len(batch) >= BATCH:
                    full, batch = batch, []
                    _record(store, full, report)
                progress(report.total + len(batch))
    finally:
        if batch:
            _record(store, batch, report)
    _combine_runs(store)
    report.listed.sort()
    return report


def check_library() -> None:
    """Check that PyDarshan can read logs: its packages for some versions of Python lack the library."""
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
            f"cannot read Darshan logs: PyDarshan for Python {version} lacks libdarshan-util. Use Python 3.11 or 3.12, "
            "or install darshan-util and add its folder to LD_LIBRARY_PATH"
        ) from None


def find_logs(paths: Sequence[Path], refused: Callable[[str, str], None]) -> Iterator[Path]:
    """Yield the files among `paths`, and all logs in and below the folders among them, in order.

    `refused` gets the path of each unreadable folder, and the reason.
    """
    for path in paths:
        with name_errors(path):
            is_folder = path.is_dir()
            if not is_folder:
                path.stat()
            elif not os.access(path, os.R_OK | os.X_OK):
                raise PermissionError(13, "permission denied", str(path))
    for path in paths:
        if path.is_dir():
            yield from _logs_below(path, refused)
        else:
            yield _make_absolute(path)


def _logs_below(folder: Path, refused: Callable[[str, str], None]) -> Iterator[Path]:
    def on_error(error: OSError) -> None:
        refused(path_text(str(error.filename)), why(error))

    for at, folders, files in os.walk(_make_absolute(folder), onerror=on_error):
        folders.sort(key=lambda name: (len(name), name))  # 2 before 10: days and months in their order
        yield from (Path(at, name) for name in sorted(files) if name.endswith(SUFFIXES))


def _make_absolute(path: Path) -> Path:
    """Remove `..` but keep symbolic links: the history knows a log by the path of the search."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def _find_new(store: Store, logs: Iterable[Path], report: Report) -> Iterator[str]:
    remaining = iter(logs)
    while some := {path_text(str(path)): path for path in islice(remaining, BATCH)}:
        states: dict[str, tuple[int, int]] = {}
        for name, path in some.items():
            try:
                state = path.stat()
                states[name] = state.st_size, state.st_mtime_ns
            except OSError as error:
                report.add_failed(name, why(error))
        with store.open_reader() as connection:
            same = find_unchanged(connection, states)
        report.known += len(same)
        yield from (str(some[name]) for name in states if name not in same)


def _record(store: Store, batch: Sequence[ScannedLog], report: Report) -> None:
    readable = [log for log in batch if log.row is not None]
    with store.open_writer() as connection:
        statuses = record_logs(connection, readable)
    for log in batch:
        if log.row is None:  # not recorded: a job may still be writing it, so the next ingest tries again
            report.add_failed(log.path, log.reason)
            continue
        report.read += statuses[log.path] == "read"
        report.copies += statuses[log.path] == "copy"
        if log.status:
            report.listed.append((log.path, log.status, log.reason))


def _combine_runs(store: Store) -> None:
    """Combine the runs of many logs."""
    while True:
        with store.open_writer() as connection:
            if not (keys := list_stale(connection, BATCH)):
                return
            combine_runs(connection, keys, merge_processes)


def _read(
    chunks: Iterable[list[str]], workers: Workers, examine: Examine | None
) -> Generator[list[ScannedLog], None, None]:
    """Read all logs, in chunks. If a chunk kills its reader, read its logs one by one, to find the bad one."""
    read = read_many if examine is None else partial(read_many, examine=examine)
    # Apart, because Darshan's library may crash and prints messages.
    results = run_pieces(workers, read, chunks, ahead=AHEAD, in_order=True, apart=True, preload=PRELOADED)
    with closing(results):
        for chunk, logs in results:
            if isinstance(logs, Died):
                if len(chunk) == 1:
                    yield [failed_log(chunk[0], "is damaged: the process that read it died")]
                else:
                    yield from _read(([path] for path in chunk), workers, examine)
                continue
            for path, log in zip(chunk, logs, strict=True):
                if log.size < 0 and not isinstance(workers, int) and Path(path).exists():
                    log.reason += " on the worker's machine; workers must see the same files as this machine"
            yield logs
