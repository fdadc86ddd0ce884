"""Paths as requests have them: bytes, relative to a folder."""

import errno

from forebay.act.forward.data.permissions import system_error

LONGEST_NAME = 255
LONGEST_PATH = 4000


def split_path(path: bytes) -> list[bytes]:
    """Split a path into names; raises OSError if no file can have this path.

    >>> split_path(b"a//b/./c/")
    [b'a', b'b', b'c']
    """
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if path.startswith(b"/") or b"\0" in path or b".." in parts:
        raise system_error(errno.EINVAL)
    if len(path) > LONGEST_PATH and len(b"/".join(parts)) > LONGEST_PATH:
        raise system_error(errno.ENAMETOOLONG)
    for part in parts:
        if len(part) > LONGEST_NAME:
            raise system_error(errno.ENAMETOOLONG)
    return parts


def clean_path(path: bytes) -> bytes:
    """Return the path in canonical form; raises OSError if no file can have this path.

    >>> clean_path(b"a//b/./c/")
    b'a/b/c'
    """
    return b"/".join(split_path(path))
