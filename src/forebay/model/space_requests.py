"""Requests for space on disks, as columns."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from forebay.model.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Requests in order: the space that each needs, its start, and its duration.

    Times are seconds since 1970 (UTC), sizes bytes. `volume` is the number of bytes that the job reads and
    writes there, or the size of the space if that is unknown. `origin` is a phrase for the source of the requests,
    `left_out` one for what was left out.
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
