"""Tests as root that do something as an ordinary user."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ORDINARY = 12345 if os.geteuid() == 0 else os.geteuid()


@contextmanager
def as_ordinary_user() -> Iterator[Path]:
    """This process, and commands that it starts, have no rights of root meanwhile; a folder of the user's own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if os.geteuid() != 0:
            yield folder
            return
        os.chown(folder, ORDINARY, ORDINARY)
        groups = os.getgroups()
        os.setgroups([])
        os.setresgid(ORDINARY, ORDINARY, 0)
        os.setresuid(ORDINARY, ORDINARY, 0)
        try:
            yield folder
        finally:
            os.setresuid(0, 0, 0)
            os.setresgid(0, 0, 0)
            os.setgroups(groups)
