"""Columns of traces in the user's cache folder, by the digest of the files.

Nothing here raises an error: without a writable folder, or with a damaged entry, the trace is read again.
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

_VERSION = 1  # of the readers and entries; a new version ignores old entries
_MOST_ENTRIES = 64
_MOST_BYTES = 4 * 10**9  # a trace of ten million requests takes half a gigabyte
_DAMAGE = (OSError, ValueError, KeyError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error)


def cache_key(paths: Sequence[Path], options: str) -> str:
    """A name for the contents of the files, in any order, read with these options."""
    key = hashlib.sha256(f"{_VERSION} {options}".encode())
    for digest in sorted(digest_file(path) for path in paths):
        key.update(digest)
    return key.hexdigest()


def load_entry(key: str) -> Columns | None:
    try:
        with (_folder() / f"{key}.npz").open("rb") as file, np.load(file, allow_pickle=False) as entry:
            columns = Columns(**{name: entry[name] for name in _NAMES}, left_out=str(entry["left_out"]))
    except _DAMAGE:
        return None
    return columns if _is_valid(columns) else None


def save_entry(key: str, columns: Columns) -> None:
    """Write an entry and then rename it, so that nobody reads half of one."""
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


def _is_valid(columns: Columns) -> bool:
    arrays = {name: getattr(columns, name) for name in _NAMES}
    return all(
        array.shape == (columns.bytes.size,) and array.dtype.kind in _KINDS.get(name, "f")
        for name, array in arrays.items()
    )


def _prune(folder: Path) -> None:
    """Remove the oldest entries, and incomplete ones of killed processes."""
    entries = sorted(((file.stat(), file) for file in folder.iterdir()), key=lambda e: e[0].st_mtime_ns, reverse=True)
    total = 0
    for number, (status, file) in enumerate(entries):
        total += status.st_size
        if number >= _MOST_ENTRIES or total > _MOST_BYTES:
            file.unlink()


def _folder() -> Path:
    """Raises RuntimeError if the user has no home."""
    return cache_folder("requests")
