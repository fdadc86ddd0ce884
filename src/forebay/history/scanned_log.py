"""A log as a worker process finds it, on its way to the process that writes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

Status = Literal["", "failed", "empty", "partial", "incomplete"]
"""What there is to know of a log: nothing, it can't be read, no I/O was recorded, Darshan left records out, or it has
parts that can't be read."""
ProcessSummary = tuple[dict[str, Any], dict[int, int]]
"""What one process did (a row of `runs`), and the bytes that it moved to and from each file."""


def path_text(name: str) -> str:
    """A file's name as it can be stored and printed: Linux allows any bytes in names, a database only UTF-8.

    >>> path_text("caf\\udce9.darshan")
    'caf\\\\xe9.darshan'
    """
    return os.fsencode(name).decode("utf-8", "backslashreplace")


@dataclass(slots=True, kw_only=True)
class ScannedLog:
    """A log as it was found: what it says (`row`), or why it says nothing or not all (`reason`). `path` is text
    (`path_text`).

    One of a single process of a job has a `summary`, by which it is put together with those of others.
    """

    path: str
    size: int
    mtime_ns: int
    digest: str = ""
    row: Mapping[str, Any] | None = None
    status: Status = ""
    reason: str = ""
    summary: str | None = None

    @property
    def run_key(self) -> str | None:
        """By what is the same for all processes of a job, or by the log itself."""
        if self.row is None:
            return None
        if self.summary is None:
            return self.digest
        same = "{job_id}:{uid}:{app}".format_map(self.row)
        return "job:" + hashlib.blake2b(same.encode(), digest_size=16).hexdigest()


def pack_summary(row: Mapping[str, Any], files: Mapping[int, int]) -> str:
    """A `ProcessSummary` as text."""
    return msgspec.json.encode({"row": row, "files": files}).decode()


def unpack_summary(text: str) -> ProcessSummary:
    """What `pack_summary` made; before file systems were told apart, it did not have any."""
    summary = msgspec.json.decode(text)
    row, osts = summary["row"], summary["row"]["osts"]
    row.setdefault("filesystem", "" if row["stripe_count"] else None)
    osts.setdefault("filesystem", [""] * len(osts["ost"]))
    return row, {int(file): moved for file, moved in summary["files"].items()}
