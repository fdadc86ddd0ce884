"""A reader of logs that dies on some, as a library in C might."""

import os
from collections.abc import Sequence
from pathlib import Path

from forebay.history.darshan.work import read_many as read_all
from forebay.history.found import Found

NAME = "deadly.darshan"
MARK = "met"
"""A file beside the log: which process died on it last."""


def read_many(paths: Sequence[str]) -> list[Found]:
    for path in paths:
        if path.endswith(NAME):
            Path(path).with_name(MARK).write_text(str(os.getpid()))
            os.abort()
    return read_all(paths)
