"""The key that all processes of a layer share: a file that only its owner may read."""

import os
import secrets
import stat
from pathlib import Path

from forebay.model.errors import BadInput, why

SHORTEST = 16
"""The shortest key, in bytes."""
LONGEST = 4096


def read_key(path: Path, name: str = "key") -> bytes:
    """Read the key, without surrounding white space. Errors call it `name`."""
    try:
        # Without waiting for the writer of a pipe.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BadInput(str(path), f"the {name} must be a regular file")
            if status.st_mode & 0o077:
                raise BadInput(str(path), f"other users can read the {name}; run: chmod 600 {path}")
            key = file.read(LONGEST + 1).strip()
    except OSError as error:
        raise BadInput(str(path), f"cannot read the {name}: {why(error)}") from None
    if not SHORTEST <= len(key) <= LONGEST:
        raise BadInput(str(path), f"a {name} must have {SHORTEST} to {LONGEST} bytes, not {len(key)}")
    return key


def write_key(path: Path) -> bytes:
    """Write a new key to a new file; raises BadInput if the file exists."""
    key = secrets.token_hex(32).encode()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(key + b"\n")
    except OSError as error:
        raise BadInput(str(path), f"cannot write a key: {why(error)}") from None
    return key
