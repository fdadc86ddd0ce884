"""Reads logs in a worker process of an ingest: gives up those that take too long, and survives those that are broken.

Only workers load Darshan's library.
"""

from __future__ import annotations

import hashlib
import signal
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from forebay.history.scanned_log import ScannedLog, Status, failed_log, pack_summary, path_text
from forebay.model.errors import BadInput, why

if TYPE_CHECKING:
    from forebay.history.darshan.examination import Examine

PRELOADED = ["forebay.history.darshan.summary"]
_WORST_FIRST: tuple[Status, ...] = ("empty", "partial", "incomplete", "undiagnosed", "")
MOST_SECONDS = 20.0
SECONDS_PER_BYTE = 60e-6
"""The processor time that a log may take: 20 s, and a minute for each megabyte."""


def read_many(paths: Sequence[str], examine: Examine | None = None) -> list[ScannedLog]:
    """Read logs one after the other; an error becomes the `reason` of its log. `examine` adds the findings."""
    return [read_one(path, examine) for path in paths]


def read_one(path: str, examine: Examine | None = None) -> ScannedLog:
    try:
        state = Path(path).stat()
        log = ScannedLog(path=path_text(path), size=state.st_size, mtime_ns=state.st_mtime_ns)
        if not stat.S_ISREG(state.st_mode):  # a pipe or a device might never end
            return replace(log, status="failed", reason="is not a regular file")
        with Path(path).open("rb") as file:
            log.digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        return failed_log(path, why(error))
    # End this process if a log takes too long: an exception would not interrupt a loop in the library. The limit is
    # processor time, so that a busy machine or a slow file system does not exceed it.
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS + log.size * SECONDS_PER_BYTE)
    try:
        from forebay.history.darshan.summary import read_log  # loads Darshan's library

        summary = read_log(Path(path), examine)
        packed = pack_summary(summary.row, summary.files) if summary.of_many else None
        status = next(worst for worst in _WORST_FIRST if not worst or worst in dict(summary.remarks))
        reason = "; ".join(reason for _, reason in summary.remarks)
        return replace(log, row=summary.row, summary=packed, status=status, reason=reason)
    except BadInput as error:
        return replace(log, status="failed", reason=error.reason)
    except OSError as error:  # it disappeared
        return replace(log, status="failed", reason=why(error))
    except Exception as error:  # one log that breaks the library or Forebay must not stop the others
        reason = " ".join(f"{type(error).__name__} {error}".split())
        return replace(log, status="failed", reason=f"is damaged: {reason}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
