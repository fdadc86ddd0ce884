"""What a worker of an ingest does. It loads Darshan's library; the process that writes does not."""

from __future__ import annotations

import hashlib
import signal
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from forebay.history.scanned_log import ScannedLog, Status, pack_summary, path_text
from forebay.model.errors import BadInput, why

PRELOADED = ["forebay.history.darshan.summary"]
_WORST_FIRST: tuple[Status, ...] = ("empty", "partial", "incomplete")
MOST_SECONDS = 20.0
SECONDS_PER_BYTE = 60e-6
"""The processor time that a log may take: 20 s, and a minute for each megabyte."""


def read_many(paths: Sequence[str]) -> list[ScannedLog]:
    """Read logs one after the other; an error becomes the reason of its log."""
    return [read_one(path) for path in paths]


def failed_log(path: str, reason: str) -> ScannedLog:
    """A log that could not be opened."""
    return ScannedLog(path=path_text(path), size=-1, mtime_ns=-1, status="failed", reason=reason)


def read_one(path: str) -> ScannedLog:
    try:
        state = Path(path).stat()
        log = ScannedLog(path=path_text(path), size=state.st_size, mtime_ns=state.st_mtime_ns)
        if not stat.S_ISREG(state.st_mode):  # a pipe or a device might never end
            return replace(log, status="failed", reason="is not a file")
        with Path(path).open("rb") as file:
            log.digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        return failed_log(path, why(error))
    try:
        with _limited_time(log.size):
            _read_into(log, Path(path))
    except BadInput as error:
        return replace(log, status="failed", reason=error.reason)
    except OSError as error:  # it disappeared
        return replace(log, status="failed", reason=why(error))
    except Exception as error:  # one log that breaks the library or us must not stop the others
        reason = " ".join(f"{type(error).__name__} {error}".split())
        return replace(log, status="failed", reason=f"is damaged: {reason}")
    return log


def _read_into(log: ScannedLog, path: Path) -> None:
    from forebay.history.darshan.summary import read_log

    summary = read_log(path)
    log.row = summary.row
    log.summary = pack_summary(summary.row, summary.files) if summary.of_many else None
    if summary.remarks:
        statuses = {status for status, _ in summary.remarks}
        log.status = next(status for status in _WORST_FIRST if status in statuses)
        log.reason = "; ".join(reason for _, reason in summary.remarks)


@contextmanager
def _limited_time(size: int) -> Iterator[None]:
    """End this process if a log takes too long: an exception would not interrupt a loop in the library.

    The limit is processor time, which a busy machine or a slow file system does not use up.
    """
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS + size * SECONDS_PER_BYTE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
