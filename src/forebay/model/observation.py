"""An I/O node's measurements of its requests in one period."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One period (a second, on a live machine) at one I/O node; sizes and distances in bytes.

    A `distance` is from the end of one request to the start of the next on the same file, whichever processes sent
    them. `spread` is the mean distance as a share of each file's extent, so that it does not depend on file sizes.
    `load` is the mean number of requests waiting or in flight, and `busy` the share of the period with at least one.
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
        """The operation with most bytes: "read" or "write"."""
        return "write" if self.bytes_written > self.bytes_read else "read"

    @property
    def bandwidth(self) -> float:
        """Bytes per second, read and written."""
        return (self.bytes_read + self.bytes_written) / self.seconds
