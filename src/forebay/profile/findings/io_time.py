"""How long a run's I/O takes in a model of the file system, as it is and with one thing changed.

A process waits for a server once for each request that its client cannot combine with others: requests that continue
where the last one ended travel together, up to `rpc` bytes at a time, unless other processes write the same file.
Every request costs a `call`, and bytes flow at `bandwidth`. The run takes as long as its busiest process, unless
something that processes share takes longer (`Limits`). A finding's gain is the ratio of two such times.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forebay.history.darshan.file_records import Uses
from forebay.model.arrays import Floats
from forebay.profile.calibration.filesystem_costs import DEFAULT, FileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What limits a run's I/O: the seconds that it would take if nothing but one of these took time. The longest of
    them counts."""

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


def data_time(uses: Uses, shared: NDArray[np.bool_], fs: FileSystem = DEFAULT) -> Floats:
    """Seconds of processes for the reads and the writes of each record, with two columns; `shared` says which files
    several processes use."""
    requests, moved = uses["requests"].astype(float), uses["bytes"].astype(float)
    trips, turns = count_waits(uses, shared[:, None], fs.rpc)
    seconds: Floats = moved / fs.bandwidth + requests * fs.call + trips * fs.latency + turns / fs.neighbours * fs.lock
    return seconds


def count_waits(uses: Uses, shared: NDArray[np.bool_], rpc: int) -> tuple[Floats, Floats]:
    """How often the reads and the writes of each record wait for a server, and how often for another client's lock."""
    requests, moved = uses["requests"].astype(float), uses["bytes"].astype(float)
    together = np.minimum(uses["contiguous"] / np.maximum(requests - 1, 1), 1)  # the first one follows none
    mean = moved / np.maximum(requests, 1)
    trips = requests * np.ceil(np.maximum(mean, 1) / rpc)
    combined = np.minimum(np.ceil(moved / rpc), trips)
    if "syncs" in (uses.dtype.names or ()):  # a history does not keep them
        combined[:, 1] = np.maximum(combined[:, 1], np.minimum(uses["syncs"], requests[:, 1]))  # each waits for all
    alone = trips * (1 - together)
    # Processes that write here and there in a file take the locks of its stripes from each other.
    contended = shared & (mean < rpc) & [False, True]
    return alone + combined * together, alone * contended


def ideal_time(uses: Uses, fs: FileSystem = DEFAULT) -> Floats:
    """The same bytes in requests of `rpc` bytes, one after the other."""
    moved = uses["bytes"].astype(float)
    trips = np.ceil(moved / fs.rpc)
    seconds: Floats = moved / fs.bandwidth + np.minimum(trips, uses["requests"]) * fs.call + trips * fs.latency
    return seconds
