"""What a worker of an ingest does. Darshan's library is loaded there, not in the process that writes."""

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
"""Seconds of processor time that a log may take: so many, and a minute for each megabyte."""


def read_many(paths: Sequence[str]) -> list[ScannedLog]:
    """Read logs, one after the other; whatever is wrong with one is its reason."""
    return [read_one(path) for path in paths]


def failed_log(path: str, reason: str) -> ScannedLog:
    """A log of which nothing is known but why."""
    return ScannedLog(path=path_text(path), size=-1, mtime_ns=-1, status="failed", reason=reason)


def read_one(path: str) -> ScannedLog:
    try:
        state = Path(path).stat()
        found = ScannedLog(path=path_text(path), size=state.st_size, mtime_ns=state.st_mtime_ns)
        if not stat.S_ISREG(state.st_mode):  # a pipe or a device might never end
            return replace(found, status="failed", reason="is not a file")
        with Path(path).open("rb") as file:
            found.digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        return failed_log(path, why(error))
    try:
        with _limited(found.size):
            _read_into(found, Path(path))
    except BadInput as error:
        return replace(found, status="failed", reason=error.reason)
    except OSError as error:  # it went away meanwhile
        return replace(found, status="failed", reason=why(error))
    except Exception as error:  # whatever one log does to the library or to us, the others are read
        reason = " ".join(f"{type(error).__name__} {error}".split())
        return replace(found, status="failed", reason=f"is damaged: {reason}")
    return found


def _read_into(found: ScannedLog, path: Path) -> None:
    from forebay.history.darshan.summary import read_log

    summary = read_log(path)
    found.row = summary.row
    found.summary = pack_summary(summary.row, summary.files) if summary.of_many else None
    if summary.remarks:
        statuses = {status for status, _ in summary.remarks}
        found.status = next(status for status in _WORST_FIRST if status in statuses)
        found.reason = "; ".join(reason for _, reason in summary.remarks)


@contextmanager
def _limited(size: int) -> Iterator[None]:
    """End this process if a log takes it for ever: an exception would not get through to a loop in a library.

    By processor time, which neither a busy machine nor a slow file system uses up.
    """
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS + size * SECONDS_PER_BYTE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
