"""Runs whose I/O times are known, one row each: what a model of the file system is fitted to."""

import numpy as np
from numpy.typing import NDArray

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
