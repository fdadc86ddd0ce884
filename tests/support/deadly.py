"""A reader of logs that dies on some, as a library in C might."""

import os
from collections.abc import Sequence

from forebay.history.darshan.work import read_many as read_all
from forebay.history.found import Found

NAME = "deadly.darshan"


def read_many(paths: Sequence[str]) -> list[Found]:
    if any(path.endswith(NAME) for path in paths):
        os.abort()
    return read_all(paths)
