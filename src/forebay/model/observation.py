"""What an I/O node saw of the requests that passed through it in one period."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One period (a second, on a live machine) at one I/O node; sizes and distances in bytes.

    A distance is how far a request begins from the end of the one before it to the same file, whichever process
    sent either; `spread` is the mean distance as a share of each file's extent, so that it does not depend on how
    large the files are. `load` is the mean number of requests that were there, waiting or in flight, over the
    period, and `busy` the share of the period in which there was any.
    """

    seconds: float
    files: int = 0
    reads: int = 0
    writes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    smallest: int = 0
    mean: float = 0.0
    largest: int = 0
    distance: float = 0.0
    spread: float = 0.0
    load: float = 0.0
    busy: float = 0.0
    depths: tuple[int, ...] = ()
    clients: int = 0
    processes: int = 0

    @property
    def requests(self) -> int:
        return self.reads + self.writes

    @property
    def operation(self) -> str:
        """What most bytes were for: "read" or "write"."""
        return "write" if self.bytes_written > self.bytes_read else "read"

    @property
    def bandwidth(self) -> float:
        """Bytes a second, both ways."""
        return (self.bytes_read + self.bytes_written) / self.seconds
