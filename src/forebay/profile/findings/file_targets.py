"""The OSTs of a run, and the stripes of its files."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forebay.history.darshan.file_records import FileRecords, Uses
from forebay.model.arrays import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The OSTs of a run: their numbers, the bytes on each, how many files and how slow each was; and for every file on
    several or one of them its id, its stripes and its bytes."""

    osts: Ints
    bytes: Floats
    files: Ints
    slowness: Floats
    file_ids: NDArray[np.uint64]
    stripes: Ints
    stripe_size: Ints
    file_bytes: Floats

    @property
    def known_osts(self) -> int:
        """At least this many OSTs exist."""
        return int(self.osts.max()) + 1


def locate_files(ids: NDArray[np.uint64], files: NDArray[np.uint64]) -> tuple[Ints, Bools]:
    """The index of each file among `ids`, and whether it is one of them; else the index means nothing."""
    order = np.argsort(ids, kind="stable")
    at = order[np.minimum(np.searchsorted(ids[order], files), ids.size - 1)]
    return at, ids[at] == files


def read_targets(records: FileRecords, uses: Uses) -> Targets | None:
    """The OSTs of these records of POSIX; None if the log does not say where files are."""
    layouts = [layout for layout in records.layouts if layout.components and len(layout.osts)]
    if records.usage is None or not layouts or not uses.size:
        return None
    moved = uses["bytes"].sum(axis=1)
    columns = records.usage.columns()
    if not any(columns["total_bytes"]):
        return None
    ids, first = np.unique(np.array([layout.file for layout in layouts], dtype=np.uint64), return_index=True)
    layouts = [layouts[place] for place in first.tolist()]  # each process that opened a file may have left one
    at, has_layout = locate_files(ids, uses["id"])
    widest = [max(layout.components, key=lambda c: c.stripes) for layout in layouts]
    return Targets(
        osts=np.array(columns["ost"]),
        bytes=np.array(columns["total_bytes"], dtype=float),
        files=np.array(columns["files"]),
        slowness=np.array([np.nan if s is None else s for s in columns["slowness"]]),
        file_ids=ids,
        stripes=np.array([c.stripes for c in widest]),
        stripe_size=np.array([c.size for c in widest]),
        file_bytes=np.bincount(at[has_layout], weights=moved[has_layout], minlength=ids.size).astype(float),
    )
