"""What a worker of an ingest does. Darshan's library is loaded there, not in the process that writes."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from forebay.history.found import Found, as_text, packed
from forebay.model.errors import BadInput, why

PRELOADED = ["forebay.history.darshan.summary"]


def read_many(paths: Sequence[str]) -> list[Found]:
    """Read logs, one after the other; whatever is wrong with one is its reason."""
    return [read_one(path) for path in paths]


def unread(path: str, reason: str) -> Found:
    """A log of which nothing is known but why."""
    return Found(path=as_text(path), size=-1, mtime_ns=-1, reason=reason)


def read_one(path: str) -> Found:
    from forebay.history.darshan.summary import read_log

    try:
        state = Path(path).stat()
        found = Found(path=as_text(path), size=state.st_size, mtime_ns=state.st_mtime_ns)
        if not stat.S_ISREG(state.st_mode):  # a pipe or a device might never end
            return replace(found, reason="is not a file")
        with Path(path).open("rb") as file:
            found.digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        return unread(path, why(error))
    try:
        summary = read_log(Path(path))
    except BadInput as error:
        found.reason = error.reason
    except OSError as error:  # it went away meanwhile
        found.reason = why(error)
    except (ValueError, ArithmeticError, MemoryError) as error:
        found.reason = f"is damaged: {str(error) or type(error).__name__}"
    else:
        found.row = summary.row
        found.summary = packed(summary.row, summary.files) if summary.of_many else None
        if not summary.row["modules"]:
            found.reason = "is empty: no I/O was recorded"
        elif summary.row["partial_flag"]:
            found.reason = "is partial: Darshan ran out of memory and left records out"
    return found
