"""A reader of logs that dies on some, as a library in C might."""

import os
from collections.abc import Sequence
from pathlib import Path

from forebay.history.darshan import examination, ingest_worker, summary
from forebay.history.darshan.ingest_worker import read_many as read_all
from forebay.history.scanned_log import ScannedLog

NAME = "deadly.darshan"
ENDLESS = "endless.darshan"
MARK = "met"
"""A file beside the log: which process died on it last."""


def read_many(paths: Sequence[str]) -> list[ScannedLog]:
    for path in paths:
        if path.endswith(NAME):
            Path(path).with_name(MARK).write_text(str(os.getpid()))
            os.abort()
    return read_all(paths)


def read_for_ever(paths: Sequence[str]) -> list[ScannedLog]:
    """All but one, with which the library is never done."""
    read = summary.read_log

    def read_log(path: Path, examine: examination.Examine | None = None) -> summary.Summary:
        while path.name == ENDLESS:
            pass
        return read(path, examine)

    ingest_worker.MOST_SECONDS, ingest_worker.SECONDS_PER_BYTE, summary.read_log = 0.2, 0.0, read_log
    try:
        return read_all(paths)
    finally:
        summary.read_log = read
