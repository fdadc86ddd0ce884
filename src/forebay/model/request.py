"""Requests for space on disks, as columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Requests in their order: how much space, from when, for how long.

    Times are seconds since 1970 (UTC), sizes bytes. `volume` is what the job reads and writes through the space, or
    its size if that is not known. `origin` is a phrase that says where the requests come from, `left_out` one that says
    what of it is left out.
    """

    ids: NDArray[Any]
    submitted: Floats
    start: Floats
    duration: Floats
    bytes: Ints
    volume: Floats
    origin: str = ""
    left_out: str = ""

    def __len__(self) -> int:
        return int(self.bytes.size)
