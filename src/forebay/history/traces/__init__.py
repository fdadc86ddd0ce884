"""Requests for storage from job traces: StorAlloc's IOJobs, Theta's Darshan CSV, SWF, or the history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forebay.history.traces import cache, swf, theta
from forebay.history.traces.columns import Columns
from forebay.model.errors import BadInput
from forebay.model.request import Requests
from forebay.model.units import plural

_KINDS = {".yml": "storalloc", ".yaml": "storalloc", ".csv": "theta", ".swf": "swf"}


def read_requests(paths: Sequence[Path], *, swf_volume: str | None = None) -> Requests:
    """The requests of a trace: one `.yml`, `.swf` or `.csv` file, or the two `.csv` files of Theta; also gzipped.

    SWF has no volumes: `swf_volume` replaces them, "memory" (the default) by the memory that a job used, or a size per
    processor like "2 GB". Jobs without bytes are left out. The user's cache keeps what was read for the next time.
    """
    kind = _kind(paths)
    per_processor = swf.volume_per_processor(swf_volume) if kind == "swf" else None
    key = cache.cache_key(paths, f"{kind} {per_processor}")
    columns = cache.load_entry(key)
    if columns is None:
        columns = _read(kind, paths, per_processor)
        cache.save_entry(key, columns)
    return _requests(columns, " and ".join(p.name for p in paths), str(paths[0]))


def requests_of_history(url: str | None) -> Requests:
    """What the jobs of the history at `url` (the default one if None) would have requested."""
    from forebay.history.traces import history_jobs  # SQLAlchemy is slow to import

    return _requests(history_jobs.read(url), "the history", "the history")


def _requests(columns: Columns, source: str, where: str) -> Requests:
    left_out = f" (left out: {columns.left_out})" if columns.left_out else ""
    if columns.bytes.size == 0:
        raise BadInput(where, f"has no requests{left_out}")
    return Requests(
        ids=columns.ids,
        submitted=columns.submitted,
        start=columns.start,
        duration=columns.duration,
        bytes=columns.bytes,
        volume=columns.volume,
        origin=f"{plural(columns.bytes.size, 'request')} from {source}{left_out}",
    )


def _kind(paths: Sequence[Path]) -> str:
    kinds = {_KINDS.get(_suffix(path), "") for path in paths}
    kind = kinds.pop() if len(kinds) == 1 else ""
    if not kind:
        raise BadInput(_names(paths), f"must end with {', '.join(_KINDS)}, or one of these and .gz")
    if len(paths) > (2 if kind == "theta" else 1):
        raise BadInput(_names(paths), "are too many; give one file, or the two .csv files of Theta")
    return kind


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _read(kind: str, paths: Sequence[Path], per_processor: float | None) -> Columns:
    if kind == "theta":
        return theta.read(paths)
    if kind == "swf":
        return swf.read(paths[0], per_processor)
    from forebay.history.traces import storalloc  # PyYAML may be missing

    return storalloc.read(paths[0])


def _names(paths: Sequence[Path]) -> str:
    return " and ".join(str(path) for path in paths) or "requests"
