"""A log as a worker process has read it, for the process that writes the history."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from forebay.history.run_fields import Row

Status = Literal["", "failed", "empty", "partial", "incomplete", "undiagnosed"]
"""The problem of a log: none, it is unreadable, it recorded no I/O, Darshan left records out, some of its sections
are unreadable, or a rule for findings failed."""
ProcessSummary = tuple[Row, dict[int, int]]
"""A row of `runs` for one process, and the bytes that it moved to and from each file."""


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


def failed_log(path: str, reason: str) -> ScannedLog:
    """A log that could not be opened."""
    return ScannedLog(path=path_text(path), size=-1, mtime_ns=-1, status="failed", reason=reason)
