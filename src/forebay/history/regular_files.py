"""Refuses files that opening or reading might wait for forever, or that have no end."""

import errno
import stat
from pathlib import Path


def check_regular(path: Path, *, pipes: bool = False) -> None:
    """Raise an OSError if this is not a regular file. `pipes` accepts a pipe of the shell, `<(zcat jobs.gz)` or
    /dev/stdin, which has a writer and is read once; a named one may never have a writer."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory", str(path))
    is_shell_pipe = stat.S_ISFIFO(mode) and not path.resolve().exists()
    if not stat.S_ISREG(mode) and not (pipes and is_shell_pipe):
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
