"""What was read once, as columns in the user's cache folder, found by what the file says.

Nothing here is ever an error: without a folder to write to, or with a damaged entry, the file is read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from forebay.folders import cache_folder
from forebay.history.traces.columns import Columns
from forebay.history.traces.trace_files import digest_file

_VERSION = 1  # of the readers and of the entries: a new one leaves the old entries unread
_MOST_ENTRIES = 64
_MOST_BYTES = 4 * 10**9  # a trace of ten million requests takes half a gigabyte
_DAMAGE = (OSError, ValueError, KeyError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error)


def cache_key(paths: Sequence[Path], options: str) -> str:
    """A name for what the files say, in whichever order they come, read with these options."""
    key = hashlib.sha256(f"{_VERSION} {options}".encode())
    for one in sorted(digest_file(path) for path in paths):
        key.update(one)
    return key.hexdigest()


def load_entry(key: str) -> Columns | None:
    try:
        with (_folder() / f"{key}.npz").open("rb") as file, np.load(file, allow_pickle=False) as entry:
            columns = Columns(**{name: entry[name] for name in _NAMES}, left_out=str(entry["left_out"]))
    except _DAMAGE:
        return None
    return columns if _sound(columns) else None


def save_entry(key: str, columns: Columns) -> None:
    """Written beside and then renamed, so that no one ever sees half an entry."""
    with contextlib.suppress(OSError, RuntimeError):
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as file:
            try:
                arrays = {name: getattr(columns, name) for name in _NAMES}
                np.savez(file, **arrays, left_out=np.array(columns.left_out))
                file.close()
                Path(file.name).replace(folder / f"{key}.npz")
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        _prune(folder)


_NAMES = tuple(field.name for field in fields(Columns) if field.name != "left_out")
_KINDS = {"ids": "iU", "bytes": "i"}


def _sound(columns: Columns) -> bool:
    arrays = {name: getattr(columns, name) for name in _NAMES}
    return all(
        array.shape == (columns.bytes.size,) and array.dtype.kind in _KINDS.get(name, "f")
        for name, array in arrays.items()
    )


def _prune(folder: Path) -> None:
    """The oldest entries go, and with them what a killed process left half written."""
    entries = sorted(((one.stat(), one) for one in folder.iterdir()), key=lambda e: e[0].st_mtime_ns, reverse=True)
    total = 0
    for number, (status, one) in enumerate(entries):
        total += status.st_size
        if number >= _MOST_ENTRIES or total > _MOST_BYTES:
            one.unlink()


def _folder() -> Path:
    """RuntimeError where the user has no home."""
    return cache_folder("requests")
