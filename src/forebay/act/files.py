"""Files that are complete or unchanged after a crash, and locks of files."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def open_folder(path: Path | str, flags: int = 0) -> Iterator[int]:
    """Open the folder and give its descriptor."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_file(path: Path, text: str, mode: int = 0o644) -> None:
    """Write the file atomically, and return when it is on the disk."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        write_synced(new, text, mode)
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)
    sync_folder(path.parent)


def remove_unfinished(folder: Path) -> None:
    """Remove what killed processes left of files that they wrote with `write_file`. Nobody may be writing there now."""
    for file in folder.glob(".*.new"):
        file.unlink(missing_ok=True)


@contextmanager
def open_secret(text: str) -> Iterator[int]:
    """Return the descriptor of a file in memory that only its owner can read, for a process that inherits it."""
    descriptor = os.memfd_create("secret", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
        os.fchmod(descriptor, 0o600)
        yield descriptor
    finally:
        os.close(descriptor)


def write_synced(path: Path, text: str, mode: int) -> None:
    """Write the file and wait until it is on the disk."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
        file.write(text)
        os.fchmod(file.fileno(), mode)  # whatever the umask is
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until all names in the folder are on the disk."""
    with open_folder(folder) as descriptor:
        os.fsync(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock the file until it is closed; return False if another process has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
