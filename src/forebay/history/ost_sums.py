"""What the runs of a history did on one OST, together."""

from dataclasses import dataclass


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
