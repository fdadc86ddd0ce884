"""Caches the requests of traces in the user's cache folder, by the digest of the files.

The cache raises no errors: without a writable folder, or with a damaged entry, the trace is read again.
"""

import contextlib
import hashlib
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from forebay.folders import cache_folder
from forebay.history.regular_files import check_regular
from forebay.model.errors import name_errors
from forebay.model.space_requests import Requests

_VERSION = 2  # of the readers and entries; a new version ignores old entries
_MOST_ENTRIES = 64
_MOST_BYTES = 4 * 10**9  # a trace of ten million requests takes half a gigabyte
_ARRAYS = {"ids": "iU", "submitted": "f", "start": "f", "duration": "f", "bytes": "i", "volume": "f"}
"""The numpy kinds that each array may have."""
_DAMAGE = (OSError, ValueError, KeyError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error)


def cache_key(paths: Sequence[Path], options: str) -> str:
    """A key for the contents of these files, in any order, read with these options."""
    digests = []
    for path in paths:
        with name_errors(path):
            check_regular(path)  # a pipe could not be read again
        with name_errors(path), path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").digest())
    return hashlib.sha256(f"{_VERSION} {options}".encode() + b"".join(sorted(digests))).hexdigest()


def load_entry(key: str) -> Requests | None:
    try:
        with (cache_folder("requests") / f"{key}.npz").open("rb") as file, np.load(file, allow_pickle=False) as entry:
            arrays = {name: entry[name] for name in _ARRAYS}
            left_out = str(entry["left_out"])
    except _DAMAGE:
        return None
    size = arrays["bytes"].size
    fits = all(arrays[name].shape == (size,) and arrays[name].dtype.kind in kind for name, kind in _ARRAYS.items())
    return Requests(**arrays, left_out=left_out) if fits else None


def save_entry(key: str, requests: Requests) -> None:
    """Write an entry, then rename it, so that no process reads half of it."""
    with contextlib.suppress(OSError, RuntimeError):  # the latter if the user has no home
        folder = cache_folder("requests")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as file:
            try:
                arrays = {name: getattr(requests, name) for name in _ARRAYS}
                np.savez(file, **arrays, left_out=np.array(requests.left_out))
                file.close()
                Path(file.name).replace(folder / f"{key}.npz")
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        _prune(folder)


def _prune(folder: Path) -> None:
    """Remove the oldest entries, and incomplete ones that killed processes left."""
    entries = sorted(((file.stat(), file) for file in folder.iterdir()), key=lambda e: e[0].st_mtime_ns, reverse=True)
    total = 0
    for number, (status, file) in enumerate(entries):
        total += status.st_size
        if number >= _MOST_ENTRIES or total > _MOST_BYTES:
            file.unlink()
