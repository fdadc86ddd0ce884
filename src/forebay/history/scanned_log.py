"""A log as a worker process reads it, for the process that writes the history.

Only workers load Darshan's library.
"""

from __future__ import annotations

import hashlib
import os
import signal
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from forebay.history.run_fields import Row
from forebay.model.errors import BadInput, why

if TYPE_CHECKING:
    from forebay.history.darshan.summary import Examine

Status = Literal["", "failed", "empty", "partial", "incomplete", "undiagnosed"]
"""The problem of a log: none, it is unreadable, it recorded no I/O, Darshan left records out, some of its sections
are unreadable, or a rule for findings failed."""
ProcessSummary = tuple[Row, dict[int, int]]
"""A row of `runs` for one process, and the bytes that it moved to and from each file."""
PRELOADED = ["forebay.history.darshan.summary"]
_WORST_FIRST: tuple[Status, ...] = ("empty", "partial", "incomplete", "undiagnosed", "")
MOST_SECONDS = 20.0
SECONDS_PER_BYTE = 60e-6
"""The processor time that a log may take: 20 s, and a minute for each megabyte."""


def path_text(name: str) -> str:
    """A file's name as UTF-8 that can be stored and printed; Linux allows any bytes in names.

    >>> path_text("caf\\udce9.darshan")
    'caf\\\\xe9.darshan'
    """
    return os.fsencode(name).decode("utf-8", "backslashreplace")


@dataclass(slots=True, kw_only=True)
class ScannedLog:
    """A log with its contents (`row`), or the `reason` why they are missing or incomplete. `path` is from `path_text`.

    The log of a single process has a `summary`, to combine it with the other processes of the job.
    """

    path: str
    size: int
    mtime_ns: int
    digest: str = ""
    row: Row | None = None
    status: Status = ""
    reason: str = ""
    summary: str | None = None

    @property
    def run_key(self) -> str | None:
        """A key that all processes of a job share; for other logs, the digest of the log."""
        if self.row is None:
            return None
        if self.summary is None:
            return self.digest
        job = "{job_id}:{uid}:{app}".format_map(self.row)
        return "job:" + hashlib.blake2b(job.encode(), digest_size=16).hexdigest()


def pack_summary(row: Row, files: Mapping[int, int]) -> str:
    """A `ProcessSummary` as JSON."""
    return msgspec.json.encode({"row": row, "files": files}).decode()


def unpack_summary(text: str) -> ProcessSummary:
    """Read the JSON of `pack_summary`, also from versions that did not distinguish file systems."""
    summary = msgspec.json.decode(text)
    row, osts = summary["row"], summary["row"]["osts"]
    row.setdefault("filesystem", "" if row["stripe_count"] else None)
    osts.setdefault("filesystem", [""] * len(osts["ost"]))
    return row, {int(file): moved for file, moved in summary["files"].items()}


def read_many(paths: Sequence[str], examine: Examine | None = None) -> list[ScannedLog]:
    """Read logs one after the other; an error becomes the `reason` of its log. `examine` adds the findings."""
    return [read_one(path, examine) for path in paths]


def failed_log(path: str, reason: str) -> ScannedLog:
    """A log that could not be opened."""
    return ScannedLog(path=path_text(path), size=-1, mtime_ns=-1, status="failed", reason=reason)


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
