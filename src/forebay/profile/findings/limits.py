"""What limits a run's I/O: the longest of several times in the model of its file system."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds from the beginning of a run's I/O to its end, if nothing but one of these took time."""

    process: float
    """The process with most to do, one request after the other."""
    total: float
    """All bytes through what the file system gives one run."""
    ost: float = 0.0
    """The bytes and the requests of the busiest OST; 0 if the log does not say where files are."""
    lock: float = 0.0
    """The turns that processes take in the stripes of a file, while its OSTs wait; 0 likewise."""

    @property
    def longest(self) -> float:
        return max(self.process, self.total, self.ost + self.lock, 1e-9)
