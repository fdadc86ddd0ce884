"""Names and bounds of the values that the history keeps of a run, and the shapes of its answers."""

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

SIZE_BINS = ("0-100", "100-1K", "1K-10K", "10K-100K", "100K-1M", "1M-4M", "4M-10M", "10M-100M", "100M-1G", "1G+")
"""Request sizes in bytes, as Darshan counts them."""

FORWARDED = "forward"
"""The file system of runs through a forwarding layer; the layer's data servers are its OSTs."""

OPERATIONS = ("read", "write")
ORDERS = ("contiguous", "strided", "with_gaps", "backward")
"""Where a request starts: at the end of the previous one, ahead by a repeated stride or by another, or not ahead."""

DIAGNOSIS_SUMS = ("file_bytes", "io_seconds")
"""Columns of `run_diagnoses` that add up over processes."""

# A number beyond these bounds comes from a bug or a damaged log.

LATEST = 1 << 36
"""Seconds since 1970, in the year 4147."""
MOST_PROCESSES = 1 << 24
"""More than the largest machine has cores."""
MOST_OSTS = 1 << 16
"""Lustre's OST numbers have 16 bits."""
MOST_STRIPES = 2000
"""Stripes of a Lustre file, or of a component of its layout."""
LARGEST = 1 << 56
"""Of bytes (72 PB), requests, files or bytes per second. The sum of 128 such numbers still fits into 63 bits."""

Row = dict[str, Any]
"""A row of a table, by column; see `store/schema.toml`."""

# Runs whose I/O times are known, one row each: what a model of the file system is fitted to.
# Fields with two elements have one for reads and one for writes. Fields after `seconds` are 0 where unknown.
MEASURED = np.dtype(
    [
        ("start", "f8"),  # seconds since 1970
        ("processes", "i8"),  # that do I/O
        ("bytes", "i8", 2),
        ("seconds", "f8", 2),  # summed over processes
        ("requests", "i8", 2),
        ("contiguous", "i8", 2),  # requests that begin where the last one ended
        ("shared", "?", 2),  # whether most bytes are in files that several processes use
        ("opens", "i8"),  # at least so many opens of files
        ("meta_seconds", "f8"),
    ]
)
Measured = NDArray[np.void]
"""An array of `MEASURED`."""


class WholeRun(TypedDict):
    """A run with all that the history has about it."""

    run: Row
    modules: list[Row]
    requests: list[Row]
    osts: list[Row]
    logs: list[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class OstSums:
    """Sums over all runs on one OST: files, bytes, and the seconds that processes spent on them. `filesystem` is its
    mount point, "" if unknown."""

    filesystem: str = ""
    ost: int
    runs: int
    files: int
    total_bytes: int
    io_time: float
